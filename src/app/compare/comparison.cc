#include "app/compare/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "analyse/report/quantity.h"
#include "app/compare/memory_lines.h"
#include "base/hash.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kResamples = 4000, kLeastResamples = 400;
constexpr size_t kMostDraws = 40'000'000;   // about a second: many steps, whose interval is narrow, need fewer
constexpr double kWidest = 10;   // of an interval's ends, one to the other: a wider one tells nothing

// splitmix64: the same numbers with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t n) {
    return static_cast<size_t>((static_cast<unsigned __int128>(mixed_bits(state_ += kGoldenRatio)) * n) >> 64);
  }

 private:
  uint64_t state_;
};

void resample(const std::vector<double>& from, Random& random, std::vector<double>& to) {
  to.resize(from.size());
  for (double& v : to) v = from[random.below(from.size())];
}

// The percentile interval, stretched around the value on a logarithmic scale.
Ratio with_interval(double value, std::vector<double> resampled, double stretch) {
  std::sort(resampled.begin(), resampled.end());
  const double low = percentile_of_sorted(resampled, 2.5), high = percentile_of_sorted(resampled, 97.5);
  return {value, value * std::pow(low / value, stretch), value * std::pow(high / value, stretch)};
}

double stretch_for(size_t a, size_t b) {
  const auto few = static_cast<double>(std::min(a, b));
  return student_t(few - 1) / kNormalQuantile * std::sqrt(few / (few - 1));
}

}  // namespace

StepRatio step_ratio(const std::vector<int64_t>& before_ns, const std::vector<int64_t>& after_ns) {
  std::vector<double> a(before_ns.begin(), before_ns.end()), b(after_ns.begin(), after_ns.end());
  for (auto* steps : {&a, &b}) std::erase(*steps, 0);   // instants, which have no ratio
  // In order of size, so that the order of steps changes nothing.
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  StepRatio r;
  if (a.empty() || b.empty()) return r;
  std::vector<double> a2 = a, b2 = b;
  r.mean.value = mean_of(b) / mean_of(a);
  r.median.value = median_of(b2) / median_of(a2);
  if (a.size() < 2 || b.size() < 2) return r;
  Random random(0x70726f66677075);
  std::vector<double> means, medians;
  const size_t resamples = std::clamp(kMostDraws / (a.size() + b.size()), kLeastResamples, kResamples);
  for (size_t i = 0; i < resamples; ++i) {
    resample(a, random, a2);
    resample(b, random, b2);
    means.push_back(mean_of(b2) / mean_of(a2));
    medians.push_back(median_of(b2) / median_of(a2));
  }
  const double stretch = stretch_for(a.size(), b.size());
  r.mean = with_interval(r.mean.value, std::move(means), stretch);
  r.median = with_interval(r.median.value, std::move(medians), stretch);
  if (*r.mean.high < 1) r.change = Change::kFaster;
  if (*r.mean.low > 1) r.change = Change::kSlower;
  if (r.change == Change::kNone && *r.mean.high > kWidest * *r.mean.low) {
    r.mean = {r.mean.value, {}, {}}, r.median = {r.median.value, {}, {}};
    return r;
  }
  const double half = std::max(r.mean.value - *r.mean.low, *r.mean.high - r.mean.value);
  const double seen = std::abs(r.mean.value - 1);
  r.resolution_pct = 100 * half;
  if (r.change == Change::kNone && seen > 0) {
    const double times = half / seen;
    const double needed = std::ceil(static_cast<double>(std::max(a.size(), b.size())) * times * times);
    if (needed <= static_cast<double>(kMaxSteps)) r.steps_needed = static_cast<int64_t>(needed);
  }
  return r;
}

namespace {

// Parts in whole nanoseconds that add up to the whole number nearest to the mean: each is rounded down, and what is
// missing goes to those that lost most (largest remainder).
std::map<std::pair<std::string, std::string>, int64_t> mean_parts(const RunSummary& run) {
  std::map<std::pair<std::string, std::string>, int64_t> parts;
  struct Lost {
    int64_t remainder;
    const StepMakeup* part;
  };
  std::vector<Lost> lost;
  int64_t sum = 0;
  const int64_t n = std::max<int64_t>(run.step_count, 1);
  for (const StepMakeup& p : run.makeup) {
    sum += parts[{p.phase, p.state}] = p.total_ns / n;
    lost.push_back({p.total_ns % n, &p});
  }
  std::stable_sort(lost.begin(), lost.end(), [](const Lost& a, const Lost& b) { return a.remainder > b.remainder; });
  const int64_t missing = std::llround(run.mean_step_ns()) - sum;
  for (int64_t i = 0; i < missing && i < static_cast<int64_t>(lost.size()); ++i)
    ++parts[{lost[static_cast<size_t>(i)].part->phase, lost[static_cast<size_t>(i)].part->state}];
  return parts;
}

template <class Rows, class Delta>
void sort_by_change(Rows& rows, Delta delta) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return std::abs(delta(a)) > std::abs(delta(b)); });
}

