#include "analyse/rank/steps.h"

#include <regex.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "analyse/rank/captures.h"
#include "analyse/rank/device_steps.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/names.h"
#include "base/pattern.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

/// A POSIX extended regular expression. An invalid one, which the command line rejects, matches nothing.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    valid_ = pattern_size(text) <= kMaxPatternSize &&
             ::regcomp(&regex_, text.c_str(), REG_EXTENDED | REG_ICASE | REG_NOSUB) == 0;
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
// Also behind the name of an NVTX domain ("training: step 12"), and "batch 3: train", "infer 7".
constexpr const char* kLikeStep =
    "^([a-z][a-z0-9_.-]*: )?[[( #]*(epoch[ _#:=-]*[0-9]+[ _,:/-]*)?((train(ing)?|global)[ _-]?)?"
    "(step|iter|iteration|batch|infer|inference)[ _#:=-]*[0-9]+( ?/ ?[0-9]+)?[]) #]*( ?: ?train(ing)?)?$";
// "train_step", again and again; Lightning's name for it.
constexpr const char* kUnnumberedStep =
    "^([a-z][a-z0-9_.-]*: )?(((train(ing)?|global)[ _-]?)?(step|iter|iteration|batch)|"
    "\\[pl]\\[profile](.*\\.)?run_training_batch)$";
// By how much consecutive ranges may overlap, because times are rounded.
constexpr int64_t kRounding_ns = 1'000;
constexpr size_t kRepeated = 3;   // of ranges without a number: fewer may be anything

std::vector<bool> matching_strings(const Trace& trace, const char* pattern) {
  const Pattern regex(pattern);
  std::vector<bool> hit(trace.strings.size());
  for (size_t i = 0; i < hit.size(); ++i) {
    const std::string_view text = trace.strings[StringId(i)];
    hit[i] = text.size() < 512 && regex.matches(std::string(text));
  }
  return hit;
}

/// A range that stands for a step, and its time.
struct StepRange {
  HostId range;
  Interval time;
};

std::string_view without_number(std::string_view name) { return name.substr(0, name.find_first_of("0123456789")); }

// A program that opens a range for each step and closes none leaves them in each other, and all end together.
bool never_closed(const Trace& trace, HostId outer, HostId inner) {
  return trace.host.end_ns(outer) == trace.host.end_ns(inner) && outer != inner &&
         without_number(trace.name(outer)) == without_number(trace.name(inner));
}

// The last of such steps lasts as long as there are closed ranges in it.
int64_t end_of_last(const Trace& trace, HostId step) {
  const HostTable& h = trace.host;
  int64_t end = h.start_ns[step.value];
  const Thread& thread = trace.threads[h.thread[step.value].value];
  for (HostId i(size_t{step.value} + 1); i < thread.end; i = HostId(size_t{i.value} + 1))
    if (h.kind[i.value] == HostKind::kAnnotation || h.kind[i.value] == HostKind::kOp)
      if (h.end_ns(i) < h.end_ns(step)) end = std::max(end, h.end_ns(i));
  return end > h.start_ns[step.value] ? end : h.end_ns(step);
}

// Outermost ranges with such names, on the thread that has most of them.
std::vector<StepRange> ranges(const Facts& facts, const std::vector<bool>& named) {
  const Trace& trace = facts.trace();
  const Captures& captures = facts.get<Captures>();
  std::map<uint32_t, std::vector<StepRange>> by_thread;
  const HostTable& h = trace.host;
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (!named[h.name[i].value] || (h.kind[i] != HostKind::kAnnotation && h.kind[i] != HostKind::kOp)) continue;
    if (captures.is_set_aside(trace, h.start_ns[i])) continue;
    std::vector<StepRange>& found = by_thread[h.thread[i].value];
    const int64_t before = found.empty() ? INT64_MIN : h.end_ns(found.back().range);
    const bool open = !found.empty() && never_closed(trace, found.back().range, HostId(i));
    if (open) found.back().time.end = h.start_ns[i];
    if (open || h.start_ns[i] >= before || (h.start_ns[i] >= before - kRounding_ns && h.end_ns(HostId(i)) > before))
      found.push_back({HostId(i), h.interval(HostId(i))});
  }
  std::vector<StepRange> best;
  for (auto& [thread, found] : by_thread)
    if (found.size() > best.size()) best = std::move(found);
  if (best.size() > 1 && never_closed(trace, best[best.size() - 2].range, best.back().range))
    best.back().time.end = end_of_last(trace, best.back().range);
  return best;
}

