// The Chrome trace of JAX' and TensorFlow's profiler, `*.trace.json.gz`. Processes are planes, threads are lines. Times
// count from where the recording began.
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "trace/import/chrome_events.h"
#include "trace/import/importer.h"
#include "trace/import/xla_rows.h"
#include "trace/trace_builder.h"
#include "trace/xla_profile.h"

namespace profgpu {
namespace {

using std::string_view;

/// Takes events in the order of the file, in which a line's name may come after its events.
class XlaJson {
 public:
  explicit XlaJson(Shard& shard) : shard_(shard), rows_(shard) {}

  void take(const ChromeEvent& event) {
    if (event.phase == 'M' && event.name == "process_name")
      planes_[event.process] = json_member(event.arguments, "name");
    if (event.phase == 'M' && event.name == "thread_name")
      lines_[{event.process, event.thread}] = json_member(event.arguments, "name");
    if (event.phase != 'X') return;
    if (!event.start_ns || !event.duration_ns) return void(++shard_.issues[TraceIssueKind::kOutOfRange]);
    const std::function<std::string(string_view)> stat = [&](string_view name) {
      return json_member(event.arguments, name);
    };
    rows_.add(line_of(event), {event.name, *event.start_ns, *event.duration_ns,
                               event.arguments.empty() ? nullptr : &stat});
  }
  XlaRows& rows() { return rows_; }

 private:
  const XlaLine& line_of(const ChromeEvent& event) {
    const auto plane = planes_.find(event.process);
    const std::pair key{event.process, event.thread};
    const auto line = lines_.find(key);
    XlaLine& known = known_[key];
    const string_view name = line != lines_.end() ? string_view(line->second) : "";
    if (known.kind == XlaLine::Kind::kUnknown && plane != planes_.end())
      known = xla_line(plane->second, name, event.process, event.thread);
    return known;
  }

  Shard& shard_;
  XlaRows rows_;
  std::map<std::string, std::string> planes_;
  std::map<std::pair<std::string, std::string>, std::string> lines_;
  std::map<std::pair<std::string, std::string>, XlaLine> known_;
};

// PyTorch's traces have such names as well ("/host:CPU" is none of them).
bool sniff_xla_json(string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return begin != head.npos && head[begin] == '{' && contains(head, "\"traceEvents\"") &&
         contains(head, "\"process_name\"") && (contains(head, "\"/host:") || contains(head, "/device:GPU:") ||
                                                contains(head, "/device:TPU:"));
}

Result<Trace> read_xla_json(const std::string& path, const ImportOptions& options) {
  TraceBuilder builder;
  builder.header().recorder = Recorder::kOther;
  builder.header().metadata.emplace_back(kXlaProfileField, "");
  XlaJson reader(builder.shard());
  auto read = read_chrome_events(path, [&](const ChromeEvent& event) { reader.take(event); });
  if (!read) return read.error();
  reader.rows().finish();
  reader.rows().name_devices(builder.header().devices);
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path + ": a trace of JAX or TensorFlow without any events that profgpu reads",
                 "record a few steps between jax.profiler.start_trace() and stop_trace()"};
  read->add_issues(trace);
  add_xla_issues(reader.rows(), counts, trace);
  constexpr int64_t kExported = 1'000'000;   // TensorFlow's exporter drops what is beyond
  if (read->events >= kExported)
    trace.issues.push_back({TraceIssueKind::kDropped, 1,
                            "the profiler's JSON ends at a million events: give the .xplane.pb beside it instead"});
  return trace;
}

}  // namespace

extern const Importer kXlaJson = {.name = "xla-json",
                                  .noun = "JAX or TensorFlow trace",
                                  .summary = "JAX' and TensorFlow's profiler, Chrome JSON",
                                  .examples = "host.trace.json.gz, perfetto_trace.json.gz",
                                  .sniff = sniff_xla_json,
                                  .read = read_xla_json};

}  // namespace profgpu
