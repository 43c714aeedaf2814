// Rules of what NCCL says of its way between GPUs, and of what benchmarks of it measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analyse/report/quantity.h"
#include "analyse/rules/rule.h"
#include "base/text.h"

namespace profgpu {
namespace {

struct WayWords {
  std::string_view kind, what, fix;
};
constexpr std::array kSlowWays = {
    WayWords{"sockets", "traffic between hosts goes through TCP sockets",
             "InfiniBand or RoCE: is the driver there (ibstat), are the devices in the container (--device "
             "/dev/infiniband), "
             "is NCCL_IB_DISABLE or NCCL_NET=Socket set?"},
    WayWords{"no_gpu_direct_rdma", "traffic between hosts goes through the hosts' memory: no GPUDirect RDMA",
             "load nvidia-peermem, or use a driver and kernel with DMA-BUF; GPU and NIC below one PCIe switch "
             "(NCCL_NET_GDR_LEVEL)"},
    WayWords{"no_p2p", "GPUs of one host do not reach each other directly",
             "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; turn PCIe ACS off, or IOMMU to passthrough; nvidia-smi topo "
             "-p2p r"},
    WayWords{"shared_memory", "traffic within a host goes through shared memory of the CPU",
             "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; nvidia-smi topo -m: is there NVLink or a common PCIe switch?"},
};

struct SlowWay {
  const WayWords* words = nullptr;
  std::string evidence;
};

bool spans_hosts(const NcclReport& nccl) {
  const bool by_network =
      std::ranges::any_of(nccl.transports, [](const NcclTransport& t) { return t.transport.starts_with("NET/"); });
  return nccl.hosts.value_or(1) > 1 || by_network;
}

const NcclRemark* remark_of(const NcclReport& nccl, std::string_view kind) {
  return first_where(nccl.remarks, [&](const NcclRemark& r) { return r.kind == kind; });
}

std::vector<SlowWay> slow_ways(const NcclReport& nccl) {
  std::vector<SlowWay> ways;
  const auto add = [&](size_t which, std::string evidence) {
    ways.push_back({&kSlowWays[which], std::move(evidence)});
  };
  const auto with = [&](std::string_view begin) -> const NcclTransport* {
    return first_where(nccl.transports, [&](const NcclTransport& t) { return t.transport.starts_with(begin); });
  };
  const auto count_text = [](const NcclTransport& t) {
    return fmt::format("{} connections by way of {}", format_count(t.connections), t.transport);
  };
  if (spans_hosts(nccl)) {
    const NcclTransport* sockets = with("NET/Socket");
    if (sockets != nullptr)
      add(0, count_text(*sockets));
    else if (const NcclRemark* mixed = remark_of(nccl, "different_networks"); mixed && contains(mixed->text, "Socket"))
      add(0, fmt::format("line {}: {}", mixed->line, mixed->text));
    else if (nccl.network == "Socket")
      add(0, "Using network Socket");
    const bool direct =
        std::ranges::any_of(nccl.transports, [](const NcclTransport& t) { return t.transport.ends_with("GDRDMA"); });
    const NcclRemark* disabled = remark_of(nccl, "no_gpu_direct_rdma");
    if (sockets == nullptr && nccl.network != "Socket" && !direct && disabled != nullptr)
      add(1, fmt::format("line {}: {}", disabled->line, disabled->text));
  }
  if (const NcclRemark* off = remark_of(nccl, "no_p2p")) add(2, fmt::format("line {}: {}", off->line, off->text));
  if (const NcclTransport* shm = with("SHM")) add(3, count_text(*shm));
  return ways;
}

std::optional<double> slow_way_count(const LogReport& log) {
  if (!log.nccl) return std::nullopt;
  return static_cast<double>(slow_ways(*log.nccl).size());
}

void describe_slow_ways(const LogReport& log, Finding& f) {
  const std::vector<SlowWay> ways = slow_ways(*log.nccl);
  f.what = ways.front().words->what;
  f.why = "NCCL's log names this transport; collectives are as slow as their slowest connection.";
  for (const SlowWay& way : ways) {
    f.fix.emplace_back(way.words->fix);
    f.evidence.push_back(way.evidence);
  }
  for (const auto& [name, value] : log.nccl->environment)
    if (name == "NCCL_P2P_DISABLE" || name == "NCCL_IB_DISABLE" || name == "NCCL_SHM_DISABLE" || name == "NCCL_NET" ||
        name == "NCCL_P2P_LEVEL" || name == "NCCL_NET_GDR_LEVEL")
      f.evidence.push_back(fmt::format("set in the environment: {}={}", name, value));
}

constexpr std::string_view kSetupIncomplete = "setup_incomplete";

bool is_warning(const NcclRemark& r) {
  return r.kind == "warning" || r.kind == "network_error" || r.kind == "registration_failed" ||
         r.kind == "shared_memory_full" || r.kind == kSetupIncomplete || r.kind == "different_counts" ||
         r.kind == "missing_process";
}

std::optional<double> warning_count(const LogReport& log) {
  if (!log.nccl) return std::nullopt;
  int64_t count = 0;
  for (const NcclRemark& r : log.nccl->remarks)
    if (is_warning(r)) count += r.count;
  return static_cast<double>(count);
}

void describe_warnings(const LogReport& log, Finding& f) {
  f.what = fmt::format("NCCL warns {} time{}", static_cast<int64_t>(*f.value), *f.value == 1 ? "" : "s");
  f.why = "What NCCL warns about often ends in an error or a timeout later.";
  f.fix = {"follow the first warning: the others are often consequences",
           "link and cable errors: ibstat, perfquery, profgpu doctor"};
  if (const NcclRemark* setup = remark_of(*log.nccl, kSetupIncomplete)) {
    f.what = setup->text;
    f.verdict = fmt::format("NCCL hangs where it begins: {}.", setup->text);
    f.severity = Severity::kCritical;
    f.why = "A communicator is complete when all of its ranks have begun and reach each other.";
    f.fix = {"rank without such a line: see whether its process runs and what it waits for (py-spy dump --pid PID)",
             "the network that ranks meet on: NCCL_SOCKET_IFNAME, firewalls, MASTER_ADDR and MASTER_PORT on each host"};
  }
  for (const NcclRemark& r : log.nccl->remarks)
    if (is_warning(r) && f.evidence.size() < 4)
      f.evidence.push_back(
          fmt::format("line {}: {}{}", r.line, r.text, r.count > 1 ? fmt::format(" ({} times)", r.count) : ""));
}

std::optional<double> wrong_elements(const LogReport& log) {
  if (log.links.empty()) return std::nullopt;
  int64_t wrong = 0;
  for (const LinkSummary& s : log.links) wrong += s.wrong;
  return static_cast<double>(wrong);
}

void describe_wrong_elements(const LogReport& log, Finding& f) {
  f.what = fmt::format("a test of collectives had {} wrong elements", format_count(static_cast<int64_t>(*f.value)));
  f.why = "The GPUs, links or driver corrupt data: training on them cannot be trusted.";
  f.fix = {"find the pair of GPUs: run nccl-tests on subsets",
           "turn off PCIe ACS and the IOMMU's translation, update driver and NCCL",
           "ECC errors and Xid messages: profgpu doctor"};
  for (const LinkRow& r : log.link_rates)
    if (r.wrong.value_or(0) > 0 && f.evidence.size() < 3)
      f.evidence.push_back(
          fmt::format("{} of {}: {} wrong", words(r.op), format_bytes(static_cast<double>(r.bytes)), *r.wrong));
}

}  // namespace

extern const Rule kSlowTransport = {
    .id = "slow-transport",
    .summary = "NCCL uses a slow transport between GPUs, according to its log",
    .unit = "count",
    .threshold = 0,
    .meaning =
        "NCCL chooses the fastest transport that it finds and may use, and logs it. Sockets instead of "
        "InfiniBand, copies through host memory instead of GPUDirect RDMA or peer-to-peer cost most of the bandwidth.",
    .computation =
        "Value: slow transports among: TCP sockets or RDMA without GPUDirect between hosts, no peer-to-peer or "
        "shared memory within a host. Needs a log with NCCL_DEBUG=INFO. No cost: exposed communication has it.",
    .advice = {"InfiniBand or RoCE for several hosts; nvidia-peermem or DMA-BUF for GPUDirect RDMA",
               "no NCCL_P2P_DISABLE, NCCL_IB_DISABLE, NCCL_NET=Socket left over in the environment",
               "measure the link: all_reduce_perf of nccl-tests, and give its output to profgpu analyze"},
    .log = {.value = slow_way_count, .describe = describe_slow_ways},
};

extern const Rule kNcclWarnings = {
    .id = "nccl-warnings",
    .summary = "NCCL's log warns about network, memory or configuration",
    .unit = "count",
    .threshold = 0,
    .meaning =
        "NCCL prints few warnings, and each has a reason: a link that flaps, memory that cannot be registered, a full "
        "/dev/shm, a setting that it does not know.",
    .computation =
        "Value: lines with NCCL WARN, or that say that the network or registration failed, communicators that several "
        "ranks begin to set up and none completes, and of ncclras, ranks that have launched more or fewer operations "
        "than the others. No cost.",
    .advice = {"follow the first warning", "containers: --ipc=host or --shm-size, ulimit -l unlimited"},
    .log = {.value = warning_count, .describe = describe_warnings},
};

extern const Rule kWrongResults = {
    .id = "wrong-results",
    .summary = "a test of collectives found wrong elements",
    .unit = "count",
    .threshold = 0,
    .severity = Severity::kCritical,
    .meaning = "nccl-tests checks what arrives. One wrong element means that data is corrupted on the way.",
    .computation = "Value: the sum of the column #wrong over all rows. No cost.",
    .advice = {"run the test on pairs of GPUs to find the one",
               "PCIe ACS, IOMMU, driver and NCCL versions, ECC errors"},
    .log = {.value = wrong_elements, .describe = describe_wrong_elements},
};

}  // namespace profgpu
