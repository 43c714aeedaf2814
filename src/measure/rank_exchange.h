// RankExchange: short messages between the ranks of a job that torchrun, Slurm or MPI started, without any of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace profgpu {

/// What a launcher told this process.
struct LaunchedRank {
  int rank = 0, ranks = 1;
  int local_rank = 0;
  bool local_known = false;   ///< else the rank stands for it
  bool one_host = false;      ///< all ranks are on this host, as far as the launcher says
  std::string job;            ///< the same on all ranks of one job, and on no others of the user
  std::string address;        ///< host of rank 0; empty: unknown
  int port = 0;               ///< that rank 0 listens on there
};
/// From the variables of torchrun, Open MPI, MPICH and Slurm's srun. None: there is one process.
std::optional<LaunchedRank> launched_rank();
/// The first host of a list as Slurm writes it: "gpu[03-05,9],login" gives "gpu03".
std::string first_host(std::string_view list);

/// All ranks connect to rank 0: through a socket without a name on one host, else over TCP.
class RankExchange {
 public:
  /// `file`: one that all ranks see, where rank 0 writes its address; empty: the launcher says where rank 0 is. The
  /// error names ranks that did not come in time.
  static Result<std::unique_ptr<RankExchange>> connect(const LaunchedRank& launched, const std::string& file,
                                                       int64_t patience_ns);
  ~RankExchange();
  RankExchange(const RankExchange&) = delete;
  RankExchange& operator=(const RankExchange&) = delete;

  /// The messages of all ranks, in their order, on each rank. Collective. After an error there is no next round:
  /// further calls return it at once.
  Result<std::vector<std::string>> gather(std::string_view mine);
  [[nodiscard]] int rank() const { return launched_.rank; }
  [[nodiscard]] int ranks() const { return launched_.ranks; }

 private:
  RankExchange(LaunchedRank launched, int64_t patience_ns)
      : launched_(std::move(launched)), patience_ns_(patience_ns) {}
  Status listen(const std::string& file, int64_t until_ns);
  Status accept_all(const Descriptor& door, int64_t until_ns);
  Status reach(const std::string& file, int64_t until_ns);
  Result<std::vector<std::string>> exchange(std::string_view mine);
  [[nodiscard]] std::string hello() const;
  [[nodiscard]] std::string missing(std::string_view what) const;

  LaunchedRank launched_;
  int64_t patience_ns_;
  std::optional<Error> failed_;      // why there is no next round
  std::string file_;                 // that rank 0 wrote; removed with it
  std::vector<Descriptor> peers_;    // rank 0: by rank, none at 0; others: rank 0's
  std::vector<std::string> hosts_;   // rank 0: by rank
};

}  // namespace profgpu
