#include "analyse/memory/persistent_blocks.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

namespace profgpu {
namespace {

using Category = MemoryCategory;
using Counts = std::map<int64_t, int64_t>;  ///< how many, by bytes

constexpr double kMost = 0.8;                // of the bytes
constexpr int64_t kMostStates = 2;           // of a parameter's own size: Adam's
constexpr int64_t kMostWide = 3;             // of twice its size: Adam's and a master copy
constexpr int64_t kNarrow[] = {4, 2};        // parts of its size that states of 8 bits have: of 32 and 16 bits
constexpr int64_t kSmallestTensor = 1024;    // what is smaller is as well anything else
constexpr int64_t kMostShares = 2 + kMostStates;  // a parameter, its gradient, states

int64_t count_of(const Counts& counts, int64_t bytes) {
  const auto at = counts.find(bytes);
  return at == counts.end() ? 0 : at->second;
}

/// The largest count in one backward pass.
class CountsByPass {
 public:
  void add(int64_t bytes, uint32_t pass) { ++by_pass_[bytes][pass]; }
  [[nodiscard]] Counts most() const {
    Counts counts;
    for (const auto& [bytes, passes] : by_pass_)
      for (const auto& [pass, count] : passes) counts[bytes] = std::max(counts[bytes], count);
    return counts;
  }

 private:
  std::map<int64_t, std::map<uint32_t, int64_t>> by_pass_;
};

/// How many blocks of one size are what; the rest is nothing that is known.
struct Shares {
  int64_t parameters = 0, gradients = 0, states = 0, rest_parameters = 0;

  CategoryOf take() {
    const auto one = [](int64_t& left) { return left > 0 && left-- > 0; };
    if (one(parameters)) return {Category::kParameter, Certainty::kInferred};
    if (one(gradients)) return {Category::kGradient, Certainty::kInferred};
    if (one(states)) return {Category::kOptimizerState, Certainty::kInferred};
    if (one(rest_parameters)) return {Category::kParameter, Certainty::kInferred};
    return {};
  }
};

class Judge {
 public:
  Judge(const MemoryHistory& history, const MemoryPhases& phases, const std::vector<CategoryOf>& categories) {
    CountsByPass gradients, temporaries;
    for (size_t i = 0; i < categories.size(); ++i) {
      const Allocation& a = history.allocations[i];
      const bool made = a.made != Allocation::kOutside;
      const Category category = categories[i].category;
      if (made && category == Category::kGradient) gradients.add(a.bytes, phases.backward_passes(a.made));
      if (made && category == Category::kTemporary && phases.at(a.made) == MemoryPhase::kBackward)
        temporaries.add(a.bytes, phases.backward_passes(a.made));
      if (category == Category::kParameter) ++parameters_[a.bytes];
      if (category == Category::kOptimizerState) ++states_[a.bytes];
      if (is_open(a, categories[i])) ++open_[a.bytes];
    }
    gradients_ = gradients.most();
    temporaries_ = temporaries.most();
    add_copies(history);
  }
  static bool is_open(const Allocation& a, const CategoryOf& c) {
    return a.made == Allocation::kOutside && a.freed == Allocation::kOutside && c.category == Category::kUnknown;
  }

  [[nodiscard]] std::map<int64_t, Shares> run(bool only_forwards) const {
    std::map<int64_t, Shares> all;
    if (only_forwards)
      for (const auto& [bytes, count] : open_) all[bytes].rest_parameters = count;
    else if (!gradients_.empty())
      by_gradients(all);
    else if (!temporaries_.empty())
      by_kept_gradients(all);
    else
      by_copies(all);
    return all;
  }

 private:
  // Of the bytes of gradients, for which of their sizes it holds.
  template <class Holds>
  [[nodiscard]] bool holds_for_most(Holds&& holds) const {
    double all = 0, held = 0;
    for (const auto& [bytes, count] : gradients_) {
      const double weight = static_cast<double>(bytes) * static_cast<double>(count);
      all += weight;
      if (holds(bytes, count)) held += weight;
    }
    return held >= kMost * all;
  }
  [[nodiscard]] int64_t states_of_a_parameter() const {
    for (int64_t k = kMostStates; k > 0; --k)
      if (holds_for_most([&](int64_t bytes, int64_t count) {
            return count_of(open_, bytes) + count_of(parameters_, bytes) + count_of(states_, bytes) >= count * (1 + k);
          }))
        return k;
    return 0;
  }
  [[nodiscard]] int64_t wide_states_of_a_parameter() const {
    for (int64_t k = kMostWide; k > 0; --k)
      if (holds_for_most([&](int64_t bytes, int64_t count) {
            return count_of(open_, 2 * bytes) - count_of(gradients_, 2 * bytes) >= count * k;
          }))
        return k;
    return 0;
  }

  // States of 8 bits: which part of a parameter's size they have, and how many.
  [[nodiscard]] std::pair<int64_t, int64_t> narrow_states_of_a_parameter() const {
    for (int64_t k = kMostStates; k > 0; --k)
      for (const int64_t part : kNarrow)
        if (holds_for_most([&](int64_t bytes, int64_t count) {
              return bytes % part == 0 &&
                     count_of(open_, bytes / part) - count_of(gradients_, bytes / part) >= count * k;
            }))
          return {part, k};
    return {1, 0};
  }

