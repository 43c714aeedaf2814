// The calls of all ranks' flight recorders, matched: which call of one rank is which of another, and how far each is.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/flight_dump.h"

namespace profgpu {

/// How far a rank is with a call of one of its groups.
enum class FlightPlace : uint8_t { kAbsent, kOpen, kDone, kNoDump };

class FlightCalls {
 public:
  explicit FlightCalls(const std::vector<std::shared_ptr<const FlightDump>>& dumps);

  struct Group {
    std::string name, description;
    std::vector<int> ranks;  ///< sorted
    bool has_p2p = false;    ///< then a rank's count of its last call says nothing of collectives
  };
  struct Call {
    size_t group = 0;  ///< in groups()
    const FlightCall* call = nullptr;
    size_t nth = 0;  ///< among the rank's open calls of the same two peers and direction
  };
  struct Rank {
    const FlightDump* dump = nullptr;
    std::vector<Call> calls;  ///< in the order in which they were made
    std::map<std::pair<size_t, int64_t>, size_t>
        by_number;                                       ///< of collectives: group and sequence to a place in `calls`
    std::map<size_t, int64_t> newest;                    ///< by group: of collectives
    std::map<size_t, std::pair<int64_t, int64_t>> last;  ///< by group: last enqueued and completed, where known

    [[nodiscard]] const Call* first_open() const;
    void number();  ///< sets `by_number` and `newest` from `calls`
  };

  /// By the clock; a call without a time is the last.
  static bool earlier(const Call& a, const Call& b);

  [[nodiscard]] const std::map<int, Rank>& ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// Ranks of any group, whether they have a dump or not.
  [[nodiscard]] const std::vector<int>& all_ranks() const { return all_; }

  /// Ranks that take part in a call, itself included.
  [[nodiscard]] std::vector<int> members(const Call& call) const;
  /// How far `rank` is with what `call` is on its side.
  [[nodiscard]] FlightPlace place(int rank, const Call& call) const;
  /// The same call as `rank` made it, if it has it in its dump.
  [[nodiscard]] const Call* same(int rank, const Call& call) const;
  /// "all_reduce #17 of TENSOR_MODEL_PARALLEL_GROUP (35)", "recv from rank 8, ..."
  [[nodiscard]] std::string text(const Call& call) const;

 private:
  void add_calls(Rank& r);
  void add_members();
  size_t group_of(const FlightGroup& group);
  void set_status();
  void add_overwritten();
  [[nodiscard]] int rank_in(size_t group, int place) const;

  std::map<int, Rank> ranks_;
  std::vector<Group> groups_;
  std::deque<FlightCall> overwritten_;  ///< open calls that have left a rank's buffer, as another rank has them
  std::map<std::pair<std::string, std::vector<int>>, size_t> group_place_;
  std::vector<int> all_;
};

}  // namespace profgpu
