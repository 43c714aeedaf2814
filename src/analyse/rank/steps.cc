#include "analyse/rank/steps.h"

#include <regex.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <unordered_map>

#include "analyse/rank/captures.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/names.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

/// A POSIX extended regular expression; matches nothing if it is not valid (the command line checks it first).
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    valid_ = ::regcomp(&regex_, text.c_str(), REG_EXTENDED | REG_ICASE | REG_NOSUB) == 0;
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    if (valid_) ::regfree(&regex_);
  }
  [[nodiscard]] bool matches(const std::string& text) const {
    return valid_ && ::regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t regex_{};
  bool valid_ = false;
};

constexpr const char* kProfilerStep = "^ProfilerStep#[0-9]+$";
// "step_12", "iteration 12", "global_step=12", "epoch 0 step 12", "[train step 12/500]".
constexpr const char* kLikeStep =
    "^[[( #]*(epoch[ _#:=-]*[0-9]+[ _,:/-]*)?((train(ing)?|global)[ _-]?)?(step|iter|iteration|batch)[ _#:=-]*[0-9]+"
    "( ?/ ?[0-9]+)?[]) #]*$";
// How much the ends of ranges that follow each other may overlap, since times are rounded.
constexpr int64_t kRounding_ns = 1'000;

std::vector<bool> matching_strings(const Trace& trace, const char* pattern) {
  const Pattern regex(pattern);
  std::vector<bool> hit(trace.strings.size());
  for (size_t i = 0; i < hit.size(); ++i) {
    const std::string_view text = trace.strings[StringId(i)];
    hit[i] = text.size() < 512 && regex.matches(std::string(text));
  }
  return hit;
}

// Ranges with such names on the thread that has most of them, outermost only.
std::vector<HostId> ranges(const Facts& facts, const std::vector<bool>& named) {
  const Trace& trace = facts.trace();
  const Captures& captures = facts.get<Captures>();
  std::map<uint32_t, std::vector<HostId>> by_thread;
  const HostTable& h = trace.host;
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (!named[h.name[i].value] || (h.kind[i] != HostKind::kAnnotation && h.kind[i] != HostKind::kOp)) continue;
    if (captures.is_set_aside(trace, h.start_ns[i])) continue;
    std::vector<HostId>& found = by_thread[h.thread[i].value];
    const int64_t before = found.empty() ? INT64_MIN : h.end_ns(found.back());
    if (h.start_ns[i] >= before || (h.start_ns[i] >= before - kRounding_ns && h.end_ns(HostId(i)) > before))
      found.emplace_back(i);
  }
  std::vector<HostId> best;
  for (auto& [thread, found] : by_thread)
    if (found.size() > best.size()) best = std::move(found);
  return best;
}

std::vector<HostId> engine_ranges(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<bool> named(trace.strings.size());
  for (size_t i = 0; i < named.size(); ++i) named[i] = engine_step(trace.strings[StringId(i)]).has_value();
  return ranges(facts, named);
}

std::vector<HostId> step_ranges(const Facts& facts, const std::vector<HostId>& of_engine) {
  const Trace& trace = facts.trace();
  if (!facts.options().step_pattern.empty())
    return ranges(facts, matching_strings(trace, facts.options().step_pattern.c_str()));
  if (auto found = ranges(facts, matching_strings(trace, kProfilerStep)); !found.empty()) return found;
  return of_engine.empty() ? ranges(facts, matching_strings(trace, kLikeStep)) : of_engine;
}

// A step that holds one step of an engine is that; one that holds several is of their kind if they are all alike.
void set_engine_steps(const Trace& trace, const std::vector<HostId>& of_engine, std::vector<Step>& steps) {
  size_t at = 0;
  for (Step& s : steps) {
    const auto start = [&](size_t i) { return trace.host.start_ns[of_engine[i].value]; };
    while (at < of_engine.size() && start(at) < s.start_ns) ++at;
    const size_t first = at;
    for (; at < of_engine.size() && start(at) < s.interval().end; ++at) {
      const EngineStep one = *engine_step(trace.name(of_engine[at]));
      if (at == first) s.batch = one;
      else s.batch = {one.kind == s.batch.kind ? one.kind : StepKind::kUnknown, {}, {}, {}};
    }
  }
}

// Steps with a backward pass or an optimizer train; where there are such, the others evaluate.
void set_training_kinds(const Facts& facts, std::vector<Step>& steps) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  std::vector<int64_t> times;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (const uint32_t name = trace.host.name[i].value;
        names.autograd[name] || (names.phase[name] == Phase::kOptimizer && trace.host.kind[i] != HostKind::kPython))
      times.push_back(trace.host.start_ns[i]);
  std::sort(times.begin(), times.end());
  for (Step& s : steps) {
    const auto next = std::lower_bound(times.begin(), times.end(), s.start_ns);
    if (s.batch.kind == StepKind::kUnknown && next != times.end() && *next < s.interval().end)
      s.batch.kind = StepKind::kTrain;
  }
  const auto trains = [](const Step& s) { return s.batch.kind == StepKind::kTrain; };
  if (!std::any_of(steps.begin(), steps.end(), trains)) return;
  for (Step& s : steps)
    if (s.batch.kind == StepKind::kUnknown) s.batch.kind = StepKind::kEval;
}

