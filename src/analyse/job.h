// Several ranks of one job together.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analyse/collectives.h"
#include "analyse/facts.h"

namespace profgpu {

struct RankFacts {
  int rank = 0;
  const Facts* facts = nullptr;
};

struct Straggler {
  int rank = 0;
  int64_t excess_ns_per_step = 0;  ///< exposed waiting for it, median over the ranks that it met
  double excess_pct = 0;           ///< of the mean step
  std::string kind;                ///< "late" until a cause is known
};

struct RankClock {
  int rank = 0;
  int64_t offset_ns = 0;           ///< add to this rank's times to get the first rank's
  std::optional<int64_t> error_ns;
  std::string method;              ///< "reference" (the first), "collectives", "same host", "none"
};

/// Calls of one collective with all ranks of its group in hand.
struct Transfer {
  std::string name;                ///< nccl-tests' term
  std::string dtype;
  int64_t group_size = 0;
  int64_t message_bytes = 0;       ///< S of one call
  int64_t calls = 0;
  double algbw_gbps = 0;           ///< median over calls of S over the time from the last arrival to the end
  double busbw_gbps = 0;
};

struct Job {
  std::vector<int> ranks;
  std::map<int, int64_t> step_mean_ns;   ///< measured steps
  double step_spread_pct = 0;            ///< 100 (longest - shortest) / mean of the means
  std::vector<Straggler> stragglers;     ///< latest first, from 5 % of the step
  std::vector<RankClock> clocks;
  /// Exposed waiting for ranks that arrive later, per rank, over its measured steps.
  std::map<int, int64_t> wait_ns;
  std::vector<Transfer> transfers;       ///< by name, type, size
  std::map<int, MetCalls> met_calls;     ///< by rank
};

/// `ranks` in ascending order; one rank gives no stragglers and no clocks.
Job analyse_job(const std::vector<RankFacts>& ranks);

}  // namespace profgpu
