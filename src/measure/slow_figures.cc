// Which device, pair, rank or host is slower than the others of its kind.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "analyse/report/quantity.h"
#include "base/statistics.h"
#include "base/text.h"
#include "measure/bench_result.h"

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
  std::set<std::string> names;
  for (const Figure* f : pairs)
    for (const std::string& end : ends(*f)) names.insert(end);
  std::vector<Place> slow;
  for (const std::string& name : names) {
    Place place{name, {}, 0, 0};
    std::vector<double> own, others;
    for (const Figure* f : pairs) {
      const std::vector<std::string> two = ends(*f);
      if (two.empty()) continue;
      const bool at = std::ranges::count(two, name) > 0;
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
    if (!f.peer && !f.peer_rank) continue;
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

// A quantity of a machine: the median over its devices or pairs.
struct OfMachine {
  std::string key;
  const Figure* first;
  std::string host;
  double value = 0;
};

std::vector<OfMachine> quantities_of(const BenchResult& result) {
  std::vector<OfMachine> all;
  std::vector<std::vector<double>> values;
  for (const Figure& f : result.figures) {
    const std::string key = fmt::format("{}/{}/{}/{}", f.benchmark, f.name, f.link_class(), kind_of(result, f));
    size_t at = 0;
    while (at < all.size() && all[at].key != key) ++at;
    if (at == all.size()) all.push_back({key, &f, result.machine.host, 0}), values.emplace_back();
    values[at].push_back(f.value);
  }
  for (size_t i = 0; i < all.size(); ++i) all[i].value = median_of(values[i]);
  return all;
}

}  // namespace

std::vector<std::string> slow_machines(const std::vector<BenchResult>& all) {
  std::vector<OfMachine> every;
  for (const BenchResult& result : all) std::ranges::move(quantities_of(result), std::back_inserter(every));
  std::vector<std::pair<double, std::string>> slow;
  for (const OfMachine& own : every) {
    std::vector<double> others;
    for (const OfMachine& other : every)
      if (&other != &own && other.key == own.key && other.first->unit == own.first->unit) others.push_back(other.value);
    if (others.empty()) continue;
    const double usual = median_of(others);
    Figure f = *own.first;
    f.value = own.value;
    if (const double pct = worse_pct(f, usual); pct > kSlowDevice_pct)
      slow.emplace_back(pct, fmt::format("{}: {} {}, the other machines {} ({} worse)", own.host, f.label,
                                         f.text_of(f.value), f.text_of(usual), format_percent(pct, 0)));
  }
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
