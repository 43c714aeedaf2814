#include "analyse/rank/rank_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/captures.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/names.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

// A record overruns if it ends later than the next one of its stream starts, by more than clocks jitter.
constexpr int64_t kOverrunNs = 1'000;

void overruns(const Trace& trace, std::vector<TraceIssue>& issues) {
  const ActivityTable& a = trace.activity;
  std::vector<int64_t> next_start(trace.queues.size(), INT64_MAX);
  int64_t count = 0;
  for (size_t i = a.size(); i-- > 0;) {
    const uint16_t q = a.queue[i];
    if (next_start[q] != INT64_MAX && a.end_ns(ActivityId(i)) - next_start[q] > kOverrunNs) ++count;
    next_start[q] = a.start_ns[i];
  }
  if (count > 0)
    issues.push_back(
        {TraceIssueKind::kOverrun, count,
         fmt::format("device records that last beyond the start of the next one on their stream: {}; device "
                     "times may be too long",
                     count)});
}

// Launches of a thread one after the other.
struct Stretch {
  ThreadId thread;
  int64_t launches = 0;
  Interval time{0, 0};

  void add(const Trace& trace, HostId call) {
    if (launches++ == 0) thread = trace.host.thread[call.value], time.start = trace.host.start_ns[call.value];
    time.end = trace.host.end_ns(call);
  }
};
constexpr int64_t kStretch = 20;   // fewer in a row are no hole in the recording

// Kernel launches whose activity is not there. Calls that are refused or captured into a graph never have any, so a
// few are normal; so are those at the end of the window.
void missing_activity(const Facts& facts, std::vector<TraceIssue>& issues) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  if (trace.activity.size() == 0) return;
  std::vector<bool> has_activity(trace.host.size());
  for (const HostId call : trace.launching) has_activity[call.value] = true;
  const std::vector<Intervals>& captured = facts.get<FirstUse>().capture;
  int64_t launches = 0, without = 0;
  Stretch now, longest;
  for (uint32_t i = 0; i < trace.host.size(); ++i) {
    if (!trace.host.is_call(HostId(i)) || names.call[trace.host.name[i].value] != CallKind::kLaunch) continue;
    if (trace.host.is_inner_call(HostId(i))) continue;
    const std::string_view name = trace.name(HostId(i));
    if (name.find("Launch") == name.npos || name.find("HostFunc") != name.npos) continue;
    if (contains(captured[trace.host.thread[i].value], trace.host.start_ns[i])) continue;
    ++launches;
    without += !has_activity[i];
    now = has_activity[i] || trace.host.thread[i] != now.thread ? Stretch() : now;
    if (!has_activity[i]) now.add(trace, HostId(i));
    if (now.launches > longest.launches) longest = now;
  }
  if (without == 0) return;
  const std::string stretch =
      longest.launches < kStretch
          ? ""
          : fmt::format("; {} of them in a row, for {:.3g} ms from {:.3f} s after the first event on: what ran then is "
                        "not known",
                        longest.launches, static_cast<double>(longest.time.length()) / 1e6,
                        static_cast<double>(longest.time.start - trace.windows.front().start) / 1e9);
  issues.push_back(
      {TraceIssueKind::kLaunchWithoutActivity, without,
       fmt::format("kernel launches without a kernel in the file: {} of {}; the profiler dropped them, or they "
                   "ran after recording stopped{}",
                   without, launches, stretch)});
}

void captured_graphs(const Facts& facts, std::vector<TraceIssue>& issues) {
  const Captures& captures = facts.get<Captures>();
  if (captures.replayed == 0) return;
  issues.push_back(
      {TraceIssueKind::kNote, captures.named,
       captures.named == 0 ? "no capture in the input is for certain that of the graph which is replayed: its kernels have "
                             "no operators"
                           : fmt::format("{} of the {} kernels and copies of replayed graphs carry the operators, "
                                         "modules and shapes of the graph's capture",
                                         captures.named, captures.replayed)});
}

const char* where_activity_may_be(const Trace& trace) {
  if (trace.cut_off) return " (it may have been in the part that is cut off)";
  return trace.recorded ? "" : " (was ProfilerActivity.CUDA on?)";
}

}  // namespace

Quality Quality::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Quality quality;
  auto& issues = quality.issues;
  if (trace.activity.size() == 0)
    issues.push_back(
        {TraceIssueKind::kNoDeviceActivity, 1,
         std::string("no GPU activity is in the file: device figures are missing") + where_activity_may_be(trace)});
  if (trace.host.size() == 0)
    issues.push_back(
        {TraceIssueKind::kNoHostEvents, 1, "no host events are in the file: idle time has no known cause"});
  const Steps& steps = facts.get<Steps>();
  if (steps.estimated > 0)
    issues.push_back({TraceIssueKind::kNoSteps, 1,
                      fmt::format("no steps are marked: they were estimated from what repeats on the busiest stream "
                                  "({:.0f} % alike); --step-pattern names ranges that are steps",
                                  steps.estimated * 100)});
  else if (!steps.annotated)
    issues.push_back(
        {TraceIssueKind::kNoSteps, 1,
         fmt::format("no steps are marked ({} once a step, or give --step-pattern): the whole trace counts as one",
                     trace.recorded ? "with profgpu.step():" : "call prof.step()")});
  overruns(trace, issues);
  missing_activity(facts, issues);
  captured_graphs(facts, issues);
  int64_t count = 0, time = 0, all = 0;
  for (const DeviceTime& device : facts.get<Devices>().devices) {
    Intervals without;
    for (uint32_t i = device.begin.value; i < device.end.value; ++i)
      if (!trace.activity.launch[i].valid()) without.push_back(trace.activity.interval(ActivityId(i)));
    count += static_cast<int64_t>(without.size());
    time += total_length(merged(std::move(without)));
    all += device.busy_ns;
  }
  if (count > 0 && trace.host.size() > 0) {
    quality.unlaunched_pct = percent_of(time, all);
    issues.push_back(
        {TraceIssueKind::kActivityWithoutLaunch, count,
         fmt::format("device records without a launching call in the file: {} ({:.1f} % of busy time); their "
                     "phase and the cause of gaps before them are not known for certain",
                     count, quality.unlaunched_pct)});
  }
  return quality;
}

namespace {

// Analyses are reported as they are; rows and what may be missing make themselves.
template <class T>
T made(const Facts& facts) {
  if constexpr (requires { T::value_type::rows(facts); }) return T::value_type::rows(facts);
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
  const auto found = std::ranges::find(sections(), name, &Section::name);
  return found != sections().end() ? &*found : nullptr;
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
  const auto by_share = [](const DeviceRow& a, const DeviceRow& b) {
    return a.utilization_pct() < b.utilization_pct();
  };
  return devices.empty() ? nullptr : &*std::max_element(devices.begin(), devices.end(), by_share);
}

RankReport rank_report(const Facts& facts) {
  RankReport report;
  report.world_size = facts.trace().distributed.world_size;
  report.host = facts.trace().host_name;
  report.frameworks = facts.get<Frameworks>().names();
  for (const DeviceTime& d : facts.get<Devices>().devices)
    if (!d.name.empty() &&
        std::find(report.device_names.begin(), report.device_names.end(), d.name) == report.device_names.end())
      report.device_names.push_back(d.name);
  RankReport::sections(report, [&]<class T>(const Section& section, T& rows) {
    if (!section.of_job) rows = made<T>(facts);
  });
  return report;
}

}  // namespace profgpu
