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

bool comparable(const BenchResult& result, const Figure& a, const Figure& b) {
  return a.benchmark == b.benchmark && a.name == b.name && (b.device || b.rank) &&
         a.rank.has_value() == b.rank.has_value() && a.link_class() == b.link_class() &&
         kind_of(result, a) == kind_of(result, b);
}

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

struct SlowPlaces {
  std::vector<std::string> texts;
  std::set<const Figure*> explained;
};

SlowPlaces places_of(const BenchResult& result) {
  std::vector<std::pair<std::string, std::vector<const Figure*>>> groups;   // that are compared with each other
  for (const Figure& f : result.figures) {
    if (f.rank ? !f.peer_rank : !(f.device && f.peer)) continue;
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
      found.texts.push_back(fmt::format("{}: {}: its {} {} reach {}, those without it {} ({} worse)", p.name, f.label,
                                        p.pairs.size(), which, f.text_of(p.own), f.text_of(p.others),
                                        format_percent(100 * (1 - p.own / p.others), 0)));
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

// What is compared between machines. Figures of the host are of its processor.
std::string key_of(const BenchResult& result, const Figure& f) {
  const std::string kind = f.device || f.rank ? kind_of(result, f) : result.machine.processor;
  return fmt::format("{}/{}/{}/{}/{}", f.benchmark, f.name, f.link_class(), f.unit, kind);
}

// The quantities of a machine, each the median over its devices or pairs, by key.
std::map<std::string, Figure> quantities_of(const BenchResult& result) {
  std::map<std::string, std::vector<const Figure*>> groups;
  for (const Figure& f : result.figures)
    if (f.runs > 1) groups[key_of(result, f)].push_back(&f);   // of one run nobody knows the spread
  std::map<std::string, Figure> all;
  for (const auto& [key, figures] : groups) {
    std::vector<double> values, spreads_pct;
    for (const Figure* f : figures) values.push_back(f->value), spreads_pct.push_back(f->spread_pct);
    Figure& median = all.emplace(key, *figures.front()).first->second;
    median.value = median_of(values), median.spread_pct = median_of(spreads_pct);
  }
  return all;
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

Result<std::vector<std::string>> slow_machines(const std::vector<BenchResult>& all) {
  std::map<std::string, std::vector<std::pair<std::string, Figure>>> groups;   // hosts that are compared
  for (const BenchResult& result : all)
    for (auto& [key, figure] : quantities_of(result)) groups[key].emplace_back(result.machine.host, std::move(figure));
  std::vector<std::pair<double, std::string>> slow;
  bool any = false;
  for (const auto& [key, machines] : groups)
    for (const auto& own : machines) {
      std::vector<double> others;
      for (const auto& other : machines)
        if (other.first != own.first) others.push_back(other.second.value);
      if (others.empty()) continue;
      any = true;
      const auto& [host, f] = own;
      const double usual = median_of(others), pct = worse_pct(f, usual);
      if (pct > std::max(kSlowDevice_pct, f.spread_pct))
        slow.emplace_back(pct, fmt::format("{}: {} {}, the other machines {} ({} worse)", host, f.label,
                                           f.text_of(f.value), f.text_of(usual), format_percent(pct, 0)));
    }
  if (!any) return nothing_to_compare(all);
  std::ranges::stable_sort(slow, std::greater<>(), &std::pair<double, std::string>::first);
  std::vector<std::string> texts;
  for (auto& [pct, text] : slow) texts.push_back(std::move(text));
  return texts;
}

std::string SlowFigure::text() const {
  return fmt::format("{}: {} {}, the others {} ({} worse)", figure->place(), figure->label,
                     figure->text_of(figure->value), figure->text_of(others), format_percent(behind_pct, 0));
}

std::vector<std::string> slow_places(const BenchResult& result) { return places_of(result).texts; }

std::vector<SlowFigure> slow_figures(const BenchResult& result) {
  const SlowPlaces places = places_of(result);
  std::vector<SlowFigure> slow;
  for (const Figure& f : result.figures) {
    if ((!f.device && !f.rank) || f.runs < 2 || places.explained.contains(&f)) continue;
    std::vector<double> others;
    for (const Figure& other : result.figures)
      if (&other != &f && comparable(result, f, other)) others.push_back(other.value);
    if (others.empty()) continue;
    SlowFigure s{&f, median_of(others)};
    s.behind_pct = worse_pct(f, s.others);
    if (s.behind_pct > kSlowDevice_pct) slow.push_back(s);
  }
  std::ranges::stable_sort(slow, std::greater<>(), &SlowFigure::behind_pct);
  return slow;
}

}  // namespace profgpu