// Whether something is known of what its steps are made of.
bool tells_phases(const RunSummary& run) {
  return std::ranges::any_of(run.phases, [](const auto& p) { return p.first != "other" && p.second.mean > 0; });
}

bool sees_device(const RunSummary& run) {
  return std::ranges::any_of(run.states, [](const auto& state) { return state.first != "outside"; });
}

std::vector<WaterfallRow> waterfall(const RunSummary& before, const RunSummary& after) {
  const auto a = mean_parts(before), b = mean_parts(after);
  std::map<std::pair<std::string, std::string>, WaterfallRow> rows;
  for (const auto& [key, ns] : a) rows[key].before_ns = ns;
  for (const auto& [key, ns] : b) rows[key].after_ns = ns;
  std::vector<WaterfallRow> all;
  for (auto& [key, row] : rows) {
    row.phase = key.first, row.state = key.second;
    all.push_back(std::move(row));
  }
  sort_by_change(all, [](const WaterfallRow& r) { return static_cast<double>(r.delta_ns()); });
  return all;
}

std::vector<Difference> of_sums(const std::map<std::string, StepSums>& before,
                                const std::map<std::string, StepSums>& after) {
  std::set<std::string> names;
  for (const auto& [name, sums] : before) names.insert(name);
  for (const auto& [name, sums] : after) names.insert(name);
  std::vector<Difference> all;
  for (const std::string& name : names) {
    const auto a = before.find(name), b = after.find(name);
    // What a run does not have takes no time in any of its steps.
    const StepSums none_a{0, 0, before.empty() ? 0 : before.begin()->second.steps};
    const StepSums none_b{0, 0, after.empty() ? 0 : after.begin()->second.steps};
    const StepSums& x = a != before.end() ? a->second : none_a;
    const StepSums& y = b != after.end() ? b->second : none_b;
    if (x.mean == 0 && y.mean == 0) continue;
    Difference d;
    d.name = name;
    d.before_ns = x.mean, d.after_ns = y.mean;
    judge(d, x, y);
    all.push_back(std::move(d));
  }
  sort_by_change(all, [](const Difference& d) { return d.delta_ns(); });
  return all;
}

std::map<std::string, StepSums> category_sums(const RunSummary& run) {
  std::map<std::string, StepSums> sums;
  for (const Work& w : run.work) {
    StepSums& s = sums[w.category];
    s.mean += w.ns.mean;
    s.stddev = std::sqrt(s.stddev * s.stddev + w.ns.stddev * w.ns.stddev);   // hypot needs glibc 2.35
    s.steps = w.ns.steps;
  }
  return sums;
}

StepSums time_of(const OpTime& op) { return op.cpu_self_ns; }
StepSums time_of(const CallTime& call) { return {call.total_ns, 0, 0}; }   // how it varies is not known

// Rows of two maps by name. What a run does not have takes no time in any of its steps.
template <class Row>
std::vector<Difference> differences_by_name(const std::map<std::string, Row>& before,
                                            const std::map<std::string, Row>& after) {
  std::set<std::string> names;
  for (const auto& [name, row] : before) names.insert(name);
  for (const auto& [name, row] : after) names.insert(name);
  const StepSums none_a{0, 0, before.empty() ? 0 : time_of(before.begin()->second).steps};
  const StepSums none_b{0, 0, after.empty() ? 0 : time_of(after.begin()->second).steps};
  std::vector<Difference> all;
  for (const std::string& name : names) {
    const auto a = before.find(name), b = after.find(name);
    const StepSums x = a != before.end() ? time_of(a->second) : none_a;
    const StepSums y = b != after.end() ? time_of(b->second) : none_b;
    Difference d;
    d.name = name;
    d.before_ns = x.mean, d.after_ns = y.mean;
    if (a != before.end()) d.calls_before = a->second.calls;
    if (b != after.end()) d.calls_after = b->second.calls;
    judge(d, x, y);
    if (a == before.end()) d.change = "added";
    if (b == after.end()) d.change = "gone";
    all.push_back(std::move(d));
  }
  sort_by_change(all, [](const Difference& d) { return d.delta_ns(); });
  return all;
}

