#include "analyse/waits.h"

#include "analyse/names.h"

namespace profgpu {
namespace {

// An asynchronous copy from or to pageable memory waits too; a call that takes longer than this and is linked to a
// copy did not merely queue it.
constexpr int64_t kLongCopyCallNs = 20'000;

bool is_blocking_copy(const Trace& trace, uint32_t call, ActivityId copy) {
  if (trace.activity.kind[copy.value] != ActivityKind::kMemcpy) return false;
  if (trace.host.duration_ns[call] < kLongCopyCallNs) return false;
  // It waited if it returned only about when the copy had ended.
  return trace.host.end_ns(HostId(call)) >= trace.activity.start_ns[copy.value];
}

}  // namespace

Waits Waits::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  const HostTable& h = trace.host;
  std::vector<bool> blocking_copy(h.size());
  for (size_t i = 0; i < trace.launching.size(); ++i)
    if (is_blocking_copy(trace, trace.launching[i].value, trace.launched[trace.launched_first[i]]))
      blocking_copy[trace.launching[i].value] = true;
  Waits waits;
  waits.calls.resize(trace.threads.size());
  waits.device_waits.resize(trace.threads.size());
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    for (uint32_t i = trace.threads[t].begin.value; i < trace.threads[t].end.value; ++i) {
      if (!h.is_call(HostId(i))) continue;
      if (names.call[h.name[i].value] != CallKind::kSynchronize && !blocking_copy[i]) continue;
      waits.calls[t].emplace_back(i);
      waits.device_waits[t].push_back(h.interval(HostId(i)));
    }
    waits.device_waits[t] = merged(std::move(waits.device_waits[t]));
  }
  return waits;
}

}  // namespace profgpu
