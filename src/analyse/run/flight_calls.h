// The calls of all ranks' flight recorders, matched: which call of one rank is which of another, and how far each is.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
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
    std::vector<int> ranks;  ///< sorted; of a group whose members are not stated, those that are known to be in it
    bool has_p2p = false;    ///< then a rank's count of its last call says nothing of collectives
    bool stated = false;     ///< a dump says who is in it, or it is the first group, which has all ranks
    bool first = false;
  };
  struct Call {
    size_t group = 0;  ///< in groups()
    const FlightCall* call = nullptr;
    int rank = 0;  ///< whose call it is
  };
  /// All sends, or all receives, between two ranks of a group.
  using Side = std::tuple<size_t, int, int, bool>;
  struct Rank {
    const FlightDump* dump = nullptr;
    std::vector<Call> calls;  ///< in the order in which they were made
    std::map<std::pair<size_t, int64_t>, size_t>
        by_number;                                       ///< of collectives: group and sequence to a place in `calls`
    std::map<size_t, int64_t> newest;                    ///< by group: of collectives
    std::map<Side, std::vector<size_t>> sides;           ///< of point-to-point calls: each part's place in `calls`
    std::map<size_t, std::pair<int64_t, int64_t>> last;  ///< by group: last enqueued and completed, where known

    [[nodiscard]] const Call* first_open() const;
    void number();  ///< sets `by_number`, `newest` and `sides` from `calls`
  };

  /// By the clock; a call without a time is the last.
  static bool earlier(const Call& a, const Call& b);

  [[nodiscard]] const std::map<int, Rank>& ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// Ranks of any group, whether they have a dump or not.
  [[nodiscard]] const std::vector<int>& all_ranks() const { return all_; }

  /// Dumps whose rank neither their file's name nor their groups tell, by the number that they got here.
  [[nodiscard]] const std::map<int, std::string>& nameless() const { return nameless_; }

  /// Ranks that take part in a call, itself included, as far as they are known.
  [[nodiscard]] std::vector<int> members(const Call& call) const;
  /// How far `rank` is with what `call` is on its side.
  [[nodiscard]] FlightPlace place(int rank, const Call& call) const;
  /// The same call as `rank` made it, if it has it in its dump.
  [[nodiscard]] const Call* same(int rank, const Call& call) const;
  /// What the other side of a call's `part` has: its call, if it has one.
  struct Counterpart {
    FlightPlace place = FlightPlace::kAbsent;
    int rank = -1;
    const Call* call = nullptr;
    const FlightPart* part = nullptr;
  };
  [[nodiscard]] Counterpart counterpart(const Call& call, size_t part) const;
  /// "all_reduce #17 of TENSOR_MODEL_PARALLEL_GROUP (35)", "send from rank 8 to rank 9 of ..."
  [[nodiscard]] std::string text(const Call& call) const;
  /// The same as `rank`, another one, would make it: "recv from rank 8 of ..."
  [[nodiscard]] std::string text_for(int rank, const Call& call) const;

 private:
  void add_ranks(const std::vector<std::shared_ptr<const FlightDump>>& dumps);
  void add_calls(int rank, Rank& r);
  void add_members();
  void add_known_members(size_t group);
  size_t group_of(const FlightGroup& group, int rank);
  void set_status();
  void add_overwritten();
  void add_shifts();
  [[nodiscard]] int64_t shift_of(int sender, int receiver, const Side& sends) const;
  [[nodiscard]] std::optional<int64_t> counted_shift(int sender, int receiver, const std::vector<size_t>& sends,
                                                     const std::vector<size_t>& receives) const;
  [[nodiscard]] std::optional<int> rank_in(size_t group, int place) const;
  [[nodiscard]] std::string rank_text(size_t group, int place) const;
  [[nodiscard]] std::string group_text(size_t group) const;

  std::map<int, Rank> ranks_;
  std::vector<Group> groups_;
  std::deque<FlightCall> overwritten_;  ///< open calls that have left a rank's buffer, as another rank has them
  std::map<std::tuple<std::string, std::vector<int>, int>, size_t> group_place_;
  std::map<Side, int64_t> shifts_;  ///< of sends: how many more receives than sends the two dumps have before a pair
  std::map<int, std::string> nameless_;
  std::vector<int> all_;
};

}  // namespace profgpu