std::vector<NumberChange> numbers(const std::map<std::string, double>& before,
                                  const std::map<std::string, double>& after) {
  std::map<std::string, NumberChange> all;
  for (const auto& [name, value] : before) all[name].before = value;
  for (const auto& [name, value] : after) all[name].after = value;
  std::vector<NumberChange> rows;
  for (auto& [name, change] : all) {
    change.name = name;
    rows.push_back(std::move(change));
  }
  return rows;
}

const FindingSummary* find(const RunSummary& run, const std::string& rule) {
  for (const FindingSummary& f : run.findings)
    if (f.rule == rule) return &f;
  return nullptr;
}

std::vector<FindingChange> finding_changes(const RunSummary& before, const RunSummary& after) {
  constexpr double kNoticeable = 0.1;   // of the cost
  // Two runs without a device see the same.
  const bool hidden_before = !before.no_device.empty() && after.no_device.empty();
  const bool hidden_after = before.no_device.empty() && !after.no_device.empty();
  std::vector<FindingChange> all;
  const auto add = [&](const FindingSummary* a, const FindingSummary* b) {
    const FindingSummary& shown = b ? *b : *a;
    FindingChange c{shown.rule, "same", shown.severity, shown.what, {}, {}};
    if (a) c.before_cost_ns = a->cost_ns;
    if (b) c.after_cost_ns = b->cost_ns, c.fix = b->fix;
    if (a && b && a->what != b->what) c.before_what = a->what;
    if (!a) c.change = hidden_before ? "not_seen_before" : "new";
    if (!b) c.change = hidden_after ? "not_seen" : "gone";
    if (a && b && a->cost_ns && b->cost_ns) {
      if (*b->cost_ns > *a->cost_ns * (1 + kNoticeable)) c.change = "dearer";
      if (*b->cost_ns < *a->cost_ns * (1 - kNoticeable)) c.change = "cheaper";
    }
    all.push_back(std::move(c));
  };
  for (const FindingSummary& f : before.findings) add(&f, find(after, f.rule));
  for (const FindingSummary& f : after.findings)
    if (!find(before, f.rule)) add(nullptr, &f);
  return all;
}

std::vector<Difference> distance_changes(const RunSummary& before, const RunSummary& after) {
  if (!before.times_limit || !after.times_limit) return {};
  std::map<std::string, Difference> all;
  for (const auto& [part, ns] : before.distance_ns) all[part].before_ns = ns;
  for (const auto& [part, ns] : after.distance_ns) all[part].after_ns = ns;
  std::vector<Difference> rows;
  for (auto& [part, d] : all) {
    d.name = part;
    judge(d, {}, {});
    rows.push_back(std::move(d));
  }
  sort_by_change(rows, [](const Difference& d) { return d.delta_ns(); });
  return rows;
}

// Steps of other sizes cannot be compared, but what a sample takes can.
std::string batch_note(const RunSummary& before, const RunSummary& after) {
  const auto a = before.throughput.find("samples_per_step"), b = after.throughput.find("samples_per_step");
  if (a == before.throughput.end() || b == after.throughput.end() || a->second == b->second) return "";
  const double a_ns = before.mean_step_ns() / a->second, b_ns = after.mean_step_ns() / b->second;
  return "a step has " + format_number(b->second) + " samples instead of " + format_number(a->second) +
         ": one sample takes " + format_duration(b_ns) + " instead of " + format_duration(a_ns);
}