// Of "[step 12/500]", "[step 12".
std::string_view without_total(std::string_view name) {
  name = name.substr(0, name.find_last_not_of(" #])") + 1);
  const size_t slash = name.rfind('/');
  const bool total = slash != name.npos && name.find_first_not_of("0123456789 ", slash + 1) == name.npos;
  return total ? name.substr(0, name.find_last_not_of(" /", slash) + 1) : name;
}

std::optional<int64_t> number_at_end(std::string_view name) {
  name = without_total(name);
  size_t at = name.size();
  while (at > 0 && is_digit(name[at - 1])) --at;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), value);
  return error == std::errc() && at < name.size() ? std::optional(value) : std::nullopt;
}

// The thread whose outermost ranges cover most time.
ThreadId busiest_thread(const Trace& trace) {
  ThreadId best;
  int64_t most = -1;
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    if (trace.threads[t].is_sampled_stack()) continue;
    int64_t sum = 0;
    for (uint32_t i = trace.threads[t].begin.value; i < trace.threads[t].end.value; ++i)
      if (!trace.host.parent[i].valid() && trace.host.kind[i] != HostKind::kOverhead) sum += trace.host.duration_ns[i];
    if (trace.threads[t].begin < trace.threads[t].end && sum > most) best = ThreadId(t), most = sum;
  }
  return best;
}

// prof.step() opens a step that may end with the recording, before it has launched anything: a step of microseconds,
// beside which every other would look like warm-up.
void mark_incomplete(const std::vector<int64_t>& launches, std::vector<Step>& steps) {
  if (steps.size() < 2) return;
  const auto launched_in = [&](const Step& s) {
    const auto first = std::lower_bound(launches.begin(), launches.end(), s.start_ns);
    return first != launches.end() && *first < s.interval().end;
  };
  std::vector<int64_t> others;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (!launched_in(steps[i])) return;
    others.push_back(steps[i].duration_ns);
  }
  Step& last = steps.back();
  last.incomplete = !launched_in(last) && 2 * last.duration_ns < lower_median(std::move(others));
}

// Leading steps longer than 1.5 times the lower median of all. An engine's are compared with others of their kind: a
// prefill is no slow decode.
void mark_warmup(std::vector<Step>& steps) {
  if (steps.size() < 2) return;
  std::map<StepKind, std::vector<int64_t>> durations;
  const auto group = [](const Step& s) {
    const StepKind kind = s.batch.kind;
    return kind == StepKind::kTrain || kind == StepKind::kEval ? StepKind::kUnknown : kind;
  };
  for (const Step& s : steps)
    if (!s.incomplete) durations[group(s)].push_back(s.duration_ns);
  for (Step& s : steps) {
    if (s.incomplete) break;
    if (static_cast<double>(s.duration_ns) <= 1.5 * static_cast<double>(lower_median(durations[group(s)]))) break;
    s.warmup = true;
  }
}

// Each profiler window has a warm-up and an end of its own.
void mark_left_out(const Trace& trace, std::vector<Step>& steps) {
  std::vector<int64_t> launches;
  for (const HostId call : trace.launching) launches.push_back(trace.host.start_ns[call.value]);
  std::sort(launches.begin(), launches.end());
  std::vector<Step> part;
  size_t done = 0;
  for (size_t w = 0; w < trace.windows.size(); ++w) {
    const int64_t end = w + 1 < trace.windows.size() ? trace.windows[w + 1].start : INT64_MAX;
    part.clear();
    for (size_t i = done; i < steps.size() && steps[i].start_ns < end; ++i) part.push_back(steps[i]);
    mark_incomplete(launches, part);
    mark_warmup(part);
    for (const Step& s : part) steps[done].incomplete = s.incomplete, steps[done++].warmup = s.warmup;
  }
}

// A capture is no run: it counts only where nothing else was recorded.
void leave_out_captures(std::vector<Step>& steps) {
  const auto captures = [](const Step& s) { return s.batch.kind == StepKind::kCapture; };
  if (std::all_of(steps.begin(), steps.end(), captures)) return;
  for (Step& s : steps) s.warmup |= captures(s);
}

// For a recording in which nothing marks steps.
void add_estimated(const Trace& trace, Steps& all) {
  const PeriodicSteps periodic = periodic_steps(trace);
  for (const Interval& step : periodic.steps) {
    Step s;
    s.index = static_cast<int64_t>(all.steps.size());
    s.name = "estimated step " + std::to_string(s.index);
    s.start_ns = step.start;
    s.duration_ns = step.length();
    all.steps.push_back(std::move(s));
  }
  all.estimated = periodic.steps.empty() ? 0 : periodic.confidence;
}

}  // namespace

std::vector<const Step*> Steps::measured() const {
  std::vector<const Step*> out;
  for (const Step& s : steps)
    if (s.is_measured()) out.push_back(&s);
  if (out.empty())
    for (const Step& s : steps) out.push_back(&s);
  return out;
}

