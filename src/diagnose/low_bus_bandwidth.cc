#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

constexpr int64_t kLargeMessage = 16 << 20;   // output.md: from 16 MiB on latency no longer tells

std::optional<Finding> check_low_bus_bandwidth(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr) return std::nullopt;
  const double threshold = evidence.thresholds.of(rule);
  const Traffic* worst = nullptr;
  for (const Traffic& t : evidence.job->traffic) {
    // Of groups beyond one node link_pct() says nothing: the network sets the rate, which the table does not know.
    if (t.message_bytes.value_or(0) < kLargeMessage || !t.link_pct()) continue;
    if (worst == nullptr || *t.link_pct() < *worst->link_pct()) worst = &t;
  }
  if (worst == nullptr || !rule.beyond(*worst->link_pct(), threshold)) return std::nullopt;
  const double value = *worst->link_pct();
  Finding f = rule.finding(value, threshold);
  f.ranks = evidence.job->ranks;
  f.what = fmt::format("{} moves {:.0f} GB/s of the link's {:.0f}", worst->name, *worst->busbw_gbps, *worst->link_gbps);
  f.why = fmt::format("Bus bandwidth of large {} calls is {} of what {} can do.", worst->name, percent_text(value),
                      evidence.ranks.front().measure.device_name);
  f.fix = {"nvidia-smi topo -m: are all GPUs joined by NVLink, and does NCCL use it (NCCL_DEBUG=INFO)?",
           "unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_ALGO, NCCL_PROTO; check NCCL_P2P_LEVEL",
           "nvidia-smi nvlink -s: links that are down; container needs --ipc=host or a larger /dev/shm"};
  f.evidence = {fmt::format("{} calls of {:.1f} MiB in a group of {}", worst->whole_calls,
                            static_cast<double>(*worst->message_bytes) / 1048576, worst->group_size)};
  return f;
}

}  // namespace

extern const Rule kLowBusBandwidth;
const Rule kLowBusBandwidth = {
    .id = "low-bus-bandwidth",
    .summary = "large collectives move fewer bytes than the link could",
    .unit = "%",
    .threshold = 50,
    .below = true,
    .meaning =
        "Large messages should come near the rate of the link between the devices. Far below it, traffic takes a "
        "slower way (PCIe or host memory instead of NVLink), or a link is down.",
    .computation =
        "Value: median bus bandwidth (nccl-tests' definition) of the slowest kind of collective from 16 MiB, over the "
        "link's rate per direction. Transfer time runs from the last rank's arrival to the end, so all ranks of the "
        "group must be given; groups beyond one node are left alone. No cost: exposed communication has it.",
    .advice = {
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH shows rings and transports",
        "nvidia-smi topo -m and nvidia-smi nvlink -s show topology and links that are down",
        "no NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_NET=Socket left over in the environment",
        "containers: --ipc=host or --shm-size, all devices of the node visible, no ACS redirection on PCIe",
        "across nodes: NCCL_IB_HCA, GPUDirect RDMA (nvidia-peermem), one NIC a GPU, NCCL_CROSS_NIC",
        "measure the link alone with nccl-tests (all_reduce_perf -b 16M -e 1G -f 2 -g 8)",
    },
    .seen = {Locator::At::kLongestKernel, "communication"},
    .job = check_low_bus_bandwidth,
};

}  // namespace profgpu
