#include "trace/trace.h"

#include <algorithm>
#include <map>
#include <utility>

namespace profgpu {

std::string_view trace_issue_name(TraceIssueKind kind) {
  switch (kind) {
    case TraceIssueKind::kTruncated: return "truncated";
    case TraceIssueKind::kDamaged: return "damaged";
    case TraceIssueKind::kNegativeDuration: return "negative_duration";
    case TraceIssueKind::kOutOfRange: return "out_of_range";
    case TraceIssueKind::kInvalidText: return "invalid_text";
    case TraceIssueKind::kOverrun: return "overrun";
    case TraceIssueKind::kLaunchWithoutActivity: return "launch_without_activity";
    case TraceIssueKind::kActivityWithoutLaunch: return "activity_without_launch";
    case TraceIssueKind::kNoDeviceActivity: return "no_device_activity";
    case TraceIssueKind::kNoSteps: return "no_steps";
    case TraceIssueKind::kNoHostEvents: return "no_host_events";
    case TraceIssueKind::kDuplicateCorrelation: return "duplicate_correlation";
    case TraceIssueKind::kUnknownRows: return "unknown_rows";
    case TraceIssueKind::kDropped: return "dropped";
    case TraceIssueKind::kOtherRun: return "other_run";
    case TraceIssueKind::kNote: return "note";
    case TraceIssueKind::kOther: break;
  }
  return "other";
}

DeviceProperties Trace::properties(int32_t device) const {
  for (const DeviceProperties& d : devices)
    if (d.id == device) return d;
  DeviceProperties shared;
  if (devices.empty()) return shared;
  const DeviceProperties& first = devices.front();
  for (const DeviceProperties& d : devices) {
    if (d.name != first.name || d.memory_bytes != first.memory_bytes || d.compute_major != first.compute_major ||
        d.compute_minor != first.compute_minor || d.multiprocessors != first.multiprocessors)
      return shared;
  }
  shared = first;
  shared.id = device;
  return shared;
}

HostId Trace::first_from(const Thread& thread, int64_t time_ns) const {
  const auto begin = host.start_ns.begin();
  const auto first = std::lower_bound(begin + thread.begin.value, begin + thread.end.value, time_ns);
  return HostId(static_cast<size_t>(first - begin));
}

std::vector<ThreadId> Trace::sampled_stacks() const {
  std::vector<ThreadId> stacks(threads.size());
  std::map<std::pair<std::string_view, std::string_view>, size_t> sampled;
  for (size_t t = 0; t < threads.size(); ++t) {
    std::string_view of = threads[t].id;
    if (!threads[t].is_sampled_stack()) continue;
    of.remove_suffix(kSampledStack.size());
    sampled.emplace(std::pair<std::string_view, std::string_view>(threads[t].process, of), t);
  }
  for (size_t t = 0; t < threads.size() && !sampled.empty(); ++t)
    if (const auto it = sampled.find({threads[t].process, threads[t].id}); it != sampled.end())
      stacks[t] = ThreadId(it->second);
  return stacks;
}

namespace {
template <class... Columns>
size_t bytes_of(const Columns&... columns) {
  return ((columns.capacity() * sizeof(columns[0])) + ... + 0);
}
}  // namespace

StringId Trace::arguments(HostId h) const {
  const auto it = std::lower_bound(range_arguments.begin(), range_arguments.end(), h,
                                   [](const RangeArguments& a, HostId row) { return a.host < row; });
  return it != range_arguments.end() && it->host == h ? it->text : StringId();
}

size_t Trace::memory_bytes() const {
  return strings.memory_bytes() +
         bytes_of(host.start_ns, host.duration_ns, host.name, host.thread, host.kind, host.parent, host.link,
                  host.args) +
         bytes_of(activity.start_ns, activity.duration_ns, activity.name, activity.queue, activity.kind,
                  activity.launch, activity.args, activity.correlation) +
         bytes_of(op_args, activity_args, syncs, collectives, memory, counters, thread_samples, thread_waits,
                  backward_links, range_arguments, launching, launched_first, launched);
}

}  // namespace profgpu
