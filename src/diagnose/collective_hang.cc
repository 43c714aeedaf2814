#include <fmt/format.h>

#include <algorithm>

#include "diagnose/measure.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

std::string call_text(const MissingCalls& hang) {
  const std::string which = hang.number >= 0 ? fmt::format(" {}", hang.number) : "";
  const std::string group = hang.process_group.empty() ? "" : " of group " + hang.process_group;
  return hang.name + which + group + (hang.step >= 0 ? fmt::format(", step {}", hang.step) : "");
}

std::optional<Finding> check_collective_hang(const Rule& rule, const Evidence& evidence) {
  const MissingCalls* hang = evidence.job != nullptr ? first_hang(evidence.job->missing) : nullptr;
  const double threshold = evidence.thresholds.of(rule);
  if (hang == nullptr || !rule.beyond(static_cast<double>(hang->others), threshold)) return std::nullopt;
  Finding f = rule.finding(static_cast<double>(hang->others), threshold);
  for (const MissingCalls& m : evidence.job->missing) {
    if (!m.never_arrived()) continue;
    if (call_text(m) == call_text(*hang)) f.ranks.push_back(m.rank);
    else f.evidence.push_back(fmt::format("rank {} never arrives at {}", m.rank, call_text(m)));
  }
  std::sort(f.ranks.begin(), f.ranks.end());
  f.what = fmt::format("{} never {} at {}", ranks_text(f.ranks), f.ranks.size() == 1 ? "arrives" : "arrive",
                       call_text(*hang));
  f.names_ranks = true;
  f.why = hang->others == 1 ? "Another rank waits in it to the end of its trace."
                            : fmt::format("{} other ranks wait in it to the end of their traces.", hang->others);
  f.fix = {fmt::format("py-spy dump --pid PID   # where rank {} is instead", f.ranks.front()),
           "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1   # what each rank called last",
           "no collective in a branch that only some ranks take; as many batches on every rank: drop_last=True, "
           "torch.distributed.algorithms.Join"};
  return f;
}

}  // namespace

extern const Rule kCollectiveHang;
const Rule kCollectiveHang = {
    .id = "collective-hang",
    .summary = "a rank never arrives at a collective in which others wait",
    .unit = "ranks",
    .threshold = 0,
    .severity = Severity::kCritical,
    .meaning =
        "A collective ends when all ranks of its group have come. A rank that left the loop, took another branch, "
        "waits for something else or died leaves the others in it until a timeout ends the job.",
    .computation =
        "Value: ranks that wait, to the end of their traces, in the first collective at which another rank of its "
        "group that is in hand never arrives. Needs the traces of several ranks. No cost is estimated.",
    .advice = {
        "py-spy dump --pid PID on the rank's host, or gdb -p PID: where it is instead",
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1: PyTorch's flight recorder names each rank's "
        "last call",
        "no collective in a branch that only some ranks take: if rank == 0, an exception caught on one rank, early "
        "stopping",
        "as many batches on every rank: drop_last=True, torch.distributed.algorithms.Join",
        "the end of the rank's log: out of memory, a dead data loader worker, Xid errors (profgpu doctor)",
    },
    .job = check_collective_hang,
};

}  // namespace profgpu
