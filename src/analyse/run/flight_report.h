// FlightReport: of the flight recorders of a job's ranks, who waits for whom, and whose fault that is.
//
// Of each rank only its first call that has not completed matters: what it called later waits behind it. A call waits
// for the ranks of its group that have not called it, or whose devices are still in an earlier call. Following that
// from rank to rank ends at those who wait for nobody: the suspects. Ranks that wait in a circle called in different
// orders.
#pragma once

#include <map>
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

/// Ranks that called the same thing where others called another.
struct FlightVariant {
  std::string value;
  std::vector<int> ranks;

  void fields(auto&& v) const { v("value", value), v("ranks", ranks); }
};

/// Ranks that called different things under one number of a group, or as the two ends of a send.
struct FlightMismatch {
  std::string process_group, description;
  int64_t sequence = 0;
  std::string what;          ///< name, size or type
  std::string usual, other;  ///< what most called, and what the first of `ranks` called
  std::vector<int> ranks;    ///< the fewer ones; without a majority all
  std::vector<FlightVariant> variants;  ///< of all ranks that called it, the most frequent first
  std::string send;                     ///< "send from rank 1 to rank 2 of ..."; empty: a collective
  bool majority = true;                 ///< most ranks agree
  bool blamed = false;                  ///< the suspects are named for it

  void fields(auto&& v) const {
    v("process_group", process_group), v("description", unless_empty(description)), v("sequence", sequence);
    v("what", what), v("usual", usual), v("other", other), v("ranks", ranks), v("variants", variants);
  }
};

struct FlightReport {
  int64_t dumps = 0, calls = 0, open_calls = 0;
  std::string version, nccl_version;
  std::optional<int64_t> world_size;
  std::vector<int> without_dump;           ///< ranks of the job's groups
  std::vector<FlightSuspect> suspects;     ///< most waited for first
  std::vector<FlightSuspect> more;         ///< suspects beyond the few that are named
  std::map<int, std::string> nameless;     ///< ranks that no file's name states, and their files
  int64_t dumps_left_out = 0;              ///< older than another of the same rank
  bool members_unknown = false;            ///< ranks wait in groups of which no dump says who is in them
  std::vector<FlightWait> waits;           ///< earliest first
  std::vector<FlightMismatch> mismatches;  ///< earliest first
  /// If no rank waits, the last call of each rank, without repetition.
  std::vector<std::string> last_calls;

  [[nodiscard]] bool hangs() const { return !waits.empty(); }
  [[nodiscard]] bool most_without_dump() const {
    return std::cmp_greater(2 * without_dump.size(), world_size.value_or(0)) && !without_dump.empty();
  }

  [[nodiscard]] std::vector<int> ranks_left_out() const {
    std::vector<int> ranks;
    for (const FlightSuspect& s : more) ranks.push_back(s.rank);
    return ranks;
  }

  void fields(auto&& v) const {
    v("dumps", dumps), v("calls", calls), v("open_calls", open_calls), v("version", unless_empty(version));
    v("nccl_version", unless_empty(nccl_version)), v("world_size", world_size), v("without_dump", without_dump);
    v("suspects", suspects), v("suspects_left_out", ranks_left_out()), v("waits", waits), v("mismatches", mismatches);
    v("last_calls", last_calls), v("dumps_left_out", dumps_left_out), v("members_unknown", members_unknown);
  }
};

/// `kind` of a suspect: `never_called` (its host did not come to the call), `device_behind` (others are done with a
/// call that its device is not), `not_started` (others' devices have started it), `no_dump` and `cut_dump` (nothing is
/// known of it, or its dump is not whole), `mismatch` (it called something else), `order` (it waits in a circle),
/// `both_send` (two ranks send to each other), `called_alone` (of several ranks no other called it), `stuck_in` (others
/// wait for it, and it is in a call that all its members have called). Without a suspect all ranks are in the same call
/// (the network, or a device, does not do its part), most ranks' dumps are not there, or the dumps do not say who is in
/// which group.
FlightReport flight_report(const std::vector<std::shared_ptr<const FlightDump>>& dumps);

}  // namespace profgpu