// Drafts of speculative decoding are parts of the round that verifies them.
bool is_part_of_round(std::string_view name) { return name.starts_with("step[DRAFT"); }

std::vector<bool> engine_names(const Trace& trace) {
  std::vector<bool> named(trace.strings.size()), drafts(trace.strings.size());
  bool verifies = false;
  for (size_t i = 0; i < named.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    named[i] = engine_step(name).has_value();
    drafts[i] = is_part_of_round(name);
    verifies |= name.starts_with("step[TARGET_VERIFY ");
  }
  for (size_t i = 0; i < named.size() && verifies; ++i) named[i] = named[i] && !drafts[i];
  return named;
}

// Rounds without requests only keep up with other ranks: they are no steps.
void find_engine_ranges(const Facts& facts, Steps& all) {
  const Trace& trace = facts.trace();
  Intervals& unasked = all.without_requests;   // from one step to the next, if such a round is between them
  bool waits = false;
  for (const auto& [range, time] : ranges(facts, engine_names(trace))) {
    EngineStep step = *engine_step(trace.name(range));
    const bool empty = step.sequences == 0;
    if (empty && waits) unasked.back().end = time.end;
    else if (empty) unasked.push_back({all.of_engine.empty() ? time.start : all.of_engine.back().time.end, time.end});
    else if (waits) unasked.back().end = time.start;
    if (!empty) all.of_engine.push_back({range, time, std::move(step), false, trace.host.name[range.value]});
    waits = empty;
  }
  all.without_requests = merged(std::move(all.without_requests));
}

std::vector<StepRange> step_ranges(const Facts& facts, const std::vector<EngineRange>& of_engine) {
  const Trace& trace = facts.trace();
  if (!facts.options().step_pattern.empty())
    return ranges(facts, matching_strings(trace, facts.options().step_pattern.c_str()));
  if (auto found = ranges(facts, matching_strings(trace, kProfilerStep)); !found.empty()) return found;
  if (of_engine.empty()) {
    std::vector<StepRange> numbered = ranges(facts, matching_strings(trace, kLikeStep));
    if (!numbered.empty()) return numbered;
    std::vector<StepRange> repeated = ranges(facts, matching_strings(trace, kUnnumberedStep));
    return repeated.size() >= kRepeated ? repeated : numbered;
  }
  std::vector<StepRange> found;
  for (const EngineRange& step : of_engine) found.push_back({step.range, step.time});
  return found;
}

// A step that contains one engine step is that step; one that contains several has their kind if they agree.
void set_engine_steps(const std::vector<EngineRange>& of_engine, std::vector<Step>& steps) {
  size_t at = 0;
  for (Step& s : steps) {
    const auto start = [&](size_t i) { return of_engine[i].time.start; };
    while (at < of_engine.size() && start(at) < s.start_ns) ++at;
    const size_t first = at;
    for (; at < of_engine.size() && start(at) < s.interval().end; ++at) {
      const EngineStep& one = of_engine[at].batch;
      s.batch = at == first ? one : EngineStep{one.kind == s.batch.kind ? one.kind : StepKind::kUnknown, {}, {}, {}};
    }
  }
}

// Steps in which an operator begins.
std::vector<bool> with_operators(const Trace& trace, const std::vector<Step>& steps) {
  std::vector<bool> with(steps.size());
  for (uint32_t i = 0; i < trace.host.size(); ++i) {
    if (trace.host.kind[i] != HostKind::kOp) continue;
    const int64_t time = trace.host.start_ns[i];
    const auto next = std::ranges::upper_bound(steps, time, {}, &Step::start_ns);
    if (next != steps.begin() && time < std::prev(next)->interval().end) with[next - steps.begin() - 1] = true;
  }
  return with;
}

