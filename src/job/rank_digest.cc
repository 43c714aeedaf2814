#include "job/rank_digest.h"

#include <algorithm>

#include "analyse/devices.h"
#include "analyse/memory.h"
#include "analyse/steps.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

std::vector<DigestStep> steps_of(const Steps& steps, int64_t base_ns) {
  std::vector<DigestStep> out;
  out.reserve(steps.steps.size());
  for (const Step& s : steps.steps) out.push_back({s.index, saturated_add(s.start_ns, base_ns), s.duration_ns, false});
  for (const Step* s : steps.measured()) out[static_cast<size_t>(s - steps.steps.data())].measured = true;
  return out;
}

}  // namespace

int64_t RankDigest::measured_steps() const {
  return std::count_if(steps.begin(), steps.end(), [](const DigestStep& s) { return s.measured; });
}

int64_t RankDigest::measured_wall_ns() const {
  int64_t sum = 0;
  for (const DigestStep& s : steps)
    if (s.measured) sum = saturated_add(sum, s.duration_ns);
  return sum;
}

int64_t RankDigest::mean_step_ns() const {
  const int64_t n = measured_steps();
  return n > 0 ? measured_wall_ns() / n : 0;
}

std::string RankDigest::call_name(const CollectiveCall& call) const {
  if (kind(call).described) return kind(call).name;
  const CallSite& site = this->site(call);
  if (site.op != CollectiveOp::kUnknown) return std::string(collective_op_name(site.op));
  const std::string term = collective_name(kind(call).name);
  return term.empty() ? kind(call).name : term;
}

const CallSite& RankDigest::site(const CollectiveCall& call) const {
  static const CallSite kUnseen;
  const auto place = static_cast<size_t>(&call - calls.calls.data());
  return place < sites.calls.size() ? sites.calls[place] : kUnseen;
}

bool RankDigest::may_be_pair(const CollectiveCall& call) const {
  if (kind(call).described) return kind(call).is_pair();
  const std::string name = call_name(call);
  return name == "send" || name == "recv" || name == "send_recv";
}

RankDigest calls_digest(int rank, const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const Steps& steps = facts.get<Steps>();
  const Memory& memory = facts.get<Memory>();
  RankDigest d;
  d.rank = rank;
  d.world_size = trace.distributed.world_size;
  d.host = trace.host_name;
  d.clock = trace.clock;
  if (devices.busiest >= 0) {
    const DeviceTime& busiest = devices.devices[static_cast<size_t>(devices.busiest)];
    d.device = busiest.id;
    d.device_name = busiest.name;
  }
  if (!trace.windows.empty())
    d.extent = {trace.windows.front().start + trace.base_time_ns, trace.windows.back().end + trace.base_time_ns};
  d.annotated = steps.annotated;
  d.steps = steps_of(steps, trace.base_time_ns);
  d.calls = facts.get<CollectiveCalls>();
  d.sites = CallSites::compute(facts);
  d.memory = {memory.peak_allocated_bytes, memory.peak_reserved_bytes, memory.capacity_bytes};
  return d;
}

RankDigest rank_digest(int rank, const Facts& facts) {
  RankDigest d = calls_digest(rank, facts);
  d.work = RankWork::compute(facts);
  d.lane = Lane::compute(facts);
  return d;
}

}  // namespace profgpu
