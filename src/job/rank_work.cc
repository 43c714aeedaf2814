#include "job/rank_work.h"

#include <algorithm>
#include <unordered_map>

#include "analyse/devices.h"
#include "analyse/kernels.h"
#include "analyse/phases.h"
#include "analyse/steps.h"
#include "base/hash.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr double kMostElements = 1e15;   // what sums of them over a step still hold exactly enough, whatever a file says

// Hashes are the same on every rank, as ids of strings are not.
uint64_t hash_of(const ActivityArgs& args) {
  uint64_t h = 0;
  for (const int32_t* side : {args.grid, args.block})
    for (int i = 0; i < 3; ++i) h = mixed_bits(h + static_cast<uint32_t>(side[i]) + kGoldenRatio);
  return h;
}

// Elements of all tensors of "[[32, 1000], [], [1000]]": lists of numbers are tensors' sizes, [] is no tensor.
double elements_of(std::string_view shapes) {
  double sum = 0, product = 1, number = 0;
  bool in_number = false, any = false;
  for (const char c : shapes) {
    if (is_digit(c)) {
      number = std::min(number * 10 + (c - '0'), kMostElements);
      in_number = true;
      continue;
    }
    if (in_number) product = std::min(product * number, kMostElements), any = true;
    if (c == ']' && any) sum = std::min(sum + product, kMostElements);
    if (c == ']' || c == '[') product = 1, any = false;
    in_number = false, number = 0;
  }
  return sum;
}

void add_idle(const DeviceIdle& idle, const std::vector<Step>& steps, std::vector<StepWork>& out) {
  size_t first = 0;
  for (const Gap& gap : idle.gaps) {
    while (first < steps.size() && steps[first].interval().end <= gap.start_ns) ++first;
    for (size_t i = first; i < steps.size() && steps[i].start_ns < gap.end_ns; ++i) {
      const int64_t part = std::min(gap.end_ns, steps[i].interval().end) - std::max(gap.start_ns, steps[i].start_ns);
      if (part > 0) out[i].idle_ns[static_cast<size_t>(gap.cause)] += part;
    }
  }
}

// The kernels of a device, by step and by what they are.
class KernelCounter {
 public:
  explicit KernelCounter(const Facts& facts)
      : trace_(facts.trace()), kind_(facts.get<Devices>().kind), step_of_(facts.get<Steps>()) {
    name_hash_.resize(trace_.strings.size());
    args_hash_.reserve(trace_.activity_args.size());
    for (const ActivityArgs& args : trace_.activity_args) args_hash_.push_back(hash_of(args));
  }

  void count(const DeviceTime& device, std::vector<StepWork>& steps) {
    for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
      if (kind_[i] != WorkKind::kCompute) continue;
      const HostId launch = trace_.activity.launch[i];
      const int64_t place = step_of_(launch.valid() ? trace_.host.start_ns[launch.value] : trace_.activity.start_ns[i]);
      if (place < 0) continue;
      StepWork& step = steps[static_cast<size_t>(place)];
      const int64_t ns = trace_.activity.duration_ns[i];
      const uint64_t key = key_of(i);
      ++step.kernels;
      step.kernel_ns += ns;
      step.work += mixed_bits(key);
      if (const double elements = input_elements(launch); elements >= 0)
        step.input_elements = static_cast<int64_t>(
            std::min(static_cast<double>(std::max<int64_t>(step.input_elements, 0)) + elements, kMostElements));
      Kernel& k = kernels_[key];
      k.name = trace_.activity.name[i];
      ++k.count;
      k.total_ns += ns;
    }
  }

  [[nodiscard]] std::vector<KernelWork> dearest() const {
    std::vector<KernelWork> out;
    for (const auto& [key, k] : kernels_) out.push_back({key, {}, k.count, k.total_ns});
    std::sort(out.begin(), out.end(), [](const KernelWork& a, const KernelWork& b) {
      return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.key < b.key;
    });
    if (out.size() > RankWork::kMostKernels) out.resize(RankWork::kMostKernels);
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

  // Of the innermost op around a launch that has shapes; an op counts once for each of its launches. -1: none.
  double input_elements(HostId launch) {
    if (trace_.op_args.empty()) return -1;
    for (HostId h = launch; h.valid(); h = trace_.host.parent[h.value]) {
      const OpArgsId args = trace_.host.args[h.value];
      if (!args.valid() || trace_.strings[trace_.op_args[args.value].shapes].empty()) continue;
      const StringId shapes = trace_.op_args[args.value].shapes;
      const auto [known, fresh] = elements_.try_emplace(shapes.value, 0);
      if (fresh) known->second = elements_of(trace_.strings[shapes]);
      return known->second;
    }
    return -1;
  }

  const Trace& trace_;
  const std::vector<WorkKind>& kind_;
  StepFinder step_of_;
  std::vector<uint64_t> name_hash_, args_hash_;   // 0: not computed yet
  std::unordered_map<uint32_t, double> elements_;
  std::unordered_map<uint64_t, Kernel> kernels_;
};

}  // namespace

RankWork RankWork::compute(const Facts& facts) {
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  RankWork work;
  work.steps.resize(steps.size());
  for (const PhaseSegment& s : facts.get<Phases>().segments)
    work.steps[s.step].phase_ns[static_cast<size_t>(s.phase)] += s.end_ns - s.start_ns;
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return work;
  const auto busiest = static_cast<size_t>(devices.busiest);
  const DeviceTime& device = devices.devices[busiest];
  const Intervals exposed_memory = subtract(subtract(device.memory, device.compute), device.communication);
  add_idle(facts.get<Idle>().devices[busiest], steps, work.steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    work.steps[i].compute_ns = overlap_length(device.compute, steps[i].interval());
    work.steps[i].exposed_communication_ns = overlap_length(device.exposed_communication, steps[i].interval());
    work.steps[i].exposed_memory_ns = overlap_length(exposed_memory, steps[i].interval());
  }
  KernelCounter counter(facts);
  counter.count(device, work.steps);
  work.kernels = counter.dearest();
  return work;
}

}  // namespace profgpu