// Steps with a backward pass or an optimizer train; if there are any, the others evaluate, unless they are as empty as
// the one that torch.profiler begins when it stops.
void set_training_kinds(const Facts& facts, std::vector<Step>& steps) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  std::vector<int64_t> times;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (const uint32_t name = trace.host.name[i].value;
        names.autograd[name] || (names.phase[name] == Phase::kOptimizer && trace.host.kind[i] != HostKind::kPython))
      times.push_back(trace.host.start_ns[i]);
  radix_sort(times);
  const auto is_unknown = [](const Step& s) { return s.batch.kind == StepKind::kUnknown; };
  for (Step& s : steps) {
    const auto next = std::lower_bound(times.begin(), times.end(), s.start_ns);
    if (is_unknown(s) && next != times.end() && *next < s.interval().end) s.batch.kind = StepKind::kTrain;
  }
  const bool trains = std::ranges::any_of(steps, [](const Step& s) { return s.batch.kind == StepKind::kTrain; });
  if (!trains || std::ranges::none_of(steps, is_unknown)) return;
  const std::vector<bool> with = with_operators(trace, steps);
  for (size_t i = 0; i < steps.size(); ++i)
    if (is_unknown(steps[i]) && with[i]) steps[i].batch.kind = StepKind::kEval;
}

