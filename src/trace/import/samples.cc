// Files of samples: a Trace that has samples and nothing else.
#include <fmt/format.h>

#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

Result<Trace> read(const std::string& path, const ImportOptions&) {
  SampleFileIssues issues;
  auto log = read_sample_file(path, issues);
  if (!log) return log.error();
  Trace trace;
  trace.events = log->ticks;
  trace.windows = {{log->first_ns, log->last_ns}};
  trace.samples = *std::move(log);
  const auto say = [&](TraceIssueKind kind, int64_t count, std::string text) {
    if (count > 0) trace.issues.push_back({kind, count, std::move(text)});
  };
  say(TraceIssueKind::kDamaged, issues.damaged_rows,
      fmt::format("rows that could not be read, or not all of them: {}; the first is line {}", issues.damaged_rows,
                  issues.first_damaged_line));
  say(TraceIssueKind::kTruncated, issues.torn, "the last row is not whole and was left out (was the logger killed?)");
  say(TraceIssueKind::kOther, issues.one_device,
      "rows do not say of which device they are, so all count as one (log `index` or `uuid` too)");
  std::string names = joined(issues.unknown);
  say(TraceIssueKind::kUnknownRows, static_cast<int64_t>(issues.unknown.size()),
      "columns that profgpu does not know: " + names);
  return trace;
}

}  // namespace

extern const Importer kSamples;
const Importer kSamples = {"samples", "samples of devices",
                           "samples of devices, CSV or JSON lines: profgpu log's and nvidia-smi --query-gpu's",
                           "gpu.jsonl, gpu.csv, gpu.csv.gz", looks_like_samples, read};

}  // namespace profgpu
