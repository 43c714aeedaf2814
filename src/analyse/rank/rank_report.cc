#include "analyse/rank/rank_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "analyse/rank/captures.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/launch.h"
#include "analyse/rank/names.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/tasks.h"
#include "base/text.h"
#include "trace/no_timeline.h"

namespace profgpu {
namespace {

constexpr int64_t kMinOverrun_ns = 1'000;   // clocks jitter by less

// Records that end later than the next one of their stream starts.
void add_overruns(const Trace& trace, std::vector<TraceIssue>& issues) {
  const ActivityTable& a = trace.activity;
  std::vector<int64_t> next_start(trace.queues.size(), INT64_MAX);
  int64_t count = 0;
  for (size_t i = a.size(); i-- > 0;) {
    const uint16_t q = a.queue[i];
    if (next_start[q] != INT64_MAX && a.end_ns(ActivityId(i)) - next_start[q] > kMinOverrun_ns) ++count;
    next_start[q] = a.start_ns[i];
  }
  if (count > 0)
    issues.push_back({TraceIssueKind::kOverrun, count,
                      fmt::format("device records that last beyond the start of the next one on their stream: {}; "
                                  "device times may be too long",
                                  count)});
}

// Successive launches of a thread.
struct Stretch {
  ThreadId thread;
  int64_t launches = 0;
  Interval time{0, 0};

  void add(const Trace& trace, HostId call) {
    if (launches++ == 0) thread = trace.host.thread[call.value], time.start = trace.host.start_ns[call.value];
    time.end = trace.host.end_ns(call);
  }
};

// Kernel launches without activity. Calls that fail or are captured into a graph never have any, so a few are normal;
// so are those at the end of the window.
void add_missing_activity(const Facts& facts, std::vector<TraceIssue>& issues) {
  const Trace& trace = facts.trace();
  if (trace.activity.size() == 0) return;
  const KernelLaunches& kernels = facts.get<KernelLaunches>();
  const auto launches = static_cast<int64_t>(kernels.calls.size());
  int64_t without = 0;
  Stretch now, longest;
  for (const HostId call : kernels.calls) {
    const bool has_activity = kernels.has_activity[call.value];
    without += !has_activity;
    now = has_activity || trace.host.thread[call.value] != now.thread ? Stretch() : now;
    if (!has_activity) now.add(trace, call);
    if (now.launches > longest.launches) longest = now;
  }
  if (without == 0) return;
  const std::string stretch =
      longest.launches < kMinLost
          ? ""
          : fmt::format("; {} of them in a row, for {:.3g} ms from {:.3f} s after the first event: unknown what ran "
                        "then",
                        format_count(longest.launches), static_cast<double>(longest.time.length()) / 1e6,
                        static_cast<double>(longest.time.start - trace.windows.front().start) / 1e9);
  issues.push_back({TraceIssueKind::kLaunchWithoutActivity, without,
                    fmt::format("kernel launches without a kernel in the file: {} of {}; the profiler dropped them, or "
                                "they ran after recording stopped{}",
                                format_count(without), format_count(launches), stretch)});
}

void add_captured_graphs(const Facts& facts, std::vector<TraceIssue>& issues) {
  const Captures& captures = facts.get<Captures>();
  if (captures.replayed == 0) return;
  issues.push_back(
      {TraceIssueKind::kNote, captures.named,
       captures.named == 0 ? "no capture in the input certainly belongs to the replayed graph: its kernels have no "
                             "operators"
                           : fmt::format("{} of the {} kernels and copies of replayed graphs carry the operators, "
                                         "modules and shapes of the graph's capture{}",
                                         format_count(captures.named), format_count(captures.replayed),
                                         captures.sizes_uncertain.empty()
                                             ? ""
                                             : "; where several captures fit, shapes are not certain")});
}

// Device work without a launching call. Returns its share of busy time.
void add_unlaunched(const Facts& facts, std::vector<TraceIssue>& issues) {
  const Trace& trace = facts.trace();
  int64_t count = 0, time = 0, all = 0;
  for (const DeviceTime& device : facts.get<Devices>().devices) {
    Intervals without;
    for (ActivityId a = device.begin; a < device.end; ++a)
      if (!trace.activity.launch[a.value].valid() && !contains(trace.name(a), "(Unified memory)"))   // the driver's own
        without.push_back(trace.activity.interval(a));
    count += static_cast<int64_t>(without.size());
    time += total_length(merged(std::move(without)));
    all += device.busy_ns;
  }
  if (count == 0 || trace.host.size() == 0 || has_no_timeline(trace)) return;
  issues.push_back({TraceIssueKind::kActivityWithoutLaunch, count,
                    fmt::format("device records without a launching call in the file: {} ({:.1f} % of busy time); "
                                "their phase and the cause of gaps before them are uncertain",
                                format_count(count), percent_of(time, all))});
}

std::string where_activity_may_be(const Facts& facts) {
  const Trace& trace = facts.trace();
  constexpr double kMuchUnread_pct = 25;
  if (trace.cut_off) return " (it may be in the part that is cut off)";
  if (trace.unread_pct >= kMuchUnread_pct) return " (it may be among the rows whose kind is not known)";
  if (facts.get<Names>().launches()) return " (its launches are there: the profiler could not record what they run)";
  const std::string_view advice = recorder_advice(trace).device_activity;
  return trace.recorded || advice.empty() ? "" : fmt::format(" ({})", advice);
}

// "--steps 0:5 selects training"; empty: other steps are among these.
std::string selection(const std::vector<Step>& steps, StepKind kind) {
  const auto of_kind = [&](const Step& s) { return s.batch.kind == kind; };
  const auto first = std::ranges::find_if(steps, of_kind);
  const auto last = std::ranges::find_if(steps.rbegin(), steps.rend(), of_kind).base();
  if (!std::all_of(first, last, of_kind)) return "";
  return fmt::format(": --steps {}:{} selects training", first->index, (last - 1)->index + 1);
}

// Averages are over all steps that are not warm-up, whatever they do.
void add_mixed_steps(const Steps& steps, std::vector<TraceIssue>& issues) {
  const auto count = [&](StepKind kind, auto fits) {
    return std::ranges::count_if(steps.steps, [&](const Step& s) { return s.batch.kind == kind && std::invoke(fits, s); });
  };
  const int64_t train = count(StepKind::kTrain, &Step::measured), eval = count(StepKind::kEval, &Step::measured);
  const int64_t longer = count(StepKind::kTrain, &Step::warmup);
  if (eval == 0 || train + longer == 0) return;
  const std::string how = selection(steps.steps, StepKind::kTrain);
  issues.push_back(
      {TraceIssueKind::kNote, 1,
       train > 0 ? fmt::format("averages are over steps of training ({}) and of evaluation ({}){}", train, eval, how)
                 : fmt::format("training steps ({}) are longer than those of evaluation and count as warm-up, so averages are "
                               "of evaluation alone{}",
                               longer, how)});
}

}  // namespace

Quality Quality::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Quality quality;
  auto& issues = quality.issues;
  if (!trace.log_steps.empty()) return quality;   // the log says itself what it lacks
  if (trace.only_snapshots()) return quality;
  const auto captures = [](const Intervals& of_thread) { return !of_thread.empty(); };
  const bool captured = std::ranges::any_of(facts.get<Captures>().time, captures);
  // An MPI program without a GPU is whole as it is.
  const bool of_host = trace.recorded && !facts.get<MpiCalls>().time.empty();
  if (trace.activity.size() == 0 && !of_host)
    issues.push_back({TraceIssueKind::kNoDeviceActivity, 1,
                      "no GPU activity in the file: device figures are missing" +
                          (captured ? " (a graph is captured, and nothing runs)" : where_activity_may_be(facts))});
  if (trace.host.size() == 0)
    issues.push_back({TraceIssueKind::kNoHostEvents, 1, "no host events in the file: causes of idle time are unknown"});
  const Steps& steps = facts.get<Steps>();
  if (steps.estimated > 0)
    issues.push_back({TraceIssueKind::kNoSteps, 1,
                      fmt::format("no steps are marked: they were estimated from the repetition on the busiest stream "
                                  "({:.0f} % alike); --step-pattern selects ranges that are steps",
                                  steps.estimated * 100)});
  if (steps.estimated <= 0 && !steps.annotated)
    issues.push_back({TraceIssueKind::kNoSteps, 1,
                      fmt::format("no steps are marked ({}, or pass --step-pattern): the whole trace counts as one",
                                  mark_steps_advice(trace))});
  add_mixed_steps(steps, issues);
  add_overruns(trace, issues);
  add_missing_activity(facts, issues);
  add_captured_graphs(facts, issues);
  add_unlaunched(facts, issues);
  return quality;
}

