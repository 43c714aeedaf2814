// A result and an older one: what changed, what got lost, and both in one file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.h"
#include "base/text.h"
#include "measure/result/bench_result.h"
#include "view/wording.h"

namespace profgpu {
namespace {

const MeasuredDevice* device_at(const BenchResult& result, std::optional<int64_t> index) {
  return first_where(result.devices, [&](const MeasuredDevice& d) { return d.index == index; });
}

/// Which device of one result is which of another.
class DeviceMatch {
 public:
  DeviceMatch(const BenchResult& from, const BenchResult& to) : from_(from), to_(to) {
    for (const MeasuredDevice& d : from.devices) by_uuid_ = by_uuid_ || with_uuid(d.uuid);
  }
  /// The number in the other result; none: it has no such device.
  [[nodiscard]] std::optional<int64_t> operator()(int64_t index) const {
    const MeasuredDevice* own = device_at(from_, index);
    if (own && by_uuid_) {
      const MeasuredDevice* other = with_uuid(own->uuid);
      return other ? std::optional(other->index) : std::nullopt;
    }
    const MeasuredDevice* other = device_at(to_, index);
    if (own && other && own->name != other->name) return std::nullopt;
    return own && !other && !to_.devices.empty() ? std::nullopt : std::optional(index);
  }
  /// The figure as the other result numbers its devices; none: it has not all of them.
  [[nodiscard]] std::optional<Figure> operator()(const Figure& figure) const {
    Figure f = figure;
    if (f.device && !(f.device = (*this)(*figure.device))) return std::nullopt;
    if (f.peer && !(f.peer = (*this)(*figure.peer))) return std::nullopt;
    return f;
  }
  [[nodiscard]] bool by_uuid() const { return by_uuid_; }

 private:
  [[nodiscard]] const MeasuredDevice* with_uuid(std::string_view uuid) const {
    return first_where(to_.devices, [&](const MeasuredDevice& d) { return !uuid.empty() && d.uuid == uuid; });
  }

