#include "analyse/steps.h"

#include <regex.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "analyse/devices.h"
#include "analyse/step_period.h"
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
std::vector<HostId> ranges(const Trace& trace, const std::vector<bool>& named) {
  std::map<uint32_t, std::vector<HostId>> by_thread;
  const HostTable& h = trace.host;
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (!named[h.name[i].value] || (h.kind[i] != HostKind::kAnnotation && h.kind[i] != HostKind::kOp)) continue;
    std::vector<HostId>& found = by_thread[h.thread[i].value];
    const int64_t before = found.empty() ? INT64_MIN : h.end_ns(found.back());
    if (h.start_ns[i] >= before || (h.start_ns[i] >= before - kRounding_ns && h.end_ns(HostId(i)) > before)) found.emplace_back(i);
  }
  std::vector<HostId> best;
  for (auto& [thread, found] : by_thread)
    if (found.size() > best.size()) best = std::move(found);
  return best;
}

std::vector<HostId> step_ranges(const Facts& facts) {
  const Trace& trace = facts.trace();
  if (!facts.options().step_pattern.empty())
    return ranges(trace, matching_strings(trace, facts.options().step_pattern.c_str()));
  auto found = ranges(trace, matching_strings(trace, kProfilerStep));
  return found.empty() ? ranges(trace, matching_strings(trace, kLikeStep)) : found;
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
    int64_t sum = 0;
    for (uint32_t i = trace.threads[t].begin.value; i < trace.threads[t].end.value; ++i)
      if (!trace.host.parent[i].valid() && trace.host.kind[i] != HostKind::kOverhead) sum += trace.host.duration_ns[i];
    if (trace.threads[t].begin < trace.threads[t].end && sum > most) best = ThreadId(t), most = sum;
  }
  return best;
}

// Leading steps longer than 1.5 times the lower median of all.
void mark_warmup(std::vector<Step>& steps) {
  if (steps.size() < 2) return;
  std::vector<int64_t> durations;
  for (const Step& s : steps) durations.push_back(s.duration_ns);
  const double limit = 1.5 * static_cast<double>(lower_median(std::move(durations)));
  for (Step& s : steps) {
    if (static_cast<double>(s.duration_ns) <= limit) break;
    s.warmup = true;
  }
}

// Warm-up is per window: each profiler window has its own.
void mark_warmup_by_window(const Trace& trace, std::vector<Step>& steps) {
  if (trace.windows.size() < 2) return mark_warmup(steps);
  std::vector<Step> part;
  size_t done = 0;
  for (size_t w = 0; w < trace.windows.size(); ++w) {
    const int64_t end = w + 1 < trace.windows.size() ? trace.windows[w + 1].start : INT64_MAX;
    part.clear();
    for (size_t i = done; i < steps.size() && steps[i].start_ns < end; ++i) part.push_back(steps[i]);
    mark_warmup(part);
    for (const Step& s : part) steps[done++].warmup = s.warmup;
  }
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
    if (!s.warmup) out.push_back(&s);
  if (out.empty())
    for (const Step& s : steps) out.push_back(&s);
  return out;
}

Intervals Steps::warmup_time() const {
  Intervals time;
  if (measured().size() == steps.size()) return time;
  for (const Step& s : steps)
    if (s.warmup) time.push_back(s.interval());
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
  const std::vector<HostId> found = step_ranges(facts);
  for (size_t i = 0; i < found.size(); ++i) {
    Step s;
    s.name = trace.name(found[i]);
    s.index = number_at_end(s.name).value_or(static_cast<int64_t>(i));
    s.start_ns = trace.host.start_ns[found[i].value];
    s.duration_ns = trace.host.duration_ns[found[i].value];
    s.range = found[i];
    all.steps.push_back(s);
  }
  all.annotated = !all.steps.empty();
  if (!all.annotated && trace.recorded && facts.options().step_pattern.empty()) add_estimated(trace, all);
  mark_warmup_by_window(trace, all.steps);
  std::erase_if(all.steps, [&](const Step& s) {
    return s.index < facts.options().first_step || s.index >= facts.options().end_step;
  });
  all.thread = all.annotated ? trace.host.thread[found.front().value] : busiest_thread(trace);
  if (!all.annotated && all.estimated == 0) {
    for (size_t w = 0; w < trace.windows.size(); ++w) {
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

}  // namespace profgpu
