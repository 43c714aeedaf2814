#include "trace/import/result_json.h"

#include <algorithm>
#include <memory>

#include "base/text_source.h"
#include "trace/import/whole_text.h"
#include "trace/trace_builder.h"

namespace profgpu {

Result<Trace> read_result_json(const std::string& path, size_t most, RunLog begun,
                               const std::function<bool(JsonReader, RunLog&)>& read) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string text = whole_text(**source, most);
  auto log = std::make_shared<RunLog>(std::move(begun));
  log->path = path;
  log->lines = std::ranges::count(text, '\n');
  const bool whole = read(JsonReader::over(text), *log);
  if (!whole) log->problem = "is not whole: the JSON ends early, or stops being JSON";
  if (!whole && (*source)->end() > TextSource::End::kComplete) log->problem = (*source)->problem();
  log->records = static_cast<int64_t>(log->rates.size() + log->copies.size());
  TraceBuilder builder;
  if (!whole) builder.header().issues.push_back({TraceIssueKind::kTruncated, 1, log->problem});
  Trace trace = builder.finish(1);
  trace.events = log->records;
  trace.log = std::move(log);
  return trace;
}

}  // namespace profgpu