Intervals Steps::left_out_time() const {
  Intervals time;
  if (measured().size() == steps.size()) return time;
  for (const Step& s : steps)
    if (!s.is_measured()) time.push_back(s.interval());
  return merged(std::move(time));
}

int64_t Steps::measured_wall_ns() const {
  int64_t sum = 0;
  for (const Step* s : measured()) sum += s->duration_ns;
  return sum;
}

int64_t Steps::total_wall_ns() const {
  int64_t sum = 0;
  for (const Step& s : steps) sum += s.duration_ns;
  return sum;
}

Steps Steps::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Steps all;
  const std::vector<HostId> of_engine = engine_ranges(facts);
  const std::vector<HostId> found = step_ranges(facts, of_engine);
  for (size_t i = 0; i < found.size(); ++i) {
    Step s;
    s.name = trace.name(found[i]);
    s.index = engine_step(s.name) ? static_cast<int64_t>(i) : number_at_end(s.name).value_or(static_cast<int64_t>(i));
    s.start_ns = trace.host.start_ns[found[i].value];
    s.duration_ns = trace.host.duration_ns[found[i].value];
    s.range = found[i];
    all.steps.push_back(s);
  }
  all.annotated = !all.steps.empty();
  set_engine_steps(trace, of_engine, all.steps);
  set_training_kinds(facts, all.steps);
  if (!all.annotated && trace.recorded && facts.options().step_pattern.empty()) add_estimated(trace, all);
  mark_left_out(trace, all.steps);
  leave_out_captures(all.steps);
  std::erase_if(all.steps, [&](const Step& s) {
    return s.index < facts.options().first_step || s.index >= facts.options().end_step;
  });
  all.thread = all.annotated ? trace.host.thread[found.front().value] : busiest_thread(trace);
  if (!all.annotated && all.estimated == 0) {
    for (size_t w = 0; w < trace.windows.size(); ++w) {
      if (facts.get<Captures>().set_aside[w]) continue;
      Step s;
      s.name = "trace";
      s.index = static_cast<int64_t>(w);
      s.start_ns = trace.windows[w].start;
      s.duration_ns = trace.windows[w].length();
      all.steps.push_back(s);
    }
  }
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest >= 0) {
    const DeviceTime& d = devices.devices[devices.busiest];
    all.device = d.id;
    for (Step& s : all.steps) {
      s.device = d.id;
      s.device_busy_ns = overlap_length(d.busy, s.interval());
      s.device_idle_ns = s.duration_ns - s.device_busy_ns;
    }
  }
  return all;
}

StepFinder::StepFinder(const Steps& steps) : steps_(steps.steps), counts_(steps.steps.size()) {
  for (const Step* step : steps.measured()) counts_[static_cast<size_t>(step - steps_.data())] = true;
}

int64_t StepFinder::operator()(int64_t time_ns) {
  if (steps_.empty()) return -1;
  if (at_ > 0 && time_ns < steps_[at_].start_ns) at_ = 0;
  while (at_ + 1 < steps_.size() && steps_[at_ + 1].start_ns <= time_ns) ++at_;
  const Interval step = steps_[at_].interval();
  return counts_[at_] && step.start <= time_ns && time_ns < step.end ? static_cast<int64_t>(at_) : -1;
}

// A stretch of a few names ("gram") that comes at even distances votes for its distance. Every distance that has many
// votes is tried, from short to long: layers, micro-batches, steps, what is done every tenth step. A longer one is
// taken only if its parts are more alike than those of the shorter one, weighed by time: a layer leaves out what is
// between the last layer and the next step's first, a micro-batch the optimizer, but a step leaves out next to nothing.

namespace {

constexpr size_t kMinSteps = 5;
constexpr size_t kLongestSearch = 500'000;    // activities looked at to find the period
constexpr size_t kGramSizes[] = {8, 4, 2, 1};
constexpr size_t kMaxGramDistances = 8;          // tried for each size of grams
constexpr double kBetter = 0.01;              // of confidence, to take a longer period
constexpr double kMinConfidence = 0.7;

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
  if (places.size() < kMinSteps) return 0;
  std::vector<uint32_t> gaps;
  for (size_t i = 1; i < places.size(); ++i) gaps.push_back(places[i] - places[i - 1]);
  const uint32_t median = upper_median(gaps), slack = std::max<uint32_t>(median / 10, median > 4 ? 1 : 0);
  const auto near = [&](uint32_t gap) { return gap + slack >= median && gap <= median + slack; };
  const auto even = static_cast<size_t>(std::count_if(gaps.begin(), gaps.end(), near));
  return even * 5 >= gaps.size() * 4 && even + 1 >= kMinSteps ? median : 0;
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
  if (searched < length * kMinSteps) return;
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
  for (size_t i = 0; i < std::min(most.size(), kMaxGramDistances); ++i)
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
  if (found.steps.size() < kMinSteps) return {};
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
  return best.confidence >= kMinConfidence ? best : PeriodicSteps();
}

}  // namespace profgpu
