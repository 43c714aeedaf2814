#include "cli/bench_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "analyse/report/quantity.h"
#include "base/statistics.h"
#include "base/text.h"
#include "measure/result/collective_curve.h"
#include "measure/result/crossing.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr size_t kMaxSlow = 12;   // lines on slow devices

/// The figures of one quantity: of several devices, pairs or nodes.
struct Quantity {
  std::vector<const Figure*> figures;
  [[nodiscard]] const Figure& first() const { return *figures.front(); }
  [[nodiscard]] double median() const {
    std::vector<double> values;
    for (const Figure* f : figures) values.push_back(f->value);
    return median_of(values);
  }
};

std::vector<Quantity> quantities(const BenchResult& result, std::string_view benchmark) {
  std::vector<Quantity> all;
  for (const Figure& f : result.figures) {
    if (f.benchmark != benchmark) continue;
    Quantity* q = nullptr;
    for (Quantity& known : all)
      if (known.first().name == f.name && known.first().link_class() == f.link_class() &&
          (!f.device || known.first().node == f.node) && known.first().ranks == f.ranks)
        q = &known;
    if (!q) q = &all.emplace_back();
    q->figures.push_back(&f);
  }
  return all;
}

// "53.9 GB/s on GPU 3"; the worst of several.
std::string worst_text(const Quantity& q) {
  if (q.figures.size() == 1) return "";
  const bool high = q.first().higher_is_better();
  const Figure* worst = *std::ranges::min_element(q.figures, [&](const Figure* a, const Figure* b) {
    return high ? a->value < b->value : a->value > b->value;
  });
  return worst->text_of(worst->value) + " on " + worst->place();
}

// Means over the figures that know it.
std::string mean_text(const Quantity& q, std::optional<double> DeviceReadings::*member, std::string_view unit) {
  std::vector<double> values;
  for (const Figure* f : q.figures)
    if (const auto& x = f->readings.*member) values.push_back(*x);
  return values.empty() ? std::string(kUnknownText) : fmt::format("{:.0f} {}", mean_of(values), unit);
}

// "the GPU's own node", "another node than the GPU's", "GPU 0's own node".
std::string near_text(const Quantity& q) {
  std::string own;
  for (const Figure* f : q.figures)
    if (f->near == true) append_listed(own, fmt::format("GPU {}", *f->device));
  if (own.empty()) return "another node than the GPU's";
  const bool all = std::ranges::all_of(q.figures, [](const Figure* f) { return f->near == true; });
  return all ? "the GPU's own node" : "own node of " + own;
}

// "93 % of 18 NVLinks": the median of what is known.
std::string link_share_text(const Quantity& q) {
  std::vector<double> shares;
  const Figure* known = nullptr;
  for (const Figure* f : q.figures)
    if (const auto share = f->link_share_pct()) shares.push_back(*share), known = known ? known : f;
  return known ? fmt::format("{} of {}", format_percent(median_of(shares), 0), known->link_text()) : "";
}

std::string note_of(const Quantity& q) {
  std::string note;
  const Figure& f = q.first();
  if (f.near) append_listed(note, near_text(q));
  if (f.algbw_gbps) append_listed(note, "algbw " + format_measured(*f.algbw_gbps, "GB/s"));
  std::string held;
  for (const Figure* of : q.figures)
    if (!of->readings.held_back_by.empty() && !contains(held, of->readings.held_back_by))
      append_listed(held, of->readings.held_back_by);
  if (!held.empty()) append_listed(note, "clocks limited by " + held);
  int64_t outliers = 0;
  for (const Figure* of : q.figures) outliers += of->outliers;
  if (outliers > 0) append_listed(note, plural(outliers, "outlier", "outliers"));
  return note;
}

// "+3.1 %": the median of the changes of one quantity; where figures are worse, the worst: "-60.0 % worse on GPU 5".
Cell change_cell(const Quantity& q, const std::vector<FigureChange>& all) {
  std::vector<double> changed;
  bool better = false;
  const FigureChange* worst = nullptr;
  const auto loss = [](const FigureChange& c) { return c.after->higher_is_better() ? -c.change_pct : c.change_pct; };
  for (const FigureChange& c : all) {
    if (std::ranges::count(q.figures, c.after) == 0) continue;
    changed.push_back(c.change_pct), better = better || c.verdict > 0;
    if (c.verdict < 0 && (!worst || loss(c) > loss(*worst))) worst = &c;
  }
  if (changed.empty()) return {std::string(kUnknownText), Style::kFaint};
  if (worst) {
    const bool several = q.figures.size() > 1 && !worst->after->place().empty();
    return {fmt::format("{:+.1f} % worse{}", worst->change_pct, several ? " on " + worst->after->place() : ""),
            Style::kBad};
  }
  const std::string text = fmt::format("{:+.1f} %", median_of(changed));
  return better ? Cell{text + " better", Style::kGood} : Cell{text, Style::kFaint};
}

