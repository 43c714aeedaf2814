// FlightReport: of the flight recorders of a job's ranks, who waits for whom, and whose fault that is.
//
// Of each rank only its first call that has not completed matters: what it called later waits behind it. A call waits
// for the ranks of its group that have not called it, or whose devices are still in an earlier call. Following that
// from rank to rank ends at those who wait for nobody: the suspects. Ranks that wait in a circle called in different
// orders.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyse/report/document.h"
#include "trace/flight_dump.h"

namespace profgpu {

/// A rank that others wait for.
struct FlightSuspect {
  int rank = 0;
  std::string kind;     ///< see flight_report()
  std::string call;     ///< "all_reduce #17 of TENSOR_MODEL_PARALLEL_GROUP (35)"
  int64_t waiting = 0;  ///< ranks that wait for it, also by way of others
  std::vector<std::string> frames;

  void fields(auto&& v) const {
    v("rank", rank), v("kind", kind), v("call", call), v("waiting", waiting), v("frames", frames);
  }
};

/// A call in which ranks wait, the first one of each of them.
struct FlightWait {
  std::string process_group, description, name;
  int64_t sequence = 0;
  std::string state;                ///< scheduled; started: on at least one device
  std::string sizes, dtype;         ///< of the first rank's inputs
  std::vector<int> waiting;         ///< ranks whose first open call it is
  std::vector<int> missing;         ///< of its group: never called it
  std::vector<int> behind;          ///< of its group: called it, and are still in an earlier call
  std::vector<int> completed;       ///< of its group: are done with it
  std::optional<int64_t> since_ns;  ///< Unix time of the first of these calls
  std::vector<std::string> frames;  ///< of the first rank that waits

  void fields(auto&& v) const {
    v("process_group", process_group), v("description", unless_empty(description)), v("name", name);
    v("sequence", sequence), v("state", state), v("sizes", unless_empty(sizes)), v("dtype", unless_empty(dtype));
    v("waiting", waiting), v("missing", missing), v("behind", behind), v("completed", completed);
    v("since_ns", since_ns), v("frames", frames);
  }
};

/// Ranks that called different things under one number of a group.
struct FlightMismatch {
  std::string process_group, description;
  int64_t sequence = 0;
  std::string what;          ///< name, size or type
  std::string usual, other;  ///< what most called, and what these called
  std::vector<int> ranks;    ///< the fewer ones; without a majority all
  bool majority = true;      ///< most ranks agree

  void fields(auto&& v) const {
    v("process_group", process_group), v("description", unless_empty(description)), v("sequence", sequence);
    v("what", what), v("usual", usual), v("other", other), v("ranks", ranks);
  }
};

struct FlightReport {
  int64_t dumps = 0, calls = 0, open_calls = 0;
  std::string version, nccl_version;
  std::optional<int64_t> world_size;
  std::vector<int> without_dump;           ///< ranks of the job's groups
  std::vector<FlightSuspect> suspects;     ///< most waited for first
  std::vector<FlightWait> waits;           ///< earliest first
  std::vector<FlightMismatch> mismatches;  ///< earliest first
  /// If no rank waits, the last call of each rank, without repetition.
  std::vector<std::string> last_calls;

  [[nodiscard]] bool hangs() const { return !waits.empty(); }
  [[nodiscard]] bool most_without_dump() const {
    return std::cmp_greater(2 * without_dump.size(), world_size.value_or(0)) && !without_dump.empty();
  }

  void fields(auto&& v) const {
    v("dumps", dumps), v("calls", calls), v("open_calls", open_calls), v("version", unless_empty(version));
    v("nccl_version", unless_empty(nccl_version)), v("world_size", world_size), v("without_dump", without_dump);
    v("suspects", suspects), v("waits", waits), v("mismatches", mismatches), v("last_calls", last_calls);
  }
};

/// `kind` of a suspect: `never_called` (its host did not come to the call), `device_behind` (others are done with a
/// call that its device is not), `no_dump` (nothing is known of it), `mismatch` (it called something else), `order` (it
/// waits in a circle), `called_alone` (of several ranks no other called it), `stuck_in` (others wait for it, and it is
/// in a call that all its members have called). Without a suspect all ranks are in the same call (the network, or a
/// device, does not do its part), or most ranks' dumps are not there.
FlightReport flight_report(const std::vector<std::shared_ptr<const FlightDump>>& dumps);

}  // namespace profgpu
