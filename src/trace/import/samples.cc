// Files of samples, as a Trace with nothing else.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

// A device that was lost: its rows have no values from then on, or there are none.
void add_silences(const SampleLog& log, Trace& trace) {
  constexpr int64_t kLeast_ns = 2'000'000'000, kTicks = 5;
  for (uint32_t d = 0; d < log.devices.size(); ++d) {
    int64_t last_ns = INT64_MIN, apart_ns = 0;
    for (const SampleSeries& s : log.series) {
      if (s.device != d || s.time_ns.empty() || s.time_ns.back() <= last_ns) continue;
      last_ns = s.time_ns.back(), apart_ns = median_distance(s.time_ns);
    }
    const int64_t silent_ns = last_ns == INT64_MIN ? 0 : log.last_ns - last_ns;
    if (silent_ns > std::max(kLeast_ns, kTicks * apart_ns))
      trace.issues.push_back({TraceIssueKind::kOther, 1,
                              fmt::format("GPU {} has no values in the last {:.1f} s of {:.1f}: was it lost? Its "
                                          "figures are of the time before",
                                          log.label(d), static_cast<double>(silent_ns) * 1e-9,
                                          static_cast<double>(log.last_ns - log.first_ns) * 1e-9)});
  }
}

Result<Trace> read(const std::string& path, const ImportOptions&) {
  SampleFileIssues issues;
  auto log = read_sample_file(path, issues);
  if (!log) return log.error();
  Trace trace;
  trace.events = log->ticks;
  trace.windows = {{log->first_ns, log->last_ns}};
  trace.samples = *std::move(log);
  add_silences(trace.samples, trace);
  const auto add = [&](TraceIssueKind kind, int64_t count, std::string text) {
    if (count > 0) trace.issues.push_back({kind, count, std::move(text)});
  };
  add(TraceIssueKind::kDamaged, issues.damaged_rows,
      fmt::format("unreadable or partly readable rows: {}; the first is line {}{}", issues.damaged_rows,
                  issues.first_damaged_line,
                  issues.reported.empty() ? std::string() : "; one says \"" + issues.reported + '"'));
  add(TraceIssueKind::kTruncated, issues.torn, "left out the last row, which is incomplete (was the logger killed?)");
  add(TraceIssueKind::kOther, issues.one_device,
      "rows do not state their device, so all count as one (also log `index` or `uuid`)");
  add(TraceIssueKind::kUnknownRows, static_cast<int64_t>(issues.unknown.size()),
      "unknown columns: " + joined(issues.unknown));
  return trace;
}

}  // namespace

extern const Importer kSamples = {.name = "samples",
                                  .noun = "device samples",
                                  .summary = "samples of devices, CSV, JSON lines or a table: profgpu log's, nvidia-smi "
                                             "--query-gpu's and nvidia-smi dmon's",
                                  .examples = "gpu.jsonl, gpu.csv, gpu.csv.gz",
                                  .sniff = looks_like_samples,
                                  .read = read,
                                  .beside_traces = true};

}  // namespace profgpu
