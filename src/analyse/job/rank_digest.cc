#include "analyse/job/rank_digest.h"

#include <algorithm>
#include <unordered_map>

#include "analyse/rank/devices.h"
#include "analyse/rank/host_collectives.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/mpi.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "base/decimal.h"
#include "base/hash.h"
#include "base/saturated.h"
#include "base/text.h"

namespace profgpu {
namespace {

std::vector<DigestStep> steps_of(const Steps& steps, int64_t base_ns) {
  std::vector<DigestStep> out;
  out.reserve(steps.steps.size());
  int64_t turn = 0;
  for (const Step& s : steps.steps) {
    turn += !out.empty() && s.index <= out.back().index;
    out.push_back({s.index, saturated_add(s.start_ns, base_ns), s.duration_ns, s.measured, turn});
  }
  return out;
}

using std::string_view;

constexpr std::array<string_view, kCollectiveOps> kOpNames = {
    "other",     "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
    "broadcast", "reduce",     "send",       "recv",           "send_recv"};

CollectiveOp op_of(string_view recorded) {
  const std::string name = collective_name(recorded);
  const auto it = std::find(kOpNames.begin() + 1, kOpNames.end(), name);
  return it == kOpNames.end() ? CollectiveOp::kUnknown : static_cast<CollectiveOp>(it - kOpNames.begin());
}

// NCCL runs functions without a kernel of their own in one that has the name of the first function in its table,
// "ncclKernel_SendRecv_...", or "Generic"; and an all-to-all consists of sends and receives. Such names are ambiguous.
CollectiveOp op_of_kernel(string_view kernel) {
  if (contains(kernel, "deep_ep")) return CollectiveOp::kAllToAll;
  const CollectiveOp op = op_of(kernel.substr(0, kernel.find('(')));
  return op == CollectiveOp::kSendRecv ? CollectiveOp::kUnknown : op;
}

// "nccl:all_to_all", "ncclAllReduce", "c10d::allreduce_", "_c10d_functional::all_gather_into_tensor"
bool names_collective(string_view range) {
  return range.starts_with("nccl") || range.starts_with("gloo:") || range.starts_with("c10d") ||
         range.starts_with("_c10d");
}

// "nccl:send 0->1", "nccl:recv 1<-0": the rank's own number in the group, then the other's.
void read_numbers(string_view range, CallSite& site) {
  const size_t space = range.rfind(' '), arrow = range.find_first_of("<-", space == range.npos ? range.size() : space);
  if (arrow == range.npos || arrow + 2 > range.size()) return;
  const auto own = exact_number<int32_t>(range.substr(space + 1, arrow - space - 1));
  const auto peer = exact_number<int32_t>(range.substr(arrow + 2));
  if (own && peer && *own >= 0 && *peer >= 0) site.own = *own, site.peer = *peer;
}

CallSite site_of(const Trace& trace, const CollectiveCall& call, const CollectiveKind& kind) {
  CallSite site;
  site.op = kind.described ? op_of(kind.name) : CollectiveOp::kUnknown;
  const HostId launch = call.activity.valid() ? trace.activity.launch[call.activity.value] : call.host;
  if (launch.valid())
    for (HostId at = trace.host.parent[launch.value]; at.valid(); at = trace.host.parent[at.value]) {
      const string_view name = trace.name(at);
      if (site.op == CollectiveOp::kUnknown && names_collective(name)) site.op = op_of(name);
      if (!kind.described && site.peer < 0 && name.starts_with("nccl:")) read_numbers(name, site);
      if (contains(name, "AccumulateGrad")) site.gradient_hook = true;
    }
  if (site.op == CollectiveOp::kUnknown && !kind.described) site.op = op_of_kernel(kind.name);
  return site;
}

JobLibraries libraries_of(const Facts& facts) {
  const std::vector<bool>& on_host = facts.get<Names>().on_host;
  JobLibraries found;
  for (size_t i = 0; i < on_host.size(); ++i) {
    if (!on_host[i]) continue;
    const string_view name = facts.trace().strings[StringId(i)];
    const auto starts = [&](string_view text) { return name.starts_with(text); };
    found.ddp |= starts("DistributedDataParallel.forward") || starts("torch.distributed.ddp.reducer::");
    found.fsdp |= starts("FSDP::") || starts("FullyShardedDataParallel.") || contains(name, "/fsdp/_fully_shard/");
    found.deepspeed |= starts("DeepSpeedEngine.") || contains(name, "deepspeed/runtime/");
    found.megatron |= contains(name, "megatron/core/");
    found.torchrec |= contains(name, "All2All_Pooled") || contains(name, "torchrec/distributed/");
  }
  return found;
}

constexpr double kMaxElements = 1e15;   // bounds values from files, so that sums over a step remain exact enough

// Hashes are the same on every rank, unlike string ids.
uint64_t hash_of(const ActivityArgs& args) {
  uint64_t h = 0;
  for (const int32_t* side : {args.grid, args.block})
    for (int i = 0; i < 3; ++i) h = mixed_bits(h + static_cast<uint32_t>(side[i]) + kGoldenRatio);
  return h;
}

// Elements of all tensors of "[[32, 1000], [], [1000]]": a list of numbers is a tensor's shape, [] is no tensor.
double elements_of(std::string_view shapes) {
  double sum = 0, product = 1, number = 0;
  bool in_number = false, any = false;
  for (const char c : shapes) {
    if (is_digit(c)) {
      number = std::min(number * 10 + (c - '0'), kMaxElements);
      in_number = true;
      continue;
    }
    if (in_number) product = std::min(product * number, kMaxElements), any = true;
    if (c == ']' && any) sum = std::min(sum + product, kMaxElements);
    if (c == ']' || c == '[') product = 1, any = false;
    in_number = false, number = 0;
  }
  return sum;
}

void add_idle(const DeviceIdle& idle, const std::vector<Step>& steps, std::vector<StepWork>& out) {
  size_t first = 0;
  for (const Gap& gap : idle.gaps) {
    while (first < steps.size() && steps[first].interval().end <= gap.start_ns) ++first;
    for (size_t i = first; i < steps.size() && steps[i].start_ns < gap.end_ns; ++i)
      out[i].idle_ns[static_cast<size_t>(gap.cause)] += overlap_length(gap.time(), steps[i].interval());
  }
}

void add_time_outside_mpi(const Intervals& calls, const std::vector<Step>& steps, std::vector<StepWork>& out) {
  if (calls.empty()) return;
  for (size_t i = 0; i < steps.size(); ++i)
    out[i].outside_mpi_ns = steps[i].interval().length() - overlap_length(calls, steps[i].interval());
}

void add_time_outside_waits(const HostCollectives& collectives, const std::vector<Step>& steps,
                            std::vector<StepWork>& out) {
  if (collectives.calls.empty()) return;
  for (size_t i = 0; i < steps.size(); ++i)
    out[i].outside_waits_ns =
        steps[i].interval().length() - overlap_length(collectives.waits, steps[i].interval());
}

// A device's kernels by step, and by name, grid and block.
class KernelCounter {
 public:
  explicit KernelCounter(const Facts& facts)
      : trace_(facts.trace()), kind_(facts.get<Devices>().kind), steps_(facts.get<Steps>().steps),
        step_of_(facts.get<Steps>()) {
    name_hash_.resize(trace_.strings.size());
    args_hash_.reserve(trace_.activity_args.size());
    for (const ActivityArgs& args : trace_.activity_args) args_hash_.push_back(hash_of(args));
  }