std::vector<std::string> comparison_notes(const RunSummary& before, const RunSummary& after) {
  std::vector<std::string> notes;
  const auto say = [&](const RunSummary& run) {
    if (run.held_only)
      notes.push_back(run.label + " has no history: what it held when the snapshot was taken is known, not its peak");
    if (run.only_snapshot) return;
    if (!run.no_device.empty()) notes.push_back(run.label + ": " + run.no_device);
    if (!run.without_launch.empty())
      notes.push_back(run.label + ": " + run.without_launch +
                      "; they count in its kernels, though they may belong to work before the recording");
    if (run.step_count > 0 && !run.annotated)
      notes.push_back(run.label + " marks no steps: the whole run counts as one");
    else if (run.steps_ns.size() == 1)
      notes.push_back(run.label + " has one measured step, so change cannot be told from chance");
    if (!run.without_device.empty())
      notes.push_back(run.label + ": left out, without data of any device: " + ranks_text(run.without_device));
  };
  say(before);
  say(after);
  if (before.ranks > 0 && after.ranks > 0 && before.ranks != after.ranks)
    notes.push_back("the runs have " + std::to_string(before.ranks) + " and " + std::to_string(after.ranks) +
                    " ranks: figures are of the mean rank");
  if (!before.devices.empty() && !after.devices.empty() && before.devices != after.devices)
    notes.push_back("different devices: " + before.devices.front() + " and " + after.devices.front());
  if (std::string note = batch_note(before, after); !note.empty()) notes.push_back(std::move(note));
  return notes;
}

// The means differ by saves alone if all else differs by at most a hundredth of a step, and by a tenth of that.
std::optional<int64_t> saves_delta(const Comparison& c) {
  if (!c.steps || c.steps->change != Change::kNone || !c.steps->mean.low) return std::nullopt;
  int64_t saves = 0, others = 0;
  for (const WaterfallRow& row : c.waterfall)
    (row.phase == "checkpoint" || row.state == "idle: checkpoint" ? saves : others) += row.delta_ns();
  const int64_t step = std::max<int64_t>(c.before_step_ns, 1);
  const bool alike = 100 * std::abs(others) <= step && 10 * std::abs(others) <= std::abs(saves);
  return alike && 100 * std::abs(saves) > 3 * step ? std::optional(saves) : std::nullopt;
}

void compare_devices(const RunSummary& before, const RunSummary& after, Comparison& c) {
  c.states = of_sums(before.states, after.states);
  c.kernels = matched_work(before, after);
  sort_by_change(c.kernels, [](const Difference& d) { return d.delta_ns(); });
  c.categories = of_sums(category_sums(before), category_sums(after));
  c.collectives = differences_by_name(before.collectives, after.collectives);
}

}  // namespace

Result<Comparison> compare(const RunSummary& before, const RunSummary& after) {
  Comparison c;
  const bool steps = before.step_count > 0 && after.step_count > 0 && !before.only_snapshot && !after.only_snapshot;
  const bool memory = (!before.memory_lines.empty() && !after.memory_lines.empty()) ||
                      (before.only_snapshot && after.only_snapshot);
  const bool telemetry = !before.telemetry.empty() && !after.telemetry.empty();
  if (!steps && !telemetry && !memory)
    return Error{
        before.label + " and " + after.label + " have nothing in common: one has steps, the other only samples",
        "compare two traces, or two sample logs, or add samples with --samples to profgpu analyze"};
  c.telemetry = telemetry ? numbers(before.telemetry, after.telemetry) : std::vector<NumberChange>();
  c.findings = finding_changes(before, after);
  if (before.no_device.empty() != after.no_device.empty())
    c.without_device = before.no_device.empty() ? after.label : before.label;
  c.after_inconclusive = after.inconclusive;
  c.notes = comparison_notes(before, after);
  c.memory_lines = memory_line_changes(before, after);
  c.held_only = before.held_only && after.held_only;
  if (memory) c.memory = numbers(before.memory, after.memory);
  if (!steps) return c;
  if (before.wall_ns > 0) c.steps = step_ratio(before.steps_ns, after.steps_ns);
  c.before_step_ns = std::llround(before.mean_step_ns());
  c.after_step_ns = std::llround(after.mean_step_ns());
  if (!sees_device(before) && !sees_device(after) && tells_phases(before) != tells_phases(after)) {
    c.notes.push_back((tells_phases(before) ? after : before).label +
                      " does not tell its phases: only whole steps can be compared");
  } else {
    c.waterfall = waterfall(before, after);
    c.saves_delta_ns = saves_delta(c);
    c.phases = of_sums(before.phases, after.phases);
  }
  c.ops = differences_by_name(before.ops, after.ops);
  if (!before.functions.empty() && !after.functions.empty())
    c.functions = differences_by_name(before.functions, after.functions);
  if (c.without_device.empty()) compare_devices(before, after, c);
  c.distance = distance_changes(before, after);
  if (!c.distance.empty()) {
    c.before_times_limit = before.times_limit, c.after_times_limit = after.times_limit;
    c.before_times_limit_is_lower_bound = before.times_limit_is_lower_bound;
    c.after_times_limit_is_lower_bound = after.times_limit_is_lower_bound;
  }
  c.throughput = numbers(before.throughput, after.throughput);
  c.memory = numbers(before.memory, after.memory);
  return c;
}

