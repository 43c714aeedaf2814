// <profgpu/c.h>: monitors, which are profgpu::Monitor; and the ranges that a program names, which go to the recorder in
// this process and to the monitors that follow a thread.
#include <profgpu/c.h>
#include <profgpu/monitor.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/dyn_lib.h"
#include "base/text.h"
#include "capi/c_values.h"
#include "view/json_text.h"

struct profgpu_monitor {
  profgpu::Monitor monitor;
};

namespace profgpu {
namespace {

/// libprofgpu-inject.so, where `profgpu run --trace` has put it into the environment: the functions it exports.
struct InjectedRecorder {
  DynLib library;
  int (*start)(const char*) = nullptr;
  void (*push)(const char*) = nullptr;
  void (*pop)() = nullptr;
  void (*mark)(const char*) = nullptr;
  void (*step_ended)() = nullptr;   // a recorder of an earlier version has none
  [[nodiscard]] bool there() const { return start && push && pop && mark; }
};

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

InjectedRecorder open_recorder() {
  InjectedRecorder recorder;
  if (!is_set("PROFGPU_RECORD") || !is_set("PROFGPU_INJECT")) return recorder;
  auto library = DynLib::open(std::getenv("PROFGPU_INJECT"));
  if (!library) return recorder;
  recorder.library = *std::move(library);
  recorder.start = recorder.library.symbol<int (*)(const char*)>("profgpu_start");
  recorder.push = recorder.library.symbol<void (*)(const char*)>("profgpu_push");
  recorder.pop = recorder.library.symbol<void (*)()>("profgpu_pop");
  recorder.mark = recorder.library.symbol<void (*)(const char*)>("profgpu_mark");
  recorder.step_ended = recorder.library.symbol<void (*)()>("profgpu_step_ended");
  return recorder;
}

std::atomic<bool> has_started{false};   // in this process; a forked child starts its own

struct Followed {
  Monitor* monitor;
  std::thread::id thread;
};

// They outlive the destructors of static objects.
std::atomic<int> followed_count{0};
std::mutex& followed_mutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}
std::vector<Followed>& followed() {
  static auto* const all = new std::vector<Followed>;
  return *all;
}

// No thread but the forking one goes on in a child, and monitors run in none.
void prepare_for_forks() {
  static const int done = ::pthread_atfork([] { followed_mutex().lock(); }, [] { followed_mutex().unlock(); },
                                           [] {
                                             has_started = false;
                                             followed_count = 0;
                                             followed().clear();
                                             followed_mutex().unlock();
                                           });
  static_cast<void>(done);
}

/// Null: this process is not recorded. The recorder starts with the first range: a process without any leaves no file.
const InjectedRecorder* recorder() {
  static const InjectedRecorder* const opened = [] {
    prepare_for_forks();
    return new InjectedRecorder(open_recorder());   // never closed: ranges may come until the process ends
  }();
  if (!opened->there()) return nullptr;
  if (!has_started.load(std::memory_order_relaxed)) {
    if (opened->start("program") == 0) return nullptr;
    has_started = true;
  }
  return opened;
}

// A monitor that is started between two ranges, or whose thread leaves the outermost one.
constexpr const char* kBetween = "other";

struct OpenRange {
  std::string phase;   // what monitors call it
  bool is_step;
};
thread_local std::vector<OpenRange> open_ranges;

bool is_within_step() {
  return std::any_of(open_ranges.begin(), open_ranges.end(), [](const OpenRange& r) { return r.is_step; });
}

// `popped`: the range that is the innermost one now was open before.
void mark_monitors(bool popped) {
  if (followed_count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(followed_mutex());
  for (const Followed& f : followed()) {
    if (f.thread != std::this_thread::get_id()) continue;
    f.monitor->within_step(is_within_step());
    if (open_ranges.empty())
      f.monitor->mark(kBetween);
    else if (popped)
      f.monitor->go_on(open_ranges.back().phase);
    else
      f.monitor->mark(open_ranges.back().phase);
  }
}

void push(const std::string& name, OpenRange range) {
  if (const InjectedRecorder* r = recorder()) r->push(name.c_str());
  open_ranges.push_back(std::move(range));
  mark_monitors(false);
}

// After it, no thread is in the monitor's mark() for a range. Nothing where the monitor follows none.
void unfollow_ranges(Monitor& monitor) {
  const std::lock_guard lock(followed_mutex());
  std::vector<Followed>& all = followed();
  followed_count -= static_cast<int>(std::erase_if(all, [&](const Followed& f) { return f.monitor == &monitor; }));
}

// From here on, what the calling thread opens and closes is a mark of the monitor's. Again: from this thread instead.
void follow_ranges(Monitor& monitor) {
  prepare_for_forks();
  unfollow_ranges(monitor);
  const std::lock_guard lock(followed_mutex());
  followed().push_back({&monitor, std::this_thread::get_id()});
  ++followed_count;
  monitor.within_step(is_within_step());
  if (!open_ranges.empty()) monitor.mark(open_ranges.back().phase);
}

MonitorOptions options_of(const profgpu_monitor_options* given) {
  profgpu_monitor_options asked{};
  if (given != nullptr) std::memcpy(&asked, given, std::min(given->struct_size, sizeof asked));
  MonitorOptions options;
  options.devices = texts(asked.devices, asked.device_count);
  if (asked.interval_s != 0) options.interval_s = asked.interval_s;
  if (asked.backend.size > 0) options.backend = view(asked.backend);
  options.warmup_s = std::max(0.0, asked.warmup_s);
  options.keep_samples = asked.keep_samples;
  return options;
}

/// Writes members of an object: what is not known is left out, lists and maps of figures take one line.
struct Members {
  JsonText& json;

  void operator()(std::string_view name, const std::string& text) const { json.key(name), json.text(text); }
  void operator()(std::string_view name, int64_t n) const { json.key(name), json.integer(n); }
  void operator()(std::string_view name, double x) const { json.key(name), json.real(x); }
  void operator()(std::string_view name, const std::optional<double>& x) const {
    if (x) (*this)(name, *x);
  }
  void operator()(std::string_view name, const std::map<std::string, double>& figures) const {
    json.key(name), json.open('{', Layout::kInline);
    for (const auto& [key, figure] : figures) (*this)(key, figure);
    json.close('}');
  }
  void operator()(std::string_view name, const std::vector<std::string>& texts) const {
    json.key(name), json.open('[', Layout::kInline);
    for (const std::string& text : texts) json.element(), json.text(text);
    json.close(']');
  }
  void operator()(std::string_view name, const std::vector<double>& figures) const {
    json.key(name), json.open('[', Layout::kInline);
    for (const double x : figures) json.element(), json.real(x);   // NaN is null
    json.close(']');
  }
  void operator()(std::string_view name, const std::map<std::string, MonitorStatistics>& metrics) const {
    json.key(name), json.open('{');
    for (const auto& [metric, s] : metrics) {
      json.key(metric), json.open('{', Layout::kInline);
      (*this)("mean", s.mean), (*this)("stddev", s.stddev), (*this)("min", s.min), (*this)("max", s.max);
      (*this)("samples", s.samples), (*this)("resolution_s", s.resolution_s);
      json.close('}');
    }
    json.close('}');
  }
  void operator()(const MonitorPhase& p) const {
    json.open('{', Layout::kInline);
    (*this)("name", p.name), (*this)("count", p.count), (*this)("duration_s", p.duration_s);
    (*this)("utilization_mean_pct", p.utilization_mean_pct), (*this)("power_mean_w", p.power_mean_w);
    (*this)("energy_j", p.energy_j), (*this)("memory_max_bytes", p.memory_max_bytes);
    json.close('}');
  }
};

void write_summary(JsonText& json, const MonitorSummary& s, const std::vector<MonitorPhase>& phases,
                   const std::vector<MonitorPhase>& steps, size_t place) {
  const Members v{json};
  json.open('{');
  v("device", s.device), v("name", s.name), v("uuid", s.uuid), v("pci_bus_id", s.pci_bus_id);
  v("duration_s", s.duration_s), v("interval_s", s.interval_s), v("readings", s.readings), v("metrics", s.metrics);
  v("counters", s.counters), v("constants", s.constants), v("utilization_p5", s.utilization_p5);
  v("utilization_p50", s.utilization_p50), v("utilization_p95", s.utilization_p95);
  v("utilization_p99", s.utilization_p99), v("idle_pct", s.idle_pct), v("active_pct", s.active_pct);
  v("busy_s", s.busy_s), v("energy_j", s.energy_j), v("energy_method", s.energy_method);
  v("throttle_pct", s.throttle_pct), v("memory_growth_bytes_per_s", s.memory_growth_bytes_per_s);
  v("trace", s.trace), v("notes", s.notes), v("troubles", s.troubles);
  json.key("phases"), json.open('[');
  for (const MonitorPhase& p : phases)
    if (p.device == place) json.element(), v(p);
  json.close(']');
  for (const MonitorPhase& p : steps)
    if (p.device == place) json.key("steps"), v(p);
  json.close('}');
}

std::unique_ptr<profgpu_table> table_of(const std::vector<MonitorSample>& samples) {
  std::set<std::string> metrics;
  for (const MonitorSample& s : samples)
    for (const auto& [name, value] : s.values) metrics.insert(name);
  std::vector<std::string> names = {"t_s", "time_ns", "device", "utilization_age_s"};
  names.insert(names.end(), metrics.begin(), metrics.end());
  std::vector<ColumnValues> columns(names.size());
  columns[0] = ColumnValues(Datum::Kind::kReal);
  columns[1] = columns[2] = ColumnValues(Datum::Kind::kInteger);
  for (size_t i = 3; i < columns.size(); ++i) columns[i] = ColumnValues(Datum::Kind::kReal);
  for (const MonitorSample& s : samples) {
    columns[0].add(s.t_s);
    columns[1].add(s.time_ns);
    columns[2].add(s.device);
    columns[3].add(s.age_s ? Datum(*s.age_s) : Datum());
    for (size_t i = 4; i < columns.size(); ++i) {
      const auto at = s.values.find(names[i]);
      columns[i].add(at != s.values.end() ? Datum(at->second) : Datum());
    }
  }
  return finished_table(std::move(names), std::move(columns));
}

}  // namespace
}  // namespace profgpu