  void by_gradients(std::map<int64_t, Shares>& all) const {
    const int64_t states = states_of_a_parameter(), wide = states == 0 ? wide_states_of_a_parameter() : 0;
    const auto [part, narrow] = states + wide == 0 ? narrow_states_of_a_parameter() : std::pair<int64_t, int64_t>(1, 0);
    for (const auto& [bytes, count] : open_) {
      const int64_t gradients = count_of(gradients_, bytes);
      Shares& s = all[bytes];
      int64_t left = count;
      const auto take = [&](int64_t wanted) {
        const int64_t taken = std::clamp<int64_t>(wanted, 0, left);
        left -= taken;
        return taken;
      };
      s.parameters = take(gradients - count_of(parameters_, bytes));
      s.states = take(states * gradients - count_of(states_, bytes));
      if (bytes % 2 == 0) s.states += take(wide * count_of(gradients_, bytes / 2));
      s.states += take(narrow * count_of(gradients_, bytes * part));
      if (bytes >= kSmallestTensor) s.rest_parameters = left;
    }
  }

  // How many blocks there are of each parameter, as those of most bytes say; 0: they do not agree. `each`: parameters
  // by bytes. Sizes of which none is known vote too if `of_all`.
  [[nodiscard]] int64_t agreed_shares(const Counts& each, int64_t least, int64_t most, bool of_all) const {
    std::array<double, kMostShares + 1> votes{};
    double cast = 0;
    for (const auto& [bytes, count] : open_) {
      const int64_t parameters = count_of(each, bytes);
      if (parameters == 0 && !of_all) continue;
      const double weight = static_cast<double>(bytes) * static_cast<double>(count);
      cast += weight;
      if (parameters > 0 && count % parameters == 0 && count / parameters >= least && count / parameters <= most)
        votes[static_cast<size_t>(count / parameters)] += weight;
    }
    const auto best = std::ranges::max_element(votes);
    return *best > cast / 2 ? best - votes.begin() : 0;
  }

  // Gradients that are zeroed in place are never made: what a backward pass adds to them is temporary, and as large.
  void by_kept_gradients(std::map<int64_t, Shares>& all) const {
    const int64_t shares = agreed_shares(temporaries_, 2, kMostShares, false);
    if (shares == 0) return;
    for (const auto& [bytes, count] : open_) {
      Shares& s = all[bytes];
      const int64_t each = count_of(temporaries_, bytes) > 0 ? count / shares : 0;
      s.parameters = s.gradients = each;
      s.states = each * (shares - 2);
      if (bytes >= kSmallestTensor) s.rest_parameters = count - each * shares;
    }
  }

  // How many blocks of half a size are there at once at most: autocast keeps a copy of each parameter for its time.
  void add_copies(const MemoryHistory& history) {
    std::vector<std::tuple<uint32_t, int64_t, int>> changes;  // row, bytes, one more or less
    for (const Allocation& a : history.allocations) {
      if (a.made == Allocation::kOutside || count_of(open_, 2 * a.bytes) == 0) continue;
      changes.emplace_back(a.made, a.bytes, 1);
      if (a.freed != Allocation::kOutside) changes.emplace_back(a.freed, a.bytes, -1);
    }
    std::ranges::sort(changes);
    Counts live;
    for (const auto& [row, bytes, change] : changes) {
      int64_t& now = live[bytes];
      now += change;
      copies_[2 * bytes] = std::max(copies_[2 * bytes], now);
    }
  }

  // Forward passes alone, of a program that has an optimizer: one copy for each parameter tells how many states there
  // are.
  void by_copies(std::map<int64_t, Shares>& all) const {
    const int64_t shares = agreed_shares(copies_, 1, 1 + kMostStates, true);
    if (shares == 0) return;
    for (const auto& [bytes, count] : open_) {
      Shares& s = all[bytes];
      s.parameters = count / shares;
      s.states = s.parameters * (shares - 1);
      if (bytes >= kSmallestTensor) s.rest_parameters = count - s.parameters * shares;
    }
  }

  Counts gradients_, temporaries_, parameters_, states_, open_;
  Counts copies_;  ///< by the size of what they are a copy of
};

}  // namespace

void judge_made_blocks(const MemoryHistory& history, const MemoryPhases& phases,
                       const std::function<bool(size_t)>& is_made, std::vector<CategoryOf>& categories) {
  CountsByPass by_pass;
  Counts parameters;
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (categories[i].category == Category::kGradient && a.made != Allocation::kOutside)
      by_pass.add(a.bytes, phases.backward_passes(a.made));
    if (categories[i].category == Category::kParameter) ++parameters[a.bytes];
  }
  const Counts gradients = by_pass.most();
  for (size_t i = 0; i < categories.size(); ++i) {
    if (!is_made(i)) continue;
    const int64_t bytes = history.allocations[i].bytes;
    if (count_of(parameters, bytes) >= count_of(gradients, bytes)) continue;
    categories[i] = {Category::kParameter, Certainty::kInferred};
    ++parameters[bytes];
  }
}

void judge_blocks_of_before(const MemoryHistory& history, const MemoryPhases& phases, bool only_forwards,
                            std::vector<CategoryOf>& categories) {
  std::map<int64_t, Shares> shares = Judge(history, phases, categories).run(only_forwards);
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (!Judge::is_open(a, categories[i])) continue;
    if (const auto at = shares.find(a.bytes); at != shares.end()) categories[i] = at->second.take();
  }
}

}  // namespace profgpu
