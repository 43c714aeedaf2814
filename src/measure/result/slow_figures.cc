// Which device, pair, rank or host is slower than the others of its kind.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "analyse/report/quantity.h"
#include "base/statistics.h"
#include "base/text.h"
#include "measure/result/bench_result.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr size_t kLeastPairs = 2;   // of a place, and of the others, before all of a place's pairs count as its fault

double worse_pct(const Figure& figure, double than) {
  const double ratio = figure.higher_is_better() ? figure.value / than : than / figure.value;
  return 100 * (1 - ratio);
}

const MeasuredRank* rank_of(const BenchResult& result, std::optional<int64_t> rank) {
  return first_where(result.ranks, [&](const MeasuredRank& r) { return r.rank == rank; });
}

// What the figure's device is called. Devices of different names are not compared.
std::string kind_of(const BenchResult& result, const Figure& f) {
  if (f.rank) {
    const MeasuredRank* r = rank_of(result, f.rank);
    return r ? r->name : "";
  }
  const MeasuredDevice* d = first_where(result.devices, [&](const MeasuredDevice& m) { return m.index == f.device; });
  return d ? d->name : "";
}

// What another process disturbed, and what was measured once, says nothing of the device. Of copies to a node of the
// host only those to the device's own are alike: others cross what joins the processors.
// Of sums over both ways each way is judged.
bool judged(const Figure& f) { return f.used_by.empty() && f.runs > 1 && !f.name.ends_with("_total"); }
bool alike_on_devices(const Figure& f) { return !f.device || !f.node || f.near == true; }

bool comparable(const BenchResult& result, const Figure& a, const Figure& b) {
  return a.benchmark == b.benchmark && a.name == b.name && (b.device || b.rank) && b.used_by.empty() &&
         a.node.has_value() == b.node.has_value() && alike_on_devices(b) &&
         a.rank.has_value() == b.rank.has_value() && a.link_class() == b.link_class() &&
         kind_of(result, a) == kind_of(result, b);
}

bool is_slow(const Figure& f, double pct) { return pct > std::max(kSlowDevice_pct, f.spread_pct); }

struct Place {
  std::string name;
  std::vector<const Figure*> pairs;
  double own = 0, others = 0;
};

// The two ends of a pair, as `end` names them.
using Ends = std::function<std::vector<std::string>(const Figure&)>;

std::vector<std::string> device_ends(const BenchResult& result, const Figure& f) {
  if (!f.rank) return {fmt::format("GPU {}", *f.device), fmt::format("GPU {}", *f.peer)};
  std::vector<std::string> ends;
  for (const auto& rank : {f.rank, f.peer_rank}) {
    const MeasuredRank* r = rank_of(result, rank);
    ends.push_back(r ? fmt::format("rank {} ({}, GPU {})", *rank, r->host, r->device) : fmt::format("rank {}", *rank));
  }
  return ends;
}

std::vector<std::string> host_ends(const BenchResult& result, const Figure& f) {
  const MeasuredRank *a = rank_of(result, f.rank), *b = rank_of(result, f.peer_rank);
  if (!a || !b || a->host == b->host) return {};
  return {a->host, b->host};
}

// Places all of whose pairs are slow by those without them.
std::vector<Place> slow_ends(const std::vector<const Figure*>& pairs, const Ends& ends) {
  std::map<std::string, std::set<const Figure*>> at_end;
  std::vector<const Figure*> with_ends;
  for (const Figure* f : pairs) {
    const std::vector<std::string> two = ends(*f);
    for (const std::string& end : two) at_end[end].insert(f);
    if (!two.empty()) with_ends.push_back(f);
  }
  std::vector<Place> slow;
  for (const auto& [name, figures] : at_end) {
    Place place{name, {}, 0, 0};
    std::vector<double> own, others;
    for (const Figure* f : with_ends) {
      const bool at = figures.contains(f);
      (at ? own : others).push_back(f->value);
      if (at) place.pairs.push_back(f);
    }
    if (own.size() < kLeastPairs || others.size() < kLeastPairs) continue;
    place.own = median_of(own), place.others = median_of(others);
    const auto lags = [&](const Figure* f) { return worse_pct(*f, place.others) > kSlowDevice_pct; };
    if (std::ranges::all_of(place.pairs, lags)) slow.push_back(std::move(place));
  }
  return slow;
}

