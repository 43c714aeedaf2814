// The JSON of rocprof (v1 and v2), which AMD's profilers before rocprofv3 write: Chrome events whose arguments have the
// times in nanoseconds. Processes are rows of the picture: "0 CPU HIP API", "1 COPY", "7 GPU0". Which call launched a
// kernel is told by their order, where there are as many of both.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/decimal.h"
#include "base/text.h"
#include "trace/import/chrome_events.h"
#include "trace/import/importer.h"
#include "trace/import/rocm_rows.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

using std::string_view;

class RocprofEvents {
 public:
  explicit RocprofEvents(RocmRows& rows) : rows_(rows) {}

  void take(const ChromeEvent& e) {
    if (e.phase == 'M' && e.name == "process_name") row_names_[e.process] = json_member(e.arguments, "name");
    if (e.phase != 'X') return;
    const auto number = [&](string_view key, int64_t otherwise) {
      return whole_number(json_member(e.arguments, key)).value_or(otherwise);
    };
    const int64_t start = number("BeginNs", -1), end = number("EndNs", -1);
    const string_view row = row_names_[e.process];
    if (contains(row, "COPY") || e.name.starts_with("Copy"))
      rows_.add(RocmCopy{e.name, start, end, kHost, device(number("dev-id", 0)), number("stream-id", 0), 0, -1});
    else if (contains(row, "GPU"))
      kernels_.push_back({e.name, start, end, device(number("dev-id", 0)), number("stream-id", number("queue-id", 0))});
    else if (contains(row, "Marker"))
      rows_.add_marker({e.name, start, end, number("pid", 0), number("tid", 0), 0});
    else if (contains(e.name, "Launch"))
      launches_.push_back({e.name, start, end, number("pid", 0), number("tid", 0)});
    else
      rows_.add_call({e.name, start, end, number("pid", 0), number("tid", 0), 0});
  }

  void finish() {
    std::ranges::stable_sort(kernels_, {}, &Event::start_ns);
    std::ranges::stable_sort(launches_, {}, &Event::start_ns);
    bool linked = kernels_.size() == launches_.size();
    for (size_t i = 0; linked && i < kernels_.size(); ++i) linked = launches_[i].start_ns <= kernels_[i].start_ns;
    int64_t correlation = 0;
    for (const Event& e : launches_)
      rows_.add_call({e.name, e.start_ns, e.end_ns, e.owner, e.place, linked ? ++correlation : 0});
    correlation = 0;
    for (const Event& e : kernels_) {
      RocmDispatch d;
      d.kernel = e.name;
      d.start_ns = e.start_ns, d.end_ns = e.end_ns;
      d.agent = e.owner, d.queue = e.place;
      d.correlation = linked ? ++correlation : 0;
      rows_.add(d);
    }
  }

 private:
  static constexpr int64_t kHost = -1;
  struct Event {
    std::string name;
    int64_t start_ns = 0, end_ns = 0;
    int64_t owner = 0, place = 0;   // device and queue, or process and thread
  };

  int64_t device(int64_t number) {
    if (devices_.insert(number).second) rows_.add_agent(number, true, "", 0);
    return number;
  }

  RocmRows& rows_;
  std::map<std::string, std::string> row_names_;   // by process
  std::set<int64_t> devices_;
  std::vector<Event> kernels_, launches_;
};

bool sniff_rocprof_v1_json(string_view head) {
  return contains(head, "\"traceEvents\"") && contains(head, "\"BeginNs\"") && contains(head, "\"EndNs\"");
}

Result<Trace> read_rocprof_v1_json(const std::string& path, const ImportOptions& options) {
  TraceBuilder builder;
  builder.header().recorder = Recorder::kRocprof;
  RocmRows rows(builder.shard());
  RocprofEvents events(rows);
  auto read = read_chrome_events(path, [&](const ChromeEvent& event) { events.take(event); });
  if (!read) return read.error();
  events.finish();
  builder.shard().events = read->events;
  const IssueCounts counts = builder.issue_counts();
  builder.header().devices = rows.devices();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path + ": an output of AMD's rocprof without any events that profgpu reads",
                 "record again with rocprofv3 --sys-trace"};
  read->add_issues(trace);
  add_rocm_issues(true, counts, {}, trace);   // what is cut, add_issues() says
  return trace;
}

}  // namespace

extern const Importer kRocprofV1Json = {"rocprof-v1-json",
                                        "rocprof JSON",
                                        "AMD's rocprof before rocprofv3, JSON: kernels, copies, HIP and HSA calls",
                                        "results.json",
                                        sniff_rocprof_v1_json,
                                        read_rocprof_v1_json};

}  // namespace profgpu
