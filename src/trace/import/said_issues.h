// What importers say at the end of a file that they could not read in full.
#pragma once

#include <fmt/format.h>

#include "trace/trace_builder.h"

namespace profgpu {

/// `text` has a {} where the count stands. Nothing for none.
inline void add_count(Trace& trace, TraceIssueKind kind, int64_t count, std::string_view text) {
  if (count > 0) trace.issues.push_back({kind, count, fmt::format(fmt::runtime(text), count)});
}

inline void add_counts(Trace& trace, const IssueCounts& counts,
                       std::initializer_list<std::pair<TraceIssueKind, std::string_view>> texts) {
  for (const auto& [kind, text] : texts)
    if (const auto it = counts.find(kind); it != counts.end()) add_count(trace, kind, it->second, text);
}

/// Of a text that was read up to a place.
inline void add_cut(Trace& trace) {
  trace.issues.push_back(
      {TraceIssueKind::kTruncated, 1, "the file ends early, or is damaged there: what comes before was read"});
}

}  // namespace profgpu