struct SlowPlace {
  std::string text;
  std::vector<const Figure*> pairs;
  double behind_pct = 0;
};
struct SlowPlaces {
  std::vector<SlowPlace> all;
  std::set<const Figure*> explained;
};

SlowPlaces places_of(const BenchResult& result) {
  std::vector<std::pair<std::string, std::vector<const Figure*>>> groups;   // that are compared with each other
  for (const Figure& f : result.figures) {
    if ((f.rank ? !f.peer_rank : !(f.device && f.peer)) || !judged(f)) continue;
    const std::string key = fmt::format("{}/{}/{}/{}", f.benchmark, f.name, f.link_class(), kind_of(result, f));
    auto* group = first_where(groups, [&](const auto& g) { return g.first == key; });
    if (!group) group = &groups.emplace_back(key, std::vector<const Figure*>());
    group->second.push_back(&f);
  }
  SlowPlaces found;
  const auto take = [&](const std::vector<Place>& places, std::string_view which) {
    for (const Place& p : places) {
      const Figure& f = *p.pairs.front();
      found.explained.insert(p.pairs.begin(), p.pairs.end());
      const double behind_pct = 100 * (1 - p.own / p.others);
      found.all.push_back({fmt::format("{}: {}: its {} {} reach {}, those without it {} ({} worse)", p.name, f.label,
                                       p.pairs.size(), which, f.text_of(p.own), f.text_of(p.others),
                                       format_percent(behind_pct, 0)),
                           p.pairs, behind_pct});
    }
  };
  for (const auto& [key, pairs] : groups) {
    take(slow_ends(pairs, [&](const Figure& f) { return host_ends(result, f); }), "pairs with other hosts");
    std::vector<const Figure*> left;
    for (const Figure* f : pairs)
      if (!found.explained.contains(f)) left.push_back(f);
    take(slow_ends(left, [&](const Figure& f) { return device_ends(result, f); }), "pairs");
  }
  return found;
}

// "2 × NVIDIA H100 80GB HBM3": what figures of several devices are of.
std::string group_of(const BenchResult& result) {
  std::map<std::string, int> names;
  if (result.ranks.empty()) for (const MeasuredDevice& d : result.devices) ++names[d.name];
  else for (const MeasuredRank& r : result.ranks) ++names[r.name];
  std::string text;
  for (const auto& [name, count] : names) append_listed(text, fmt::format("{} × {}", count, name));
  return text;
}

// What is compared between machines. Figures of the host are of its processor; copies that are not known to be to a
// device's own node, of the same device and node of machines that are built alike.
std::string key_of(const BenchResult& result, const Figure& f) {
  std::string kind = result.machine.processor;
  if (f.device || f.rank) kind = kind_of(result, f);
  else if (f.of_group()) kind = fmt::format("{} of {}", f.ranks.value_or(0), group_of(result));
  if (f.device && std::ranges::count(result.clocks_locked, *f.device) > 0) kind += " with locked clocks";
  if (f.device && f.node) kind += f.near == true ? " near" : fmt::format(" {} node {}", *f.device, *f.node);
  return fmt::format("{}/{}/{}/{}/{}", f.benchmark, f.name, f.link_class(), f.unit, kind);
}

/// The figures of one quantity, of all machines.
struct Compared {
  const BenchResult* result;
  const Figure* figure;
  std::optional<double> usual = {};      // the median of the other machines; none: no other has it
  double behind_pct = 0;

  [[nodiscard]] bool slow() const { return usual && is_slow(*figure, behind_pct); }
};
using Quantities = std::map<std::string, std::vector<Compared>>;