namespace {

/// Rows of one run that are compared as one.
struct Group {
  double calls = 0, variance = 0;
  StepSums ns;
  const Work* longest = nullptr;
  std::vector<const Work*> rows;

  void add(const Work& w) {
    calls += w.calls;
    variance += w.ns.stddev * w.ns.stddev;
    ns.mean += w.ns.mean;
    ns.steps = w.ns.steps;
    ns.stddev = std::sqrt(variance);
    if (!longest || w.ns.mean > longest->ns.mean) longest = &w;
    rows.push_back(&w);
  }
};

using Groups = std::map<std::string, Group>;
using Key = std::function<std::string(const Work&)>;

Groups grouped(const std::vector<const Work*>& rows, const Key& key) {
  Groups groups;
  for (const Work* w : rows)
    if (const std::string k = key(*w); !k.empty()) groups[k].add(*w);
  return groups;
}

// What all these rows have; empty: they differ.
std::string common(const Group* before, const Group* after, std::string Work::*member) {
  const std::string& first = (before ? before : after)->rows.front()->*member;
  for (const Group* group : {before, after})
    if (group && !std::ranges::all_of(group->rows, [&](const Work* w) { return w->*member == first; })) return "";
  return first;
}

// `steps_without`: of the run that lacks it, which takes no time in any of these.
Difference difference(const Group* before, const Group* after, std::string matched_by, int64_t steps_without = 0) {
  const Work& shown = before ? *before->longest : *after->longest;
  Difference d;
  d.name = shown.name;
  d.category = shown.category;
  d.matched_by = std::move(matched_by);
  d.op = common(before, after, &Work::op);
  if (!d.op.empty()) d.shapes = common(before, after, &Work::shapes);
  if (after && after->longest->name != d.name) d.name_after = after->longest->name;
  if (before) d.calls_before = before->calls, d.before_ns = before->ns.mean;
  if (after) d.calls_after = after->calls, d.after_ns = after->ns.mean;
  const StepSums none{0, 0, steps_without};
  judge(d, before ? before->ns : none, after ? after->ns : none);
  if (!before) d.change = "added";
  if (!after) d.change = "gone";
  return d;
}

class Matcher {
 public:
  Matcher(const RunSummary& before, const RunSummary& after) : runs_{before, after} {
    for (const Work& w : before.work) before_.push_back(&w);
    for (const Work& w : after.work) after_.push_back(&w);
  }

  void match(const Key& key, const char* matched_by) {
    const Groups before = grouped(before_, key), after = grouped(after_, key);
    std::vector<const Work*> done;
    for (const auto& [k, group] : before) {
      const auto other = after.find(k);
      if (other == after.end()) continue;
      found.push_back(difference(&group, &other->second, matched_by));
      done.insert(done.end(), group.rows.begin(), group.rows.end());
      done.insert(done.end(), other->second.rows.begin(), other->second.rows.end());
    }
    std::sort(done.begin(), done.end());
    for (auto* rows : {&before_, &after_})
      std::erase_if(*rows, [&](const Work* w) { return std::binary_search(done.begin(), done.end(), w); });
  }

  // Kernels that others replaced, as fused ones do.
  void match_by_range() {
    for (const std::string& range : ranges_inner_first()) {
      const Group before = group_in(before_, range), after = group_in(after_, range);
      if (before.rows.empty() || after.rows.empty() || !is_one_change(range, before, after)) continue;
      if (before.longest->kind != after.longest->kind) continue;   // a copy takes no kernel's place
      Difference& d = found.emplace_back(difference(&before, &after, "range"));
      d.within = range, d.names_before = names_of(before), d.names_after = names_of(after);
      for (auto* rows : {&before_, &after_}) std::erase_if(*rows, [&](const Work* w) { return is_in(*w, range); });
    }
  }

  void rest(const Key& key) {
    for (const auto& [k, group] : grouped(before_, key))
      found.push_back(difference(&group, nullptr, "", steps_of(runs_[1])));
    for (const auto& [k, group] : grouped(after_, key))
      found.push_back(difference(nullptr, &group, "", steps_of(runs_[0])));
  }