  const BenchResult& from_;
  const BenchResult& to_;
  bool by_uuid_ = false;                 // they have a device in common
};

std::vector<std::string> device_names(const BenchResult& result) {
  std::vector<std::string> names;
  if (result.ranks.empty()) for (const MeasuredDevice& d : result.devices) names.push_back(d.name);
  else for (const MeasuredRank& r : result.ranks) names.push_back(r.name);
  std::ranges::sort(names);
  return names;
}

void add_once(std::vector<std::string>& all, std::string text) {
  if (std::ranges::count(all, text) == 0) all.push_back(std::move(text));
}

std::string named_device(const BenchResult& result, int64_t index) {
  const MeasuredDevice* d = device_at(result, index);
  return d ? fmt::format("GPU {} ({})", index, d->name) : fmt::format("GPU {}", index);
}

// A figure of several devices that has the same name and no counterpart: over how many the older one is.
std::string other_ranks(const BenchResult& before, const Figure& now) {
  const Figure* then = first_where(before.figures, [&](const Figure& f) {
    return f.of_group() && f.benchmark == now.benchmark && f.name == now.name && f.ranks != now.ranks;
  });
  if (!then || !then->ranks || !now.ranks) return "";
  return fmt::format("{} over {} devices: the older result has them over {}", now.benchmark, *now.ranks, *then->ranks);
}

FigureChange change_of(const Figure& then, const Figure& now) {
  FigureChange c{&now, 100 * (now.value / then.value - 1), 0};
  // Of one run nobody knows the spread.
  const bool repeated = then.runs > 1 && now.runs > 1, alone = then.used_by.empty() && now.used_by.empty();
  if (repeated && alone && std::abs(c.change_pct) > std::max(kRealChange_pct, then.spread_pct + now.spread_pct))
    c.verdict = (c.change_pct > 0) == now.higher_is_better() ? 1 : -1;
  return c;
}

// Clocks that were locked for one of both alone make it slower or faster than the other.
std::string locked_in_one(const BenchResult& before, const BenchResult& after, const Figure& then, const Figure& now) {
  if (!now.device || !then.device) return "";
  const bool was = std::ranges::count(before.clocks_locked, *then.device) > 0;
  const bool is = std::ranges::count(after.clocks_locked, *now.device) > 0;
  if (was == is) return "";
  return fmt::format("GPU {}: its clocks were locked in the {} result only", *now.device, is ? "newer" : "older");
}

void compare_figures(const BenchResult& before, const BenchResult& after, BenchComparison& all) {
  const DeviceMatch older(after, before);
  const bool same_devices = device_names(before) == device_names(after);
  for (const Figure& now : after.figures) {
    const std::optional<Figure> known = older(now);
    if (!known) {
      for (const auto& index : {now.device, now.peer})
        if (index && !older(*index))
          add_once(all.not_judged, named_device(after, *index) + " is not in the older result");
      continue;
    }
    const Figure* then = first_where(before.figures, [&](const Figure& f) { return f.same_quantity(*known); });
    if (!then) {
      if (now.of_group())
        if (std::string why = other_ranks(before, now); !why.empty()) add_once(all.not_judged, std::move(why));
      continue;
    }
    if (then->unit != now.unit) continue;
    if (now.of_group() && !same_devices) {
      add_once(all.not_judged, now.benchmark + ": the older result is of other GPUs");
      continue;
    }
    all.figures.push_back(change_of(*then, now));
    if (std::string why = locked_in_one(before, after, *then, now); !why.empty()) {
      all.figures.back().verdict = 0;
      add_once(all.not_judged, std::move(why));
    }
  }
  for (const std::string& place : disturbed_places(after)) add_once(all.not_judged, place);
  for (const std::string& place : disturbed_places(before)) add_once(all.not_judged, "in the older result, " + place);
}

// Why the newer result has no such figure; null: it was not tried. `f` is numbered as there.
const NotMeasured* cause_of(const BenchResult& before, const BenchResult& after, const Figure& f) {
  const bool tried = after.benchmarks.empty() || std::ranges::count(after.benchmarks, f.benchmark) > 0;
  const auto of_a_figure = [&](const NotMeasured& n) {
    return std::ranges::any_of(before.figures, [&](const Figure& of) { return of.label == n.label; });
  };
  return first_where(after.not_measured, [&](const NotMeasured& n) {
    const bool here = n.device && (n.device == f.device || n.device == f.peer);
    if (n.kind == MissKind::kSkipped) return false;
    if (n.kind == MissKind::kHang) return tried;
    if (n.kind == MissKind::kLost) return tried && here;
    if (n.benchmark != f.benchmark || (n.device && !here)) return false;
    return n.label.empty() || n.label == f.label || (here && !of_a_figure(n));
  });
}

void find_lost(const BenchResult& before, const BenchResult& after, BenchComparison& all) {
  const DeviceMatch newer(before, after);
  std::vector<std::pair<const NotMeasured*, int64_t>> causes;
  std::set<int64_t> gone;
  for (const Figure& f : before.figures) {
    const std::optional<Figure> known = newer(f);
    if (!known) {
      const bool tried = std::ranges::count(after.benchmarks, f.benchmark) > 0 && !after.devices.empty();
      const bool absent = f.device && !newer(*f.device) && (newer.by_uuid() || !device_at(after, f.device));
      if (absent && tried && !after.selected) gone.insert(*f.device), all.lost_figures.push_back(&f);
      continue;
    }
    if (std::ranges::any_of(after.figures, [&](const Figure& now) { return now.same_quantity(*known); })) continue;
    const NotMeasured* why = cause_of(before, after, *known);
    if (!why) continue;
    all.lost_figures.push_back(&f);
    auto* cause = first_where(causes, [&](const auto& c) { return c.first == why; });
    if (!cause) cause = &causes.emplace_back(why, 0);
    ++cause->second;
  }
  for (const int64_t index : gone) all.lost.push_back(named_device(before, index) + " was not found");
  for (const auto& [why, count] : causes)
    all.lost.push_back(fmt::format("{}: {} ({} of the older result)", why->what(), why->why,
                                   plural(count, "figure", "figures")));
}

}  // namespace

bool BenchComparison::any_worse() const {
  return !lost.empty() || std::ranges::any_of(figures, [](const FigureChange& f) { return f.verdict < 0; });
}

BenchComparison compare_results(const BenchResult& before, const BenchResult& after) {
  BenchComparison all;
  compare_figures(before, after, all);
  find_lost(before, after, all);
  return all;
}

std::vector<std::string> disturbed_places(const BenchResult& result) {
  std::vector<std::string> all;
  for (const Figure& f : result.figures) {
    if (f.used_by.empty()) continue;
    if (f.device) add_once(all, fmt::format("GPU {} is used by {}", *f.device, f.used_by));
    else add_once(all, fmt::format("{}: {} is on a GPU", f.benchmark, f.used_by));
  }
  return all;
}

namespace {

// The older devices, each with a number that no other has; `to`: its number by the older one.
void add_devices(const BenchResult& before, BenchResult& now, std::vector<std::pair<int64_t, int64_t>>& to) {
  int64_t free = 0;
  for (const BenchResult* of : {&before, static_cast<const BenchResult*>(&now)})
    for (const MeasuredDevice& d : of->devices) free = std::max(free, d.index + 1);
  for (MeasuredDevice old : before.devices) {
    const MeasuredDevice* same = first_where(now.devices, [&](const MeasuredDevice& d) {
      return d.uuid == old.uuid && (!d.uuid.empty() || (d.index == old.index && d.name == old.name));
    });
    const int64_t was = old.index;
    if (!same && device_at(now, was)) old.index = free++;
    to.emplace_back(was, same ? same->index : old.index);
    if (!same) now.devices.push_back(std::move(old));
  }
  std::ranges::sort(now.devices, {}, &MeasuredDevice::index);
}

bool is_of_a_trace(const Figure& f) { return f.name.starts_with("from_"); }

}  // namespace

BenchResult merged_results(const BenchResult& before, BenchResult now) {
  std::vector<std::pair<int64_t, int64_t>> numbers;
  add_devices(before, now, numbers);
  // False: the older result does not describe the device.
  const auto renumber = [&](std::optional<int64_t>& index) {
    if (!index) return true;
    const auto* known = first_where(numbers, [&](const auto& n) { return n.first == index; });
    if (known) index = known->second;
    return known != nullptr;
  };
  const bool of_a_job = !now.ranks.empty();
  const bool of_a_trace = std::ranges::any_of(now.figures, is_of_a_trace);
  if (!of_a_job) now.ranks = before.ranks;
  for (Figure old : before.figures) {
    if (!renumber(old.device) || !renumber(old.peer)) continue;
    if ((of_a_job && old.rank) || (of_a_trace && is_of_a_trace(old))) continue;
    Figure* same = first_where(now.figures, [&](const Figure& f) { return f.same_quantity(old); });
    if (!same) now.figures.push_back(std::move(old));
    else if (!same->used_by.empty() && old.used_by.empty()) *same = std::move(old);
  }
  return now;
}

}  // namespace profgpu