Quantities quantities_of(const std::vector<BenchResult>& all) {
  Quantities groups;
  for (const BenchResult& result : all)
    for (const Figure& f : result.figures)
      if (judged(f)) groups[key_of(result, f)].push_back({&result, &f});
  for (auto& [key, group] : groups)
    for (Compared& own : group) {
      std::vector<double> others;
      for (const Compared& other : group)
        if (other.result->machine.host != own.result->machine.host) others.push_back(other.figure->value);
      if (others.empty()) continue;
      own.usual = median_of(others);
      own.behind_pct = worse_pct(*own.figure, *own.usual);
    }
  return groups;
}

using Sorted = std::vector<std::pair<double, std::string>>;

// Of one machine and one quantity. If all of its devices are slow, that is one line.
void add_slow(const std::vector<const Compared*>& own, Sorted& slow) {
  std::vector<const Compared*> behind;
  std::vector<double> values, behind_pct;
  for (const Compared* c : own)
    if (c->slow()) behind.push_back(c), values.push_back(c->figure->value), behind_pct.push_back(c->behind_pct);
  const bool all = own.size() > 1 && behind.size() == own.size();
  const auto line = [&](const Compared& c, std::string_view where, double value, double pct) {
    const Figure& f = *c.figure;
    slow.emplace_back(pct, fmt::format("{}: {}{} {}, the other machines {} ({} worse)", c.result->machine.host, where,
                                       f.label, f.text_of(value), f.text_of(*c.usual), format_percent(pct, 0)));
  };
  if (all)
    return line(*behind.front(), fmt::format("all {}: ", own.size()), median_of(values), median_of(behind_pct));
  for (const Compared* c : behind) {
    const std::string place = own.size() > 1 ? c->figure->place() : "";
    line(*c, place.empty() ? "" : place + ": ", c->figure->value, c->behind_pct);
  }
}

// A device or host all of whose pairs are slow within its own machine or job, and that no other machine excuses.
void add_places(const BenchResult& result, const std::map<const Figure*, const Compared*>& compared,
                std::set<const Figure*>& explained, Sorted& slow) {
  const SlowPlaces places = places_of(result);
  for (const SlowPlace& place : places.all) {
    const bool counts = std::ranges::any_of(place.pairs, [&](const Figure* f) {
      const auto at = compared.find(f);
      return at == compared.end() || !at->second->usual || at->second->slow();
    });
    if (counts) slow.emplace_back(place.behind_pct, result.machine.host + ": " + place.text);
    explained.insert(place.pairs.begin(), place.pairs.end());
  }
  // What no other machine has is compared within its own.
  for (const SlowFigure& s : slow_figures(result)) {
    const auto at = compared.find(s.figure);
    if (at == compared.end() || !at->second->usual)
      slow.emplace_back(s.behind_pct, result.machine.host + ": " + s.text());
  }
}

std::vector<std::string> slow_of(const std::vector<BenchResult>& all, const Quantities& groups) {
  std::map<const Figure*, const Compared*> compared;
  for (const auto& [key, group] : groups)
    for (const Compared& c : group) compared.emplace(c.figure, &c);
  Sorted slow;
  std::set<const Figure*> explained;
  for (const BenchResult& result : all) add_places(result, compared, explained, slow);
  for (const auto& [key, group] : groups)
    for (const BenchResult& result : all) {
      std::vector<const Compared*> own;
      for (const Compared& c : group)
        if (c.result == &result && !explained.contains(c.figure)) own.push_back(&c);
      add_slow(own, slow);
    }
  std::ranges::stable_sort(slow, std::greater<>(), &std::pair<double, std::string>::first);
  std::vector<std::string> texts;
  for (auto& [pct, text] : slow) texts.push_back(std::move(text));
  return texts;
}

// Whether another machine with such a device has figures of it, and none lacks it for the same reason.
bool others_have(const NotMeasured& n, const BenchResult& result, const std::vector<BenchResult>& all) {
  Figure missed;
  missed.device = n.device;
  const std::string kind = kind_of(result, missed);
  bool have = false, label_known = false;
  for (const BenchResult& other : all) {
    if (other.machine.host == result.machine.host) continue;
    for (const NotMeasured& o : other.not_measured)
      if (o.benchmark == n.benchmark && o.label == n.label && o.why == n.why) return false;
    for (const Figure& f : other.figures) {
      if (f.benchmark != n.benchmark || (n.device && kind_of(other, f) != kind)) continue;
      have = true, label_known = label_known || f.label == n.label;
    }
  }
  return have && (label_known || n.label.empty() || n.device);
}

