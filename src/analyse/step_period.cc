// A stretch of a few names ("gram") that comes at even distances votes for its distance. Every distance that has many
// votes is tried, from short to long: layers, micro-batches, steps, what is done every tenth step. A longer one is
// taken only if its parts are more alike than those of the shorter one, weighed by time: a layer leaves out what is
// between the last layer and the next step's first, a micro-batch the optimizer, but a step leaves out next to nothing.
#include "analyse/step_period.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kFewestSteps = 5;
constexpr size_t kLongestSearch = 500'000;    // activities looked at to find the period
constexpr size_t kGramSizes[] = {8, 4, 2, 1};
constexpr size_t kMostGramDistances = 8;          // tried for each size of grams
constexpr double kBetter = 0.01;              // of confidence, to take a longer period
constexpr double kLeastConfidence = 0.7;

using Places = std::vector<uint32_t>;

/// What one stream ran, in order.
struct Sequence {
  std::vector<ActivityId> activities;
  std::vector<uint32_t> names;

  [[nodiscard]] size_t size() const { return names.size(); }
  [[nodiscard]] int64_t start_ns(const Trace& trace, size_t at) const {
    return trace.activity.start_ns[activities[at].value];
  }
  [[nodiscard]] uint64_t gram(size_t at, size_t length) const {
    uint64_t hash = 0x9E3779B97F4A7C15;
    for (size_t i = at; i < at + length; ++i) hash = (hash ^ names[i]) * 0xD6E8FEB86659FD93, hash ^= hash >> 31;
    return hash;
  }
};

Sequence busiest_sequence(const Trace& trace) {
  std::vector<size_t> count(trace.queues.size());
  for (const uint16_t q : trace.activity.queue) ++count[q];
  Sequence s;
  if (count.empty()) return s;
  const auto most = static_cast<uint16_t>(std::max_element(count.begin(), count.end()) - count.begin());
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (trace.activity.queue[i] != most) continue;
    s.activities.emplace_back(i);
    s.names.push_back(trace.activity.name[i].value);
  }
  return s;
}

// The distance between successive places if most are alike, else 0. The first ones may differ: warm-up.
uint32_t even_distance(const Places& places) {
  if (places.size() < kFewestSteps) return 0;
  std::vector<uint32_t> gaps;
  for (size_t i = 1; i < places.size(); ++i) gaps.push_back(places[i] - places[i - 1]);
  const uint32_t median = upper_median(gaps), slack = std::max<uint32_t>(median / 10, median > 4 ? 1 : 0);
  const auto near = [&](uint32_t gap) { return gap + slack >= median && gap <= median + slack; };
  const auto even = static_cast<size_t>(std::count_if(gaps.begin(), gaps.end(), near));
  return even * 5 >= gaps.size() * 4 && even + 1 >= kFewestSteps ? median : 0;
}

struct Anchor {
  size_t length = 0;       // of the gram
  uint64_t gram = 0;
  uint32_t period = 0;     // activities a step
};

int64_t duration(const Trace& trace, const Sequence& s, int64_t at) {
  return trace.activity.duration_ns[s.activities[static_cast<size_t>(at)].value];
}

// How long the device paused before these places, as a rule.
int64_t pause_before(const Trace& trace, const Sequence& s, const Places& places) {
  std::vector<int64_t> pauses;
  for (const uint32_t p : places)
    if (p > 0) pauses.push_back(s.start_ns(trace, p) - trace.activity.end_ns(s.activities[p - 1]));
  if (pauses.empty()) return INT64_MIN;
  return upper_median(std::move(pauses));
}

using Voter = std::pair<const uint64_t, Places>;

// Of the grams of one distance, the one with the longest pause before it; the first of those.
Anchor best_anchor(const Trace& trace, const Sequence& s, size_t length, uint32_t period,
                   const std::vector<const Voter*>& voters) {
  const auto rank = [&](const Voter* v) {
    return std::pair(pause_before(trace, s, v->second), -static_cast<int64_t>(v->second.front()));
  };
  const Voter* best = voters.front();
  auto best_rank = rank(best);
  for (const Voter* v : voters)
    if (const auto r = rank(v); r > best_rank) best = v, best_rank = r;
  return {length, best->first, period};
}