namespace {

// Rows and optional parts are computed here; other analyses are facts.
template <class T>
T made(const Facts& facts) {
  if constexpr (std::is_same_v<T, std::optional<SnapshotSection>>)
    return facts.get<Snapshot>().section;
  else if constexpr (requires { T::value_type::rows(facts); })
    return T::value_type::rows(facts);
  else if constexpr (requires { T::value_type::compute(facts); }) return T::value_type::compute(facts);
  else return facts.get<T>();
}

}  // namespace

std::span<const Section> sections() {
  static const std::vector<Section> all = [] {
    std::vector<Section> each;
    RankReport::sections(RankReport(), [&](const Section& section, const auto&) { each.push_back(section); });
    return each;
  }();
  return all;
}

const Section* find_section(std::string_view name) {
  const auto all = sections();
  return first_where(all, [&](const Section& section) { return section.name == name; });
}

Value section_value(const RankReport& rank, std::string_view name) {
  Value value;
  RankReport::sections(rank, [&](const Section& section, const auto& rows) {
    if (section.name == name) value = value_of(rows);
  });
  return value;
}

Value section_value(const Facts& facts, std::string_view name) {
  Value value;
  RankReport::sections(RankReport(), [&]<class T>(const Section& section, const T&) {
    if (section.name == name) value = value_of(made<T>(facts));
  });
  return value;
}

const DeviceRow* RankReport::busiest() const {
  return devices.empty() ? nullptr : &*std::ranges::max_element(devices, {}, &DeviceRow::utilization_pct);
}

void add_rank_report(const Facts& facts, RankReport& report, Tasks& tasks) {
  RankReport::sections(report, [&]<class T>(const Section& section, T& rows) {
    if (!section.of_job) tasks.add([&facts, &rows] { rows = made<T>(facts); });
  });
  tasks.add([&facts, &report] {
    report.world_size = facts.trace().distributed.world_size;
    report.host = facts.trace().host_name;
    report.frameworks = facts.get<Frameworks>().names();
    for (const DeviceTime& d : facts.get<Devices>().devices)
      if (!d.name.empty() && std::ranges::count(report.device_names, d.name) == 0)
        report.device_names.push_back(d.name);
  });
}

RankReport rank_report(const Facts& facts) {
  RankReport report;
  Tasks tasks;
  add_rank_report(facts, report, tasks);
  tasks.run(1);
  return report;
}

}  // namespace profgpu
