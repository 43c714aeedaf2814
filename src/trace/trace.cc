#include "trace/trace.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/text.h"

namespace profgpu {

std::string_view trace_issue_name(TraceIssueKind kind) {
  // In the order of the enumeration.
  constexpr std::string_view kNames[] = {
      "truncated", "damaged", "negative_duration", "out_of_range", "invalid_text", "overrun", "launch_without_activity",
      "activity_without_launch", "no_device_activity", "no_steps", "no_host_events", "duplicate_correlation",
      "unknown_rows", "dropped", "hardware_counters", "other_run", "note", "other",
  };
  static_assert(std::size(kNames) == static_cast<size_t>(TraceIssueKind::kOther) + 1);
  return kNames[static_cast<size_t>(kind)];
}

bool has_zero_stride(std::string_view strides) {
  const auto ends = [&](size_t at) { return at >= strides.size() || !(is_digit(strides[at]) || is_letter(strides[at])); };
  for (size_t at = strides.find('0'); at != strides.npos; at = strides.find('0', at + 1))
    if (at > 0 && ends(at - 1) && ends(at + 1)) return true;
  return false;
}

DeviceProperties Trace::properties(int32_t device) const {
  for (const DeviceProperties& d : devices)
    if (d.id == device) return d;
  DeviceProperties shared = devices.empty() ? DeviceProperties{} : devices.front();
  for (DeviceProperties d : devices) {
    d.id = shared.id, d.uuid = shared.uuid, d.host_index = shared.host_index;
    if (d != shared) return {};
  }
  shared.id = devices.empty() ? 0 : device;
  shared.uuid.clear();
  shared.host_index = -1;
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
         bytes_of(op_args, activity_args, syncs, device_ranges, collectives, memory, counters, thread_samples,
                  thread_waits, backward_links, captured_calls, range_arguments, launching, launched_first, launched);
}

}  // namespace profgpu