  void count(const DeviceTime& device, std::vector<StepWork>& steps) {
    for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
      if (kind_[i] != WorkKind::kCompute) continue;
      const Step* launched_in = step_of_(trace_.launched_ns(ActivityId(i)));
      if (launched_in == nullptr || !launched_in->measured) continue;
      StepWork& step = steps[static_cast<size_t>(launched_in - steps_.data())];
      const int64_t ns = trace_.activity.duration_ns[i];
      const uint64_t key = key_of(i);
      ++step.kernels;
      step.kernel_ns += ns;
      step.work += mixed_bits(key);
      if (const double elements = input_elements(trace_.activity.launch[i]); elements >= 0)
        step.input_elements = static_cast<int64_t>(
            std::min(static_cast<double>(std::max<int64_t>(step.input_elements, 0)) + elements, kMaxElements));
      Kernel& k = kernels_[key];
      k.name = trace_.activity.name[i];
      ++k.count;
      k.total_ns += ns;
    }
  }

  [[nodiscard]] std::vector<KernelWork> most_expensive() const {
    std::vector<KernelWork> out;
    for (const auto& [key, k] : kernels_) out.push_back({key, {}, k.count, k.total_ns});
    std::ranges::sort(out, {}, [](const KernelWork& k) { return std::pair(-k.total_ns, k.key); });
    if (out.size() > RankWork::kMaxKernels) out.resize(RankWork::kMaxKernels);
    for (KernelWork& k : out) k.name = short_kernel_name(trace_.strings[kernels_.at(k.key).name]);
    return out;
  }

 private:
  struct Kernel {
    StringId name;
    int64_t count = 0, total_ns = 0;
  };

  uint64_t key_of(uint32_t activity) {
    const StringId name = trace_.activity.name[activity];
    uint64_t& hash = name_hash_[name.value];
    if (hash == 0) hash = fnv1a(trace_.strings[name]) | 1;
    const ActivityArgsId args = trace_.activity.args[activity];
    return hash ^ (args.valid() ? args_hash_[args.value] : 0);
  }

  // Of the innermost op around a launch that has shapes; an op counts once per launch. -1: none.
  double input_elements(HostId launch) {
    if (trace_.op_args.empty()) return -1;
    const auto has_shapes = [&](HostId h) { return !trace_.strings[shapes_of(trace_, h)].empty(); };
    const HostId op = trace_.enclosing(launch, has_shapes);
    if (!op.valid()) return -1;
    const StringId shapes = shapes_of(trace_, op);
    const auto [known, fresh] = elements_.try_emplace(shapes.value, 0);
    if (fresh) known->second = elements_of(trace_.strings[shapes]);
    return known->second;
  }