Lines table_lines(const BenchResult& result, std::string_view benchmark, const std::vector<FigureChange>* changed,
                  int width) {
  const std::vector<Quantity> all = quantities(result, benchmark);
  const bool several = std::ranges::any_of(all, [](const Quantity& q) { return q.figures.size() > 1; });
  const bool of_devices = std::ranges::any_of(all, [](const Quantity& q) { return q.first().device.has_value(); });
  const bool of_trace = std::ranges::any_of(all, [](const Quantity& q) { return q.first().in_trace.has_value(); });
  Grid grid;
  grid.add_column(benchmark), grid.add_column("median", true);
  if (of_trace) grid.add_column("in the trace", true), grid.add_column("share", true);
  if (changed) grid.add_column("change", true);
  if (several) grid.add_column("worst");
  grid.add_column("spread", true), grid.add_column("runs", true);
  const bool cached = std::ranges::any_of(all, [](const Quantity& q) { return !q.first().cache.empty(); });
  const bool linked = std::ranges::any_of(all, [](const Quantity& q) { return !link_share_text(q).empty(); });
  if (cached) grid.add_column("cache");
  if (linked) grid.add_column("of the link");
  if (of_devices) grid.add_column("SM clock", true), grid.add_column("power", true);
  const bool noted = std::ranges::any_of(all, [](const Quantity& q) { return !note_of(q).empty(); });
  if (noted) grid.add_column("");
  for (const Quantity& q : all) {
    double spread_pct = 0;
    int64_t runs = q.first().runs;
    for (const Figure* f : q.figures) spread_pct = std::max(spread_pct, f->spread_pct), runs = std::min(runs, f->runs);
    std::vector<Cell> row = {{"  " + q.first().label}, {q.first().text_of(q.median()), Style::kStrong}};
    if (of_trace) {
      const std::optional<double>& rate = q.first().in_trace;
      row.push_back({rate ? q.first().text_of(*rate) : std::string(kUnknownText)});
      row.push_back({rate ? format_percent(100 * *rate / q.median(), 0) : std::string(kUnknownText), Style::kStrong});
    }
    if (changed) row.push_back(change_cell(q, *changed));
    if (several) row.push_back({worst_text(q)});
    row.push_back({format_percent(spread_pct), spread_pct > 5 ? Style::kWarn : Style::kPlain});
    row.push_back({std::to_string(runs)});
    if (cached) row.push_back({q.first().cache});
    if (linked) row.push_back({link_share_text(q)});
    if (of_devices) {
      row.push_back({mean_text(q, &DeviceReadings::sm_clock_mhz, "MHz")});
      row.push_back({mean_text(q, &DeviceReadings::power_w, "W")});
    }
    if (noted) row.push_back({note_of(q), Style::kFaint});
    grid.add_row(std::move(row));
  }
  return grid.lines(width);
}

Line head_of(const BenchResult& result) {
  Line head(result.machine.host, Style::kStrong);
  head.add(fmt::format("  {}, {} cores", result.machine.processor, result.machine.cores));
  std::map<std::string, int> names;
  for (const MeasuredDevice& d : result.devices) ++names[d.name];
  for (const auto& [name, count] : names) head.add(fmt::format("  {} × {}", count, name));
  std::set<std::string> hosts;
  for (const MeasuredRank& r : result.ranks) hosts.insert(r.host);
  if (!hosts.empty()) head.add(fmt::format("  {} ranks on {} host{}", result.ranks.size(), hosts.size(),
                                           hosts.size() > 1 ? "s" : ""));
  if (!result.machine.driver.empty()) head.add("  driver " + result.machine.driver, Style::kFaint);
  return head;
}

void add_slow(const BenchResult& result, Lines& lines, int width) {
  const std::vector<SlowFigure> slow = slow_figures(result);
  const std::vector<std::string> places = slow_places(result);
  if (slow.empty() && places.empty()) return;
  append(lines, {Line(), Line("Slower than the others", Style::kStrong)});
  for (const std::string& place : places)
    append(lines, wrapped_after(Line().skip(2).add("✗ ", Style::kStrongBad), place, width));
  for (size_t i = 0; i < std::min(slow.size(), kMaxSlow); ++i)
    append(lines, wrapped_after(Line().skip(2).add("✗ ", Style::kStrongBad), slow[i].text(), width));
  if (slow.size() > kMaxSlow)
    lines.push_back(Line().skip(4).add(fmt::format("… and {} more", slow.size() - kMaxSlow)));
}

void add_marked(Lines& lines, std::string_view title, const std::vector<std::string>& texts, int width) {
  if (texts.empty()) return;
  append_apart(lines, {Line(title, Style::kStrong)});
  for (const std::string& text : texts)
    append(lines, wrapped_after(Line().skip(2).add("✗ ", Style::kStrongBad), text, width));
}

void add_not_judged(const std::vector<std::string>& texts, Lines& lines, int width) {
  if (!texts.empty()) lines.emplace_back();
  for (const std::string& text : texts)
    append(lines, wrapped_after(Line().skip(2).add("! ", Style::kWarn), "not judged: " + text, width));
}