// Faults, and what a machine has no figure of that others have.
void add_missing(const BenchResult& result, const std::vector<BenchResult>& all, std::vector<std::string>& missing) {
  std::vector<std::pair<const NotMeasured*, std::string>> reasons;   // each once
  for (const NotMeasured& n : result.not_measured) {
    if (n.kind == MissKind::kSkipped || (!n.is_fault() && !others_have(n, result, all))) continue;
    auto* reason = first_where(reasons, [&](const auto& r) { return r.first->why == n.why; });
    if (!reason) reason = &reasons.emplace_back(&n, "");
    append_listed(reason->second, n.what());
  }
  for (const auto& [n, what] : reasons)
    missing.push_back(fmt::format("{}: {}: {}", result.machine.host, what, n->why));
  std::set<size_t> counts;                // of the others
  size_t others = 0;
  for (const BenchResult& other : all)
    if (other.machine.host != result.machine.host) counts.insert(other.devices.size()), ++others;
  if (others > 1 && counts.size() == 1 && result.devices.size() < *counts.begin() && !result.selected)
    missing.push_back(fmt::format("{}: it has {}, each of the others {}", result.machine.host,
                                  plural(static_cast<int64_t>(result.devices.size()), "GPU", "GPUs"),
                                  *counts.begin()));
}

Error nothing_to_compare(const std::vector<BenchResult>& all) {
  std::set<std::string> hosts;
  for (const BenchResult& result : all) hosts.insert(result.machine.host);
  if (hosts.size() < 2)
    return {fmt::format("results of one machine only ({}): nothing to compare it with", joined(hosts)),
            "write one on each machine with `profgpu bench -o FILE`, into one folder"};
  return {fmt::format("{} have no figure in common: nothing to compare", joined(hosts)),
          "run the same benchmarks on each; devices are compared with those of the same name"};
}

}  // namespace

Result<MachineComparison> compare_machines(const std::vector<BenchResult>& all) {
  const Quantities groups = quantities_of(all);
  const bool any = std::ranges::any_of(groups, [](const auto& group) {
    return std::ranges::any_of(group.second, [](const Compared& c) { return c.usual.has_value(); });
  });
  if (!any) return nothing_to_compare(all);
  MachineComparison found{slow_of(all, groups), {}, {}};
  for (const BenchResult& result : all) {
    add_missing(result, all, found.missing);
    for (const std::string& place : disturbed_places(result))
      found.not_judged.push_back(result.machine.host + ": " + place);
  }
  return found;
}

std::string SlowFigure::text() const {
  return fmt::format("{}: {} {}, the others {} ({} worse)", figure->place(), figure->label,
                     figure->text_of(figure->value), figure->text_of(others), format_percent(behind_pct, 0));
}

std::vector<std::string> slow_places(const BenchResult& result) {
  std::vector<std::string> texts;
  for (SlowPlace& place : places_of(result).all) texts.push_back(std::move(place.text));
  return texts;
}

std::vector<SlowFigure> slow_figures(const BenchResult& result) {
  const SlowPlaces places = places_of(result);
  std::vector<SlowFigure> slow;
  for (const Figure& f : result.figures) {
    if ((!f.device && !f.rank) || !judged(f) || !alike_on_devices(f) || places.explained.contains(&f)) continue;
    std::vector<double> others;
    for (const Figure& other : result.figures)
      if (&other != &f && comparable(result, f, other)) others.push_back(other.value);
    if (others.empty()) continue;
    SlowFigure s{&f, median_of(others)};
    s.behind_pct = worse_pct(f, s.others);
    if (is_slow(f, s.behind_pct)) slow.push_back(s);
  }
  std::ranges::stable_sort(slow, std::greater<>(), &SlowFigure::behind_pct);
  return slow;
}

}  // namespace profgpu