  const Trace& trace_;
  const std::vector<WorkKind>& kind_;
  const std::vector<Step>& steps_;
  StepFinder step_of_;
  std::vector<uint64_t> name_hash_, args_hash_;   // 0: not computed yet
  std::unordered_map<uint32_t, double> elements_;
  std::unordered_map<uint64_t, Kernel> kernels_;
};

void add(std::optional<Interval>& all, Interval range) { all = all ? hull(*all, range) : range; }

void outline_part(const Facts& facts, RankOutline& out) {
  const Trace& trace = facts.trace();
  const TracePart part(trace, *out.part);
  for (uint32_t h = 0; h < trace.host.size(); ++h) out.events += part.shows(HostId(h));
  for (uint32_t a = 0; a < trace.activity.size(); ++a) {
    if (!part.shows(ActivityId(a))) continue;
    ++out.events;
    add(out.extent, trace.activity.interval(ActivityId(a)));
  }
  for (const CollectiveCall& call : facts.get<CollectiveCalls>().calls)
    if (call.activity.valid() && part.shows(call.activity)) out.calls.push_back(call.activity);
  std::ranges::sort(out.calls);
}

}  // namespace

int64_t RankDigest::measured_steps() const {
  return std::ranges::count(steps, true, &DigestStep::measured);
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
  const auto index = static_cast<size_t>(&call - calls.calls.data());
  return index < sites.calls.size() ? sites.calls[index] : kUnseen;
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
    const DeviceProperties properties = trace.properties(busiest.id);
    d.device_uuid = properties.uuid;
    d.host_device = properties.host_index;
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
  d.lane = facts.get<Lane>();
  d.work = facts.get<RankWork>();
  d.energy = facts.get<EnergyTimes>();
  return d;
}

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
  sites.libraries = libraries_of(facts);
  return sites;
}

RankWork RankWork::compute(const Facts& facts) {
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  RankWork work;
  work.steps.resize(steps.size());
  for (const PhaseSegment& s : facts.get<Phases>().segments) {
    const size_t p = std::min(static_cast<size_t>(s.phase), static_cast<size_t>(Phase::kOther));
    work.steps[s.step].phase_ns[p] += s.end_ns - s.start_ns;
  }
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) {
    add_time_outside_mpi(facts.get<MpiCalls>().time, steps, work.steps);
    add_time_outside_waits(facts.get<HostCollectives>(), steps, work.steps);
    return work;
  }
  const auto busiest = static_cast<size_t>(devices.busiest);
  const DeviceTime& device = devices.devices[busiest];
  add_idle(facts.get<Idle>().devices[busiest], steps, work.steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    work.steps[i].compute_ns = overlap_length(device.compute, steps[i].interval());
    work.steps[i].exposed_communication_ns = overlap_length(device.exposed_communication, steps[i].interval());
    work.steps[i].exposed_memory_ns = overlap_length(device.exposed_memory, steps[i].interval());
  }
  KernelCounter counter(facts);
  counter.count(device, work.steps);
  work.kernels = counter.most_expensive();
  return work;
}

std::optional<Interval> TracePart::shown(Interval range) const {
  const Interval cut{std::max(range.start, part_.start), std::min(range.end, part_.end)};
  // A range that only touches the part is not in it, but one without length may be at its ends.
  if (cut.start > cut.end || (cut.start == cut.end && range.start < range.end)) return std::nullopt;
  return cut;
}

bool TracePart::shows(ActivityId a) const {
  if (shown(trace_.activity.interval(a))) return true;
  const HostId launch = trace_.activity.launch[a.value];
  return launch.valid() && shows(launch);
}

RankOutline RankOutline::of(const Facts& facts, std::optional<Interval> part) {
  const Trace& trace = facts.trace();
  RankOutline out;
  out.part = part;
  out.base_time_ns = trace.base_time_ns;
  out.host = trace.host_name;
  if (!part) return out;
  for (const Interval& window : trace.windows)
    if (const auto cut = TracePart(trace, *part).shown(window)) add(out.extent, *cut);
  if (out.is_cut()) {
    outline_part(facts, out);
    return out;
  }
  out.events = static_cast<int64_t>(trace.host.size() + trace.activity.size());
  if (!trace.memory.empty()) out.first_others_ns.push_back(trace.memory.front().time_ns);
  if (!trace.counters.empty()) out.first_others_ns.push_back(trace.counters.front().time_ns);
  if (!trace.syncs.empty()) out.first_others_ns.push_back(trace.syncs.front().start_ns);
  if (!trace.thread_waits.empty())
    out.first_others_ns.push_back(std::ranges::min(trace.thread_waits, {}, &ThreadWait::start_ns).start_ns);
  return out;
}

}  // namespace profgpu
