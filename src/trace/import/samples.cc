// Files of samples, as a Trace with nothing else.
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
  const auto add = [&](TraceIssueKind kind, int64_t count, std::string text) {
    if (count > 0) trace.issues.push_back({kind, count, std::move(text)});
  };
  add(TraceIssueKind::kDamaged, issues.damaged_rows,
      fmt::format("unreadable or partly readable rows: {}; the first is line {}", issues.damaged_rows,
                  issues.first_damaged_line));
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