using namespace profgpu;

extern "C" {

void profgpu_range_push(profgpu_string name) { push(std::string(view(name)), {std::string(view(name)), false}); }

void profgpu_range_pop(void) {
  if (open_ranges.empty()) return;
  const InjectedRecorder* const r = recorder();
  const bool step = open_ranges.back().is_step;
  if (r != nullptr) r->pop();
  open_ranges.pop_back();
  if (r != nullptr && r->step_ended != nullptr && step && !is_within_step()) r->step_ended();
  mark_monitors(true);
}

void profgpu_step_push(int64_t number) { push("ProfilerStep#" + std::to_string(number), {"step", true}); }

void profgpu_range_mark(profgpu_string name) {
  if (const InjectedRecorder* r = recorder()) r->mark(std::string(view(name)).c_str());
}

int profgpu_is_recorded(void) { return recorder() != nullptr ? 1 : 0; }

profgpu_monitor* profgpu_monitor_open(const profgpu_monitor_options* options) {
  return new profgpu_monitor{Monitor(options_of(options))};
}

profgpu_string profgpu_monitor_problem(const profgpu_monitor* monitor) {
  return borrowed(monitor != nullptr ? std::string_view(monitor->monitor.problem()) : "there is no monitor");
}

void profgpu_monitor_start(profgpu_monitor* monitor) {
  if (monitor == nullptr) return;
  monitor->monitor.start();
  follow_ranges(monitor->monitor);
}

void profgpu_monitor_mark(profgpu_monitor* monitor, profgpu_string name) {
  if (monitor != nullptr) monitor->monitor.mark(std::string(view(name)));
}

void profgpu_monitor_stop(profgpu_monitor* monitor) {
  if (monitor == nullptr) return;
  unfollow_ranges(monitor->monitor);
  monitor->monitor.stop();
}

profgpu_text* profgpu_monitor_summary(const profgpu_monitor* monitor) {
  if (monitor == nullptr) return nullptr;
  const std::vector<MonitorSummary> devices = monitor->monitor.summary();
  const std::vector<MonitorPhase> phases = monitor->monitor.phases(), steps = monitor->monitor.steps();
  JsonText json;
  json.open('[');
  for (size_t i = 0; i < devices.size(); ++i) json.element(), write_summary(json, devices[i], phases, steps, i);
  json.close(']');
  return new profgpu_text{json.take()};
}

profgpu_text* profgpu_monitor_summary_text(const profgpu_monitor* monitor) {
  if (monitor == nullptr) return nullptr;
  std::string text;
  for (const MonitorSummary& device : monitor->monitor.summary()) append_listed(text, device.text(), "\n");
  return new profgpu_text{std::move(text)};
}

profgpu_table* profgpu_monitor_samples(const profgpu_monitor* monitor) {
  return monitor != nullptr ? table_of(monitor->monitor.samples()).release() : nullptr;
}

void profgpu_monitor_free(profgpu_monitor* monitor) {
  if (monitor != nullptr) unfollow_ranges(monitor->monitor);
  delete monitor;
}
}
