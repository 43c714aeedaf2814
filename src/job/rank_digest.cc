#include "job/rank_digest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "analyse/collective_calls.h"
#include "analyse/devices.h"
#include "analyse/memory.h"
#include "analyse/phases.h"
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

namespace {

using std::string_view;

constexpr std::array<string_view, kCollectiveOps> kOpNames = {
    "other",     "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
    "broadcast", "reduce",     "send",       "recv",           "send_recv"};

CollectiveOp op_of(string_view recorded) {
  const std::string name = collective_name(recorded);
  const auto it = std::find(kOpNames.begin() + 1, kOpNames.end(), name);
  return it == kOpNames.end() ? CollectiveOp::kUnknown : static_cast<CollectiveOp>(it - kOpNames.begin());
}

// NCCL's kernel for whatever has none of its own carries the name of the first function in its table,
// "ncclKernel_SendRecv_...", or "Generic"; and an all-to-all is made of sends and receives. Such a name tells nothing.
CollectiveOp op_of_kernel(string_view kernel) {
  if (kernel.find("deep_ep") != kernel.npos) return CollectiveOp::kAllToAll;
  const CollectiveOp op = op_of(kernel.substr(0, kernel.find('(')));
  return op == CollectiveOp::kSendRecv ? CollectiveOp::kUnknown : op;
}

// "nccl:all_to_all", "ncclAllReduce", "c10d::allreduce_", "_c10d_functional::all_gather_into_tensor"
bool names_collective(string_view range) {
  return range.starts_with("nccl") || range.starts_with("c10d") || range.starts_with("_c10d");
}

// "nccl:send 0->1", "nccl:recv 1<-0": the own place in the group, then the other's.
void read_places(string_view range, CallSite& site) {
  const size_t space = range.rfind(' '), arrow = range.find_first_of("<-", space == range.npos ? range.size() : space);
  if (arrow == range.npos || arrow + 2 > range.size()) return;
  int32_t own = -1, peer = -1;
  const auto is_number = [](string_view text, int32_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0;
  };
  if (is_number(range.substr(space + 1, arrow - space - 1), own) && is_number(range.substr(arrow + 2), peer))
    site.own = own, site.peer = peer;
}

CallSite site_of(const Trace& trace, const CollectiveCall& call, const CollectiveKind& kind) {
  CallSite site;
  site.op = kind.described ? op_of(kind.name) : CollectiveOp::kUnknown;
  const HostId launch = trace.activity.launch[call.activity.value];
  if (launch.valid())
    for (HostId at = trace.host.parent[launch.value]; at.valid(); at = trace.host.parent[at.value]) {
      const string_view name = trace.name(at);
      if (site.op == CollectiveOp::kUnknown && names_collective(name)) site.op = op_of(name);
      if (!kind.described && site.peer < 0 && name.starts_with("nccl:")) read_places(name, site);
      if (name.find("AccumulateGrad") != name.npos) site.gradient_hook = true;
    }
  if (site.op == CollectiveOp::kUnknown && !kind.described) site.op = op_of_kernel(kind.name);
  return site;
}

JobLibraries libraries_of(const Trace& trace) {
  std::vector<bool> on_host(trace.strings.size());
  for (const StringId name : trace.host.name) on_host[name.value] = true;
  JobLibraries found;
  for (size_t i = 0; i < on_host.size(); ++i) {
    if (!on_host[i]) continue;
    const string_view name = trace.strings[StringId(i)];
    const auto starts = [&](string_view text) { return name.starts_with(text); };
    found.ddp |= starts("DistributedDataParallel.forward") || starts("torch.distributed.ddp.reducer::");
    found.fsdp |= starts("FSDP::") || starts("FullyShardedDataParallel.") ||
                  name.find("/fsdp/_fully_shard/") != name.npos;
    found.deepspeed |= starts("DeepSpeedEngine.") || name.find("deepspeed/runtime/") != name.npos;
    found.megatron |= name.find("megatron/core/") != name.npos;
    found.torchrec |= name.find("All2All_Pooled") != name.npos || name.find("torchrec/distributed/") != name.npos;
  }
  return found;
}

}  // namespace

string_view collective_op_name(CollectiveOp op) { return kOpNames[static_cast<size_t>(op)]; }

CallSites CallSites::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const CollectiveCalls& calls = facts.get<CollectiveCalls>();
  CallSites sites;
  if (calls.calls.empty()) return sites;
  sites.calls.reserve(calls.calls.size());
  for (const CollectiveCall& c : calls.calls) sites.calls.push_back(site_of(trace, c, calls.kinds[c.kind]));
  for (const Interval& pass : facts.get<Phases>().backward)
    sites.backward.push_back({pass.start + trace.base_time_ns, pass.end + trace.base_time_ns});
  sites.libraries = libraries_of(trace);
  return sites;
}

}  // namespace profgpu