// Each collective over its sizes.
void add_curves(const BenchResult& result, Lines& lines, int width) {
  const std::vector<CollectiveCurve> curves = collective_curves(result.figures);
  if (curves.empty()) return;
  append_apart(lines, {Line("Over all sizes", Style::kStrong)});
  for (const CollectiveCurve& c : curves)
    append(lines, wrapped_after(Line().skip(2).add(c.label + ": "), c.text(), width));
}

constexpr int kBarCells = 40;

// As the Python package's Crossover draws them: bars on a logarithmic axis of time.
void add_crossings(const BenchResult& result, Lines& lines) {
  for (const Crossing& c : crossings(result.figures)) {
    append_apart(lines, {Line(c.label, Style::kStrong)});
    double low = HUGE_VAL, high = 0;
    for (const CrossingRow& r : c.rows)
      for (const double ns : {r.cpu_ns, r.gpu_ns, r.copies_ns}) low = std::min(low, ns), high = std::max(high, ns);
    for (const CrossingRow& r : c.rows)
      for (const auto& [name, ns, style] : {std::tuple{"CPU", r.cpu_ns, Style::kBusy},
                                            {"GPU", r.gpu_ns, Style::kGood},
                                            {"GPU with copies", r.copies_ns, Style::kNote}}) {
        const double share = high > low ? std::log(ns / low) / std::log(high / low) : 1;
        const std::string head = r.cpu_ns == ns && std::string_view(name) == "CPU" ? std::to_string(r.size) : "";
        lines.push_back(Line().add(fmt::format("{:>12}  {:<16}", head, name))
                            .add(bar((1 + share * (kBarCells - 1)) / kBarCells, kBarCells), style)
                            .add("  " + format_duration(ns)));
      }
    for (const std::string& text : c.texts()) lines.push_back(Line().skip(2).add(text));
  }
}

// Each reason once, with all that it holds for.
void add_not_measured(const BenchResult& result, Lines& lines, int width) {
  std::vector<std::pair<const NotMeasured*, std::string>> reasons;
  for (const NotMeasured& n : result.not_measured) {
    std::string what = n.label.empty() ? n.benchmark : n.label;
    if (n.device) what += fmt::format(" (GPU {})", *n.device);
    auto it = std::ranges::find_if(reasons, [&](const auto& r) { return r.first->why == n.why; });
    if (it == reasons.end()) it = reasons.insert(it, {&n, ""});
    append_listed(it->second, what);
  }
  if (reasons.empty()) return;
  append(lines, {Line(), Line("Not measured", Style::kStrong)});
  for (const auto& [n, what] : reasons) {
    append(lines, wrapped_after(Line().skip(2).add("– ", Style::kWarn), what + ": " + n->why, width));
    if (!n->hint.empty()) append(lines, wrapped_after(Line().skip(6), n->hint, width, Style::kFaint));
  }
}

}  // namespace

Lines bench_lines(const BenchResult& result, const BenchResult* before, int width) {
  Lines lines = {head_of(result)};
  if (result.simulated)
    append(lines, wrapped_after(Line().skip(2), "Simulated: a stand-in for the driver gave these figures, no device",
                                width, Style::kWarn));
  if (result.interrupted)
    append(lines, wrapped_after(Line().skip(2), "Interrupted: these figures are what was measured until then", width,
                                Style::kWarn));
  const BenchComparison compared = before ? compare_results(*before, result) : BenchComparison();
  std::vector<std::string> shown;
  for (const Figure& f : result.figures) {
    if (std::ranges::count(shown, f.benchmark) > 0) continue;
    shown.push_back(f.benchmark);
    // Of many sizes the drawing tells more than rows.
    if (f.benchmark == "crossover" && !before) continue;
    append_apart(lines, table_lines(result, f.benchmark, before ? &compared.figures : nullptr, width));
  }
  add_curves(result, lines, width);
  add_crossings(result, lines);
  add_slow(result, lines, width);
  add_marked(lines, "Lost", compared.lost, width);
  add_not_judged(before ? compared.not_judged : disturbed_places(result), lines, width);
  if (!result.notes.empty()) lines.emplace_back();
  for (const std::string& note : result.notes)
    append(lines, wrapped_after(Line().skip(2).add("! ", Style::kWarn), note, width));
  add_not_measured(result, lines, width);
  return lines;
}

Lines machine_lines(const std::vector<BenchResult>& all, const MachineComparison& found, int width) {
  Lines lines;
  for (const BenchResult& result : all) lines.push_back(head_of(result));
  if (found.slow.empty()) append_apart(lines, {Line("No machine is slower than the others", Style::kStrong)});
  add_marked(lines, "Slower than the others", found.slow, width);
  add_marked(lines, "Not measured there", found.missing, width);
  add_not_judged(found.not_judged, lines, width);
  return lines;
}

}  // namespace profgpu