  std::vector<Difference> found;

 private:
  static int64_t steps_of(const RunSummary& run) { return static_cast<int64_t>(run.steps_ns.size()); }
  static bool is_in(const Work& w, const std::string& range) {
    return w.op == range || std::ranges::count(w.within, range) > 0;
  }
  static Group group_in(const std::vector<const Work*>& rows, const std::string& range) {
    Group group;
    for (const Work* w : rows)
      if (is_in(*w, range)) group.add(*w);
    return group;
  }
  static std::vector<std::string> names_of(const Group& group) {
    std::map<std::string, double> ns;
    for (const Work* w : group.rows) ns[w->name] += w->ns.mean;
    std::vector<std::string> names;
    for (const auto& [name, time] : ns) names.push_back(name);
    std::ranges::stable_sort(names, std::greater(), [&](const std::string& name) { return ns.at(name); });
    return names;
  }

  // Of all that is left, by how far out they are for any kernel.
  [[nodiscard]] std::vector<std::string> ranges_inner_first() const {
    std::map<std::string, size_t> distance;
    for (const auto* rows : {&before_, &after_})
      for (const Work* w : *rows) {
        if (!w->op.empty()) distance.try_emplace(w->op, 0);
        for (size_t i = 0; i < w->within.size(); ++i) {
          size_t& most = distance[w->within[i]];
          most = std::max(most, i + 1);
        }
      }
    std::vector<std::string> ranges;
    for (const auto& [range, most] : distance) ranges.push_back(range);
    std::ranges::stable_sort(ranges, {}, [&](const std::string& range) { return distance.at(range); });
    return ranges;
  }

  // What most of a step is in says little of what replaced what, unless most of it is replaced.
  [[nodiscard]] bool is_one_change(const std::string& range, const Group& before, const Group& after) const {
    constexpr size_t kMaxNames = 8;
    const auto tells = [&](const RunSummary& run, const Group& replaced) {
      double all = 0, inside = 0;
      for (const Work& w : run.work) all += w.ns.mean, inside += is_in(w, range) ? w.ns.mean : 0;
      return 2 * inside <= all || 2 * replaced.ns.mean >= inside;
    };
    return names_of(before).size() <= kMaxNames && names_of(after).size() <= kMaxNames && tells(runs_[0], before) &&
           tells(runs_[1], after);
  }

  std::array<std::reference_wrapper<const RunSummary>, 2> runs_;
  std::vector<const Work*> before_, after_;
};

std::string by_name(const Work& w) { return w.name + '\0' + w.kind; }
std::string by_op_and_shapes(const Work& w) { return w.shapes.empty() ? "" : w.op + '\0' + w.shapes + '\0' + w.kind; }
std::string by_op(const Work& w) { return w.op.empty() ? "" : w.op + '\0' + w.kind; }

}  // namespace

void judge(Difference& d, const StepSums& before, const StepSums& after) {
  constexpr double kNoticeable = 0.02;   // without steps to tell chance by
  constexpr double kSameCalls = 0.005;
  const bool testable = before.steps > 1 && after.steps > 1;
  if (testable) d.real = differs(before, after);
  const double larger = std::max(d.before_ns, d.after_ns);
  const bool changed = testable ? *d.real : std::abs(d.delta_ns()) > kNoticeable * larger;
  d.change = "same";
  if (!changed) return;
  d.change = d.delta_ns() > 0 ? "slower" : "faster";
  if (d.calls_before <= 0 || d.calls_after <= 0 || d.before_ns <= 0) return;
  // More of the same: the calls explain most of the change.
  const double calls = d.calls_after / d.calls_before;
  if (std::abs(calls - 1) <= kSameCalls) return;
  const double each = (d.after_ns / d.calls_after) / (d.before_ns / d.calls_before);
  if (std::abs(std::log(calls)) > std::abs(std::log(each))) d.change = calls > 1 ? "more_calls" : "fewer_calls";
}

std::vector<Difference> matched_work(const RunSummary& before, const RunSummary& after) {
  Matcher matcher(before, after);
  matcher.match(by_name, "name");
  matcher.match(by_op_and_shapes, "op and shapes");
  matcher.match(by_op, "op");
  matcher.match_by_range();
  matcher.rest(by_name);
  return std::move(matcher.found);
}

}  // namespace profgpu