void add_anchors(const Trace& trace, const Sequence& s, size_t length, std::vector<Anchor>& anchors) {
  const size_t searched = std::min(s.size(), kLongestSearch);
  if (searched < length * kFewestSteps) return;
  std::unordered_map<uint64_t, Places> grams;
  for (size_t i = 0; i + length <= searched; ++i) grams[s.gram(i, length)].push_back(static_cast<uint32_t>(i));
  std::map<uint32_t, std::vector<const Voter*>> voters;
  std::map<uint32_t, size_t> votes;
  for (const Voter& gram : grams) {
    const uint32_t distance = even_distance(gram.second);
    // Steps fill at least half of the sequence, or they are not what it is about.
    if (distance < 2 || 2 * size_t{gram.second.back() - gram.second.front()} < searched) continue;
    voters[distance].push_back(&gram);
    votes[distance] += gram.second.size();
  }
  std::vector<std::pair<size_t, uint32_t>> most;
  for (const auto& [distance, count] : votes) most.emplace_back(count, distance);
  std::sort(most.rbegin(), most.rend());
  for (size_t i = 0; i < std::min(most.size(), kMostGramDistances); ++i)
    anchors.push_back(best_anchor(trace, s, length, most[i].second, voters[most[i].second]));
}

// The share of the time of two steps that both spend alike.
double likeness(const Trace& trace, const Sequence& s, Interval a, Interval b) {
  std::unordered_map<uint32_t, int64_t> count;
  int64_t all_a = 0, all_b = 0, common = 0;
  for (int64_t i = a.start; i < a.end; ++i) ++count[s.names[static_cast<size_t>(i)]], all_a += duration(trace, s, i);
  for (int64_t i = b.start; i < b.end; ++i) {
    all_b += duration(trace, s, i);
    if (count[s.names[static_cast<size_t>(i)]]-- > 0) common += duration(trace, s, i);
  }
  const auto longer = static_cast<double>(std::max(all_a, all_b));
  return longer > 0 ? static_cast<double>(std::min(common, all_a)) / longer : 0;
}

bool within_one_window(const Trace& trace, Interval step) {
  return std::none_of(trace.windows.begin(), trace.windows.end(),
                      [&](const Interval& w) { return w.start > step.start && w.start < step.end; });
}

PeriodicSteps steps_at(const Trace& trace, const Sequence& s, const Anchor& anchor) {
  std::vector<int64_t> places;
  for (size_t i = 0; i + anchor.length <= s.size(); ++i)
    if (s.gram(i, anchor.length) == anchor.gram) places.push_back(static_cast<int64_t>(i));
  const auto start = [&](int64_t place) { return s.start_ns(trace, static_cast<size_t>(place)); };
  const int64_t period = anchor.period;
  PeriodicSteps found;
  double alike = 0;
  int64_t covered = 0;
  Interval before, reach{INT64_MAX, 0};
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const Interval part{places[i], places[i + 1]}, step{start(part.start), start(part.end)};
    if (part.length() * 2 < period || part.length() > period + period / 2 || !within_one_window(trace, step)) continue;
    if (!found.steps.empty()) alike += likeness(trace, s, before, part);
    found.steps.push_back(step);
    for (int64_t p = part.start; p < part.end; ++p) covered += duration(trace, s, p);
    reach = {std::min(reach.start, part.start), part.end};
    before = part;
  }
  if (found.steps.size() < kFewestSteps) return {};
  int64_t all = 0;
  for (int64_t p = reach.start; p < reach.end; ++p) all += duration(trace, s, p);
  const double share = all > 0 ? static_cast<double>(covered) / static_cast<double>(all) : 0;
  found.confidence = share * alike / static_cast<double>(found.steps.size() - 1);
  return found;
}

}  // namespace

PeriodicSteps periodic_steps(const Trace& trace) {
  const Sequence s = busiest_sequence(trace);
  std::vector<Anchor> anchors;
  for (const size_t length : kGramSizes) add_anchors(trace, s, length, anchors);
  std::stable_sort(anchors.begin(), anchors.end(),
                   [](const Anchor& a, const Anchor& b) { return a.period < b.period; });
  PeriodicSteps best;
  uint32_t period = 0;
  for (const Anchor& anchor : anchors) {
    PeriodicSteps found = steps_at(trace, s, anchor);
    const bool same = anchor.period <= period + period / 10;
    const bool more = same && found.steps.size() > best.steps.size() && found.confidence > best.confidence - kBetter;
    if (found.confidence <= best.confidence + kBetter && !more) continue;
    best = std::move(found);
    period = anchor.period;
  }
  return best.confidence >= kLeastConfidence ? best : PeriodicSteps();
}

}  // namespace profgpu