// Of "[step 12/500]", "[step 12".
std::string_view without_total(std::string_view name) {
  for (const std::string_view end : {": training", ": train"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
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

// The thread whose outermost ranges cover most time. One with Python frames alone, such as a progress bar's, only if
// there is no other.
ThreadId busiest_thread(const Trace& trace) {
  ThreadId best;
  std::pair<bool, int64_t> most{false, -1};
  for (size_t t = 0; t < trace.threads.size(); ++t) {
    const Thread& thread = trace.threads[t];
    if (thread.is_sampled_stack() || thread.begin == thread.end) continue;
    std::pair<bool, int64_t> of_thread{false, 0};
    for (uint32_t i = thread.begin.value; i < thread.end.value; ++i) {
      const HostKind kind = trace.host.kind[i];
      if (kind == HostKind::kOverhead || kind == HostKind::kSystem) continue;
      of_thread.first |= kind != HostKind::kPython;
      if (!trace.host.parent[i].valid()) of_thread.second += trace.host.duration_ns[i];
    }
    if (of_thread > most) best = ThreadId(t), most = of_thread;
  }
  return best;
}

// prof.step() opens a step in which the recording may end before it has launched anything: a step of microseconds, next
// to which every other would look like warm-up.
void mark_incomplete(const std::vector<int64_t>& launches, std::span<Step> steps) {
  if (steps.size() < 2) return;
  const auto launched_in = [&](const Step& s) {
    const auto first = std::ranges::lower_bound(launches, s.start_ns);
    return first != launches.end() && *first < s.interval().end;
  };
  Step& last = steps.back();
  const std::span others = steps.first(steps.size() - 1);
  if (launched_in(last) || !std::ranges::all_of(others, launched_in)) return;
  std::vector<int64_t> durations;
  for (const Step& s : others) durations.push_back(s.duration_ns);
  last.incomplete = 2 * last.duration_ns < lower_median(std::move(durations));
}

// Leading steps longer than 1.5 times the lower median. An engine's steps are compared with others of their kind: a
// prefill is not a slow decode.
void mark_warmup(std::span<Step> steps) {
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

// Each profiler window has its own warm-up and end.
void mark_left_out(const Trace& trace, std::span<Step> steps) {
  std::vector<int64_t> launches;
  launches.reserve(trace.launching.size());
  for (const HostId call : trace.launching) launches.push_back(trace.host.start_ns[call.value]);
  radix_sort(launches);
  for (size_t w = 0; w < trace.windows.size(); ++w) {
    const int64_t end = w + 1 < trace.windows.size() ? trace.windows[w + 1].start : INT64_MAX;
    const auto next = std::ranges::find_if(steps, [&](const Step& s) { return s.start_ns >= end; });
    const std::span window = steps.first(static_cast<size_t>(next - steps.begin()));
    mark_incomplete(launches, window);
    mark_warmup(window);
    steps = steps.subspan(window.size());
  }
}

// A capture is not a run: it counts only if nothing else was recorded.
void leave_out_captures(std::vector<Step>& steps) {
  const auto captures = [](const Step& s) { return s.batch.kind == StepKind::kCapture; };
  if (std::ranges::all_of(steps, captures)) return;
  for (Step& s : steps) s.warmup |= captures(s);
}

Step step_of(std::string name, int64_t index, Interval time) {
  Step s;
  s.name = std::move(name);
  s.index = index;
  s.start_ns = time.start;
  s.duration_ns = time.length();
  s.elapsed = time;
  return s;
}

// Where only the devices saw the program's ranges: by the same names, in the same order.
void add_device_steps(const Facts& facts, Steps& all) {
  const Trace& trace = facts.trace();
  const std::string& pattern = facts.options().step_pattern;
  const auto find = [&](const std::vector<bool>& named, DeviceRanges follow = DeviceRanges::kApart) {
    return device_steps(trace, named, follow);
  };
  std::vector<bool> engine = engine_names(trace);
  for (size_t i = 0; i < engine.size(); ++i)
    engine[i] = engine[i] && engine_step(trace.strings[StringId(i)])->sequences != 0;
  const std::vector<DeviceStep> of_engine = find(engine);
  std::vector<DeviceStep> found;
  if (!pattern.empty()) {
    found = find(matching_strings(trace, pattern.c_str()));
  } else {
    found = find(matching_strings(trace, kProfilerStep), DeviceRanges::kWithoutBreak);
    if (found.empty()) found = of_engine;
    if (found.empty()) found = find(matching_strings(trace, kLikeStep));
    if (found.empty()) found = find(matching_strings(trace, kUnnumberedStep));
    if (!found.empty() && trace.strings[found.front().name].find_first_of("0123456789") == std::string_view::npos &&
        found.size() < kRepeated)
      found.clear();
  }
  const Captures& captures = facts.get<Captures>();
  for (const DeviceStep& step : of_engine)
    if (!captures.is_set_aside(trace, step.time.start))
      all.of_engine.push_back({{}, step.time, *engine_step(trace.strings[step.name]), false, step.name});
  for (const DeviceStep& step : found) {
    if (captures.is_set_aside(trace, step.time.start)) continue;
    const std::string_view name = trace.strings[step.name];
    const auto count = static_cast<int64_t>(all.steps.size());
    const int64_t index = engine_step(name) ? count : number_at_end(name).value_or(count);
    all.steps.push_back(step_of(std::string(name), index, step.time));
  }
}

// For a recording in which nothing marks steps.
void add_estimated(const Trace& trace, Steps& all) {
  const PeriodicSteps periodic = periodic_steps(trace);
  for (const Interval& step : periodic.steps) {
    const size_t index = all.steps.size();
    all.steps.push_back(step_of("estimated step " + std::to_string(index), static_cast<int64_t>(index), step));
  }
  all.estimated = periodic.steps.empty() ? 0 : periodic.confidence;
}

// When the device has done what each step launched, or its range ends where that is later.
std::vector<int64_t> ends_of_work(const Trace& trace, const Steps& steps) {
  std::vector<int64_t> ends;
  for (const Step& s : steps.steps) ends.push_back(s.interval().end);
  StepFinder step_of(steps);
  for (size_t i = 0; i < trace.launching.size(); ++i) {
    const Step* step = step_of(trace.host.start_ns[trace.launching[i].value]);
    if (step == nullptr) continue;
    int64_t& end = ends[static_cast<size_t>(step - steps.steps.data())];
    for (uint32_t j = trace.launched_first[i]; j < trace.launched_first[i + 1]; ++j)
      if (trace.activity.start_ns[trace.launched[j].value] >= step->start_ns)   // else clocks disagree
        end = std::max(end, trace.activity.end_ns(trace.launched[j]));
  }
  return ends;
}

// A loop may load data or log between the ranges that it marks: that is regular, unlike an evaluation now and then.
int64_t longest_between(const std::vector<Step>& steps) {
  constexpr int64_t kLongest_ns = INT64_MAX / 4;   // of damaged times
  std::vector<int64_t> between, durations;
  for (size_t i = 0; i < steps.size(); ++i) {
    durations.push_back(std::min(steps[i].duration_ns, kLongest_ns));
    if (i > 0) between.push_back(std::clamp<int64_t>(steps[i].start_ns - steps[i - 1].interval().end, 0, kLongest_ns));
  }
  const int64_t typical = durations.empty() ? 0 : lower_median(std::move(durations));
  if (between.empty() || typical == 0) return 0;   // an execution trace has no times
  return std::min(2 * lower_median(std::move(between)), between.size() < 2 ? 2 * typical : INT64_MAX);
}

// By profiler window, when the device has done what was queued before the window's first step: what was launched before
// it, and on each stream what has no launch in the recording and runs before the step's own work.
std::vector<int64_t> ends_of_earlier_work(const Trace& trace, const std::vector<const Step*>& first) {
  std::map<std::pair<size_t, uint16_t>, int64_t> own;   // start of its own work, by window and stream
  std::vector<int64_t> ends(first.size(), INT64_MIN);
  const auto each = [&](auto&& use) {
    for (ActivityId a(size_t{0}); a.value < trace.activity.size(); ++a) {
      const size_t w = profiler_window(trace, trace.launched_ns(a));
      if (first[w] != nullptr) use(a, trace.activity.launch[a.value], w);
    }
  };
  each([&](ActivityId a, HostId call, size_t w) {
    if (call.valid() && first[w]->interval().contains(trace.host.start_ns[call.value]))
      own.try_emplace({w, trace.activity.queue[a.value]}, trace.activity.start_ns[a.value]);
  });
  each([&](ActivityId a, HostId call, size_t w) {
    bool earlier = call.valid() && trace.host.start_ns[call.value] < first[w]->start_ns;
    if (!call.valid())
      if (const auto start = own.find({w, trace.activity.queue[a.value]}); start != own.end())
        earlier = trace.activity.start_ns[a.value] < start->second;
    if (earlier) ends[w] = std::max(ends[w], trace.activity.end_ns(a));
  });
  return ends;
}

// The host may run ahead of the device, and an engine does: its ranges end before the work that they launched, and the
// first one begins while earlier work runs.
void set_elapsed(const Trace& trace, Steps& all) {
  const std::vector<int64_t> ends = ends_of_work(trace, all);
  std::vector<int64_t> served;
  for (size_t i = 0; i < ends.size(); ++i)
    if (is_served(all.steps[i].batch.kind)) served.push_back(ends[i] - all.steps[i].start_ns);
  const int64_t most_between = served.empty() ? longest_between(all.steps) : longest_scheduling(std::move(served));
  std::vector<const Step*> first(std::max<size_t>(trace.windows.size(), 1));
  for (const Step& s : all.steps)
    if (const Step*& of_window = first[profiler_window(trace, s.start_ns)]; of_window == nullptr) of_window = &s;
  const std::vector<int64_t> earlier = ends_of_earlier_work(trace, first);
  int64_t before = INT64_MIN;
  for (size_t i = 0; i < ends.size(); ++i) {
    Step& s = all.steps[i];
    const size_t w = profiler_window(trace, s.start_ns);
    const bool is_first = first[w] == &s, follows = !is_first && s.start_ns - before <= most_between;
    s.elapsed.start = follows ? before : s.start_ns;
    // The host takes no longer for the others than for this one.
    if (is_first) s.elapsed.start = std::max(s.start_ns, std::min(earlier[w], ends[i] - s.duration_ns));
    before = s.elapsed.end = std::max(ends[i], s.elapsed.start);
  }
}

void mark_measured(std::vector<Step>& steps) {
  for (Step& s : steps) s.measured = !s.warmup && !s.incomplete && !s.other_run;
  if (std::ranges::any_of(steps, &Step::measured)) return;
  for (Step& s : steps) s.measured = true;
}

}  // namespace

std::vector<const Step*> Steps::measured() const {
  std::vector<const Step*> out;
  for (const Step& s : steps)
    if (s.measured) out.push_back(&s);
  return out;
}

Intervals Steps::host_time(bool measured) const {
  Intervals ranges, elapsed, others;
  for (const Step& s : steps) {
    if (s.measured == measured) ranges.push_back(s.interval()), elapsed.push_back(s.elapsed);
    else others.push_back(s.interval());
  }
  return unite(merged(std::move(ranges)), subtract(merged(std::move(elapsed)), merged(std::move(others))));
}

int64_t Steps::measured_wall_ns() const {
  return sum_of(steps, [](const Step& s) { return s.measured ? s.duration_ns : 0; });
}

int64_t Steps::total_wall_ns() const { return sum_of(steps, &Step::duration_ns); }

Intervals Steps::measured_time() const {
  Intervals time;
  for (const Step& s : steps)
    if (s.measured) time.push_back(s.elapsed);
  return merged(std::move(time));
}

int64_t longest_scheduling(std::vector<int64_t> step_durations_ns) {
  constexpr int64_t kLongWait_ns = 20'000'000;
  constexpr int64_t kLongSteps = 2;
  return std::max(kLongWait_ns, kLongSteps * lower_median(std::move(step_durations_ns)));
}

namespace {

// Of a log of several runs those count that its figures are of, with the warm-up of their own.
void leave_out_other_runs(const std::vector<LogStep>& lines, std::span<Step> steps) {
  if (std::ranges::none_of(lines, &LogStep::other_run)) return;
  for (size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    const bool other = lines[begin].other_run;
    while (end < steps.size() && lines[end].other_run == other) ++end;
    const std::span<Step> run = steps.subspan(begin, end - begin);
    for (Step& s : run) s.warmup = false, s.other_run = other;
    if (!other) mark_warmup(run);
  }
}

// A log's steps are its lines.
Steps steps_of_log(const Facts& facts) {
  const Trace& trace = facts.trace();
  Steps all;
  all.annotated = true;
  all.thread = busiest_thread(trace);
  all.steps.reserve(trace.log_steps.size());
  for (const LogStep& line : trace.log_steps) {
    const Interval time{line.start_ns, line.start_ns + line.duration_ns.value_or(0)};
    Step& s = all.steps.emplace_back(step_of("step " + std::to_string(line.number), line.number, time));
    s.iterations = line.iterations;
    s.log = line.figures;
  }
  mark_left_out(trace, all.steps);
  leave_out_other_runs(trace.log_steps, all.steps);
  std::erase_if(all.steps, [&](const Step& s) {
    return s.index < facts.options().first_step || s.index >= facts.options().end_step;
  });
  mark_measured(all.steps);
  return all;
}

}  // namespace

Steps Steps::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  if (!trace.log_steps.empty()) return steps_of_log(facts);
  Steps all;
  find_engine_ranges(facts, all);
  const std::vector<StepRange> found = step_ranges(facts, all.of_engine);
  for (const auto& [range, time] : found) {
    const std::string_view name = trace.name(range);
    const auto count = static_cast<int64_t>(all.steps.size());
    const int64_t index = engine_step(name) ? count : number_at_end(name).value_or(count);
    all.steps.push_back(step_of(std::string(name), index, time));
    all.steps.back().range = range;
  }
  if (all.steps.empty() && !trace.device_ranges.empty()) add_device_steps(facts, all);
  all.annotated = !all.steps.empty();
  set_engine_steps(all.of_engine, all.steps);
  set_training_kinds(facts, all.steps);
  if (!all.annotated && trace.recorded && facts.options().step_pattern.empty()) add_estimated(trace, all);
  mark_left_out(trace, all.steps);
  leave_out_captures(all.steps);
  if (all.annotated) set_elapsed(trace, all);
  std::erase_if(all.steps, [&](const Step& s) {
    return s.index < facts.options().first_step || s.index >= facts.options().end_step;
  });
  all.thread = found.empty() ? busiest_thread(trace) : trace.host.thread[found.front().range.value];
  if (!all.annotated && all.estimated == 0)
    for (size_t w = 0; w < trace.windows.size(); ++w)
      if (!facts.get<Captures>().set_aside[w])
        all.steps.push_back(step_of("trace", static_cast<int64_t>(w), trace.windows[w]));
  mark_measured(all.steps);
  StepFinder step_at(all);
  for (EngineRange& step : all.of_engine) step.measured = step_at.measured(step.time.start);
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return all;
  const DeviceTime& d = devices.devices[devices.busiest];
  all.device = d.id;
  for (Step& s : all.steps) {
    s.device = d.id;
    s.device_busy_ns = overlap_length(d.busy, s.interval());
    s.device_idle_ns = s.duration_ns - s.device_busy_ns;
  }
  return all;
}

const Step* StepFinder::operator()(int64_t time_ns) {
  if (steps_.empty()) return nullptr;
  if (at_ > 0 && time_ns < time(at_).start) at_ = 0;
  while (at_ + 1 < steps_.size() && time(at_ + 1).start <= time_ns) ++at_;
  return time(at_).contains(time_ns) ? &steps_[at_] : nullptr;
}

// A short run of names (a gram) that recurs at even distances votes for that distance. Every distance with many votes
// is tried, from short to long: layers, micro-batches, steps, work done every tenth step. A longer one wins only if its
// parts are more alike than those of the shorter one, weighted by time: a layer misses what lies between the last layer
// and the next step's first, a micro-batch misses the optimizer, but a step misses next to nothing.

namespace {

constexpr size_t kMinSteps = 5;
constexpr size_t kMaxSearched = 500'000;      // activities used to find the period
constexpr size_t kGramSizes[] = {8, 4, 2, 1};
constexpr size_t kMaxGramDistances = 8;       // tried for each gram size
constexpr double kBetter = 0.01;              // confidence that a longer period must add
constexpr double kMinConfidence = 0.7;

using Positions = std::vector<uint32_t>;

/// One stream's activities, in order.
struct Sequence {
  const Trace& trace;
  std::vector<ActivityId> activities;
  std::vector<uint32_t> names;

  [[nodiscard]] size_t size() const { return names.size(); }
  [[nodiscard]] int64_t start_ns(size_t at) const { return trace.activity.start_ns[activities[at].value]; }
  [[nodiscard]] int64_t duration_ns(size_t at) const { return trace.activity.duration_ns[activities[at].value]; }
  [[nodiscard]] int64_t duration_ns(size_t begin, size_t end) const {
    int64_t sum = 0;
    for (size_t i = begin; i < end; ++i) sum += duration_ns(i);
    return sum;
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
  Sequence s{trace, {}, {}};
  if (count.empty()) return s;
  const auto most = static_cast<uint16_t>(std::ranges::max_element(count) - count.begin());
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (trace.activity.queue[i] != most) continue;
    s.activities.emplace_back(i);
    s.names.push_back(trace.activity.name[i].value);
  }
  return s;
}

// The distance between successive positions if most are alike, else 0. The first ones may differ: warm-up.
uint32_t even_distance(const Positions& positions) {
  if (positions.size() < kMinSteps) return 0;
  std::vector<uint32_t> gaps;
  for (size_t i = 1; i < positions.size(); ++i) gaps.push_back(positions[i] - positions[i - 1]);
  const uint32_t median = upper_median(gaps), slack = std::max<uint32_t>(median / 10, median > 4 ? 1 : 0);
  const auto near = [&](uint32_t gap) { return gap + slack >= median && gap <= median + slack; };
  const auto even = static_cast<size_t>(std::ranges::count_if(gaps, near));
  return even * 5 >= gaps.size() * 4 && even + 1 >= kMinSteps ? median : 0;
}

struct Anchor {
  size_t length = 0;       // of the gram
  uint64_t gram = 0;
  uint32_t period = 0;     // activities per step
};

// The device's usual pause before these positions.
int64_t pause_before(const Sequence& s, const Positions& positions) {
  std::vector<int64_t> pauses;
  for (const uint32_t p : positions)
    if (p > 0) pauses.push_back(s.start_ns(p) - s.start_ns(p - 1) - s.duration_ns(p - 1));
  return pauses.empty() ? INT64_MIN : upper_median(std::move(pauses));
}

using Gram = std::pair<const uint64_t, Positions>;

// Of the grams with one distance, the first with the longest pause before it.
Anchor best_anchor(const Sequence& s, size_t length, uint32_t period, const std::vector<const Gram*>& grams) {
  const Gram* best = *std::ranges::max_element(grams, {}, [&](const Gram* g) {
    return std::pair(pause_before(s, g->second), -static_cast<int64_t>(g->second.front()));
  });
  return {length, best->first, period};
}

void add_anchors(const Sequence& s, size_t length, std::vector<Anchor>& anchors) {
  const size_t searched = std::min(s.size(), kMaxSearched);
  if (searched < length * kMinSteps) return;
  std::unordered_map<uint64_t, Positions> grams;
  for (size_t i = 0; i + length <= searched; ++i) grams[s.gram(i, length)].push_back(static_cast<uint32_t>(i));
  std::map<uint32_t, std::vector<const Gram*>> voters;
  std::map<uint32_t, size_t> votes;
  for (const Gram& gram : grams) {
    const uint32_t distance = even_distance(gram.second);
    // Steps fill at least half of the sequence.
    if (distance < 2 || 2 * size_t{gram.second.back() - gram.second.front()} < searched) continue;
    voters[distance].push_back(&gram);
    votes[distance] += gram.second.size();
  }
  std::vector<std::pair<size_t, uint32_t>> most;
  for (const auto& [distance, count] : votes) most.emplace_back(count, distance);
  std::sort(most.rbegin(), most.rend());
  for (size_t i = 0; i < std::min(most.size(), kMaxGramDistances); ++i)
    anchors.push_back(best_anchor(s, length, most[i].second, voters[most[i].second]));
}

/// Activities of one step.
struct SequencePart {
  size_t begin = 0, end = 0;
};

// The share of two steps' time that both spend alike.
double likeness(const Sequence& s, SequencePart a, SequencePart b) {
  std::unordered_map<uint32_t, int64_t> count;
  for (size_t i = a.begin; i < a.end; ++i) ++count[s.names[i]];
  int64_t common = 0;
  for (size_t i = b.begin; i < b.end; ++i)
    if (count[s.names[i]]-- > 0) common += s.duration_ns(i);
  const int64_t all_a = s.duration_ns(a.begin, a.end), longer = std::max(all_a, s.duration_ns(b.begin, b.end));
  return longer > 0 ? static_cast<double>(std::min(common, all_a)) / static_cast<double>(longer) : 0;
}

bool within_one_window(const Trace& trace, Interval step) {
  return std::ranges::none_of(trace.windows,
                              [&](const Interval& w) { return w.start > step.start && w.start < step.end; });
}

PeriodicSteps steps_at(const Sequence& s, const Anchor& anchor) {
  std::vector<size_t> positions;
  for (size_t i = 0; i + anchor.length <= s.size(); ++i)
    if (s.gram(i, anchor.length) == anchor.gram) positions.push_back(i);
  PeriodicSteps found;
  double alike = 0;
  int64_t covered = 0;
  SequencePart before, reach{SIZE_MAX, 0};
  for (size_t i = 0; i + 1 < positions.size(); ++i) {
    const SequencePart part{positions[i], positions[i + 1]};
    const Interval step{s.start_ns(part.begin), s.start_ns(part.end)};
    const size_t length = part.end - part.begin, period = anchor.period;
    if (length * 2 < period || length > period + period / 2 || !within_one_window(s.trace, step)) continue;
    if (!found.steps.empty()) alike += likeness(s, before, part);
    found.steps.push_back(step);
    covered += s.duration_ns(part.begin, part.end);
    reach = {std::min(reach.begin, part.begin), part.end};
    before = part;
  }
  if (found.steps.size() < kMinSteps) return {};
  const int64_t all = s.duration_ns(reach.begin, reach.end);
  const double share = all > 0 ? static_cast<double>(covered) / static_cast<double>(all) : 0;
  found.confidence = share * alike / static_cast<double>(found.steps.size() - 1);
  return found;
}

}  // namespace

PeriodicSteps periodic_steps(const Trace& trace) {
  const Sequence s = busiest_sequence(trace);
  std::vector<Anchor> anchors;
  for (const size_t length : kGramSizes) add_anchors(s, length, anchors);
  std::ranges::stable_sort(anchors, {}, &Anchor::period);
  PeriodicSteps best;
  uint32_t period = 0;
  for (const Anchor& anchor : anchors) {
    PeriodicSteps found = steps_at(s, anchor);
    const bool same = anchor.period <= period + period / 10;
    const bool more = same && found.steps.size() > best.steps.size() && found.confidence > best.confidence - kBetter;
    if (found.confidence <= best.confidence + kBetter && !more) continue;
    best = std::move(found);
    period = anchor.period;
  }
  return best.confidence >= kMinConfidence ? best : PeriodicSteps();
}

size_t profiler_window(const Trace& trace, int64_t time) {
  const auto next = std::ranges::upper_bound(trace.windows, time, {}, &Interval::start);
  return static_cast<size_t>(std::max<ptrdiff_t>(next - trace.windows.begin() - 1, 0));
}

}  // namespace profgpu
