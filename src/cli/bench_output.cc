#include "cli/bench_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyse/report/document.h"
#include "analyse/report/quantity.h"
#include "base/csv.h"
#include "base/text.h"
#include "measure/result/collective_curve.h"
#include "measure/result/crossing.h"
#include "view/document.h"
#include "view/wording.h"

namespace profgpu {
namespace {

std::string plain_text(const Value& value) {
  if (const std::string* text = value.text()) return *text;
  if (const int64_t* whole = value.integer()) return fmt::format("{}", *whole);
  return value.real() ? fmt::format("{}", *value.real()) : "";
}

constexpr double kChartWidth = 640, kChartHeight = 220, kLeft = 10, kRight = 90, kAbove = 12, kBelow = 24;
constexpr const char* kColours[] = {"#2f7ed8", "#d9822b", "#3a9a5b", "#b64fb0", "#c2413b", "#5b6bd1", "#7c8a24"};

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;   // size and value, both above 0
};
struct Chart {
  std::string title, unit;
  std::vector<Curve> curves;
};

// "all_reduce_1024" of size 1024: what the curve of these sizes is called.
std::string curve_name(const Figure& f) {
  const std::string size = fmt::format("_{}", *f.size);
  std::string name = f.name.ends_with(size) ? f.name.substr(0, f.name.size() - size.size()) : f.name;
  if (f.device && f.benchmark != "crossover") name += fmt::format(", GPU {}", *f.device);
  return name;
}

// One chart for each benchmark and unit; of crossover one for each kind of work.
std::vector<Chart> charts_of(const BenchResult& result) {
  std::vector<Chart> all;
  for (const Figure& f : result.figures) {
    if (!f.size || *f.size <= 0 || f.value <= 0) continue;
    std::string what =
        f.benchmark == "crossover" ? fmt::format("crossover: {}", f.label.substr(0, f.label.find(','))) : f.benchmark;
    // The devices of one precision are compared, not all lines with each other.
    if (!f.precision.empty() && result.devices.size() > 1) what += ": " + f.precision;
    Chart* chart = first_where(all, [&](const Chart& c) { return c.title == what && c.unit == f.unit; });
    if (!chart) chart = &all.emplace_back(Chart{what, f.unit, {}});
    Curve* curve = first_where(chart->curves, [&](const Curve& c) { return c.name == curve_name(f); });
    if (!curve) curve = &chart->curves.emplace_back(Curve{curve_name(f), {}});
    curve->points.emplace_back(static_cast<double>(*f.size), f.value);
  }
  for (Chart& chart : all) {
    for (Curve& c : chart.curves) std::ranges::sort(c.points);
    std::erase_if(chart.curves, [](const Curve& c) { return c.points.size() < 2; });
  }
  std::erase_if(all, [](const Chart& c) { return c.curves.empty(); });
  return all;
}

// Both axes are logarithmic.
std::string drawn(const Chart& chart) {
  double least_x = HUGE_VAL, most_x = 0, least_y = HUGE_VAL, most_y = 0;
  for (const Curve& c : chart.curves)
    for (const auto& [x, y] : c.points) {
      least_x = std::min(least_x, x), most_x = std::max(most_x, x);
      least_y = std::min(least_y, y), most_y = std::max(most_y, y);
    }
  const auto at = [](double v, double least, double most, double from, double to) {
    return most > least ? from + (to - from) * std::log(v / least) / std::log(most / least) : (from + to) / 2;
  };
  Figure figure;
  figure.unit = chart.unit;
  std::string out = fmt::format("<h3>{}, {}</h3>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" "
                                "style=\"max-width:40rem;font-size:.7rem\" fill=\"currentColor\">\n",
                                html_text(chart.title),
                                html_text(chart.unit == "ns" ? "time" : chart.unit), kChartWidth, kChartHeight);
  // Noise is no curve: the axis covers a factor of two at least, with the values in its middle.
  if (const double short_of = 2 * least_y / most_y; short_of > 1)
    least_y /= std::sqrt(short_of), most_y *= std::sqrt(short_of);
  for (const double y : {least_y, most_y})
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", kChartWidth - kRight + 6,
                       at(y, least_y, most_y, kChartHeight - kBelow, kAbove) + 4, html_text(figure.text_of(y)));
  for (const double x : {least_x, most_x})
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\"{}>{}</text>\n", at(x, least_x, most_x, kLeft, kChartWidth - kRight),
                       kChartHeight - 6, x > least_x ? " text-anchor=\"end\"" : "", format_number(x));
  std::string key;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const char* const colour = kColours[i % std::size(kColours)];
    std::string points;
    for (const auto& [x, y] : chart.curves[i].points)
      points += fmt::format("{:.1f},{:.1f} ", at(x, least_x, most_x, kLeft, kChartWidth - kRight),
                            at(y, least_y, most_y, kChartHeight - kBelow, kAbove));
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n", colour, points);
    key += fmt::format("<span style=\"color:{}\">■</span> {} ", colour, html_text(chart.curves[i].name));
  }
  return out + "</svg>\n<p>" + key + "</p>\n";
}

// "1,755 MHz, 690 W, 74 °C, clocks limited by the power limit, 2 outliers"
std::string conditions_of(const Figure& f) {
  std::string text;
  const DeviceReadings& r = f.readings;
  if (r.sm_clock_mhz) append_listed(text, fmt::format("{:.0f} MHz", *r.sm_clock_mhz));
  if (r.power_w) append_listed(text, fmt::format("{:.0f} W", *r.power_w));
  if (r.temperature_c) append_listed(text, fmt::format("{:.0f} °C", *r.temperature_c));
  if (!r.held_back_by.empty()) append_listed(text, "clocks limited by " + r.held_back_by);
  if (const auto share = f.link_share_pct())
    append_listed(text, fmt::format("{} of {}", format_percent(*share, 0), f.link_text()));
  if (!r.pcie_link.empty() && f.node) append_listed(text, r.pcie_link);
  if (f.outliers > 0) append_listed(text, plural(f.outliers, "outlier", "outliers"));
  if (!f.used_by.empty()) append_listed(text, "beside " + f.used_by);
  return text;
}

std::string table_of_devices(const BenchResult& result) {
  if (result.devices.empty()) return "";
  std::string out = "<h2>Devices</h2>\n<table>\n<thead><tr><th>GPU</th><th>name</th><th>UUID</th><th>memory</th></tr>"
                    "</thead>\n<tbody>\n";
  for (const MeasuredDevice& d : result.devices)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>\n", d.index,
                       html_text(d.name), html_text(d.uuid), format_bytes(static_cast<double>(d.memory_bytes)));
  return out + "</tbody>\n</table>\n";
}

std::string table_of_figures(const BenchResult& result) {
  std::string out = "<table>\n<thead><tr><th>benchmark</th><th>figure</th><th>place</th><th>median</th><th>spread</th>"
                    "<th>runs</th><th></th></tr></thead>\n<tbody>\n";
  for (const Figure& f : result.figures)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
                       "<td class=\"number\">{}</td><td>{}</td></tr>\n",
                       html_text(f.benchmark), html_text(f.label), html_text(f.place()), html_text(f.text_of(f.value)),
                       html_text(format_percent(f.spread_pct)), f.runs, html_text(conditions_of(f)));
  return out + "</tbody>\n</table>\n";
}

std::string list_of(const std::string& title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string out = "<h2>" + title + "</h2>\n<ul>\n";
  for (const std::string& item : items) out += "<li>" + html_text(item) + "</li>\n";
  return out + "</ul>\n";
}

}  // namespace

std::string bench_csv(const BenchResult& result) {
  const Table table = table_of(result.figures);
  std::string out;
  for (size_t c = 0; c < table.columns.size(); ++c) append_csv(out += c > 0 ? "," : "", table.columns[c]);
  out += '\n';
  for (const std::vector<Value>& row : table.rows) {
    for (size_t c = 0; c < row.size(); ++c) append_csv(out += c > 0 ? "," : "", plain_text(row[c]));
    out += '\n';
  }
  return out;
}

std::string bench_page(const BenchResult& result) {
  std::vector<std::string> slow = slow_places(result), missing, crossed, over_sizes;
  for (const SlowFigure& s : slow_figures(result)) slow.push_back(s.text());
  for (const CollectiveCurve& c : collective_curves(result.figures)) over_sizes.push_back(c.label + ": " + c.text());
  for (const NotMeasured& n : result.not_measured)
    missing.push_back(fmt::format("{}: {}{}", n.what(), n.why, n.hint.empty() ? "" : " – " + n.hint));
  for (const Crossing& c : crossings(result.figures)) crossed.push_back(c.label + ": " + joined(c.texts(), "; "));
  std::string body = fmt::format("<h1>{}</h1>\n<p>{}, {} cores{}</p>\n", html_text(result.machine.host),
                                 html_text(result.machine.processor), result.machine.cores,
                                 result.interrupted ? " – interrupted: what was measured until then"
                                 : result.simulated ? " – simulated: no device is behind these figures" : "");
  body += list_of("Slower than the others", slow) + list_of("From which size the GPU pays", crossed);
  body += list_of("Collectives over all sizes", over_sizes) + table_of_devices(result);
  const std::vector<Chart> charts = charts_of(result);
  if (!charts.empty()) body += "<h2>Curves</h2>\n";
  for (const Chart& chart : charts) body += drawn(chart);
  body += "<h2>Figures</h2>\n" + table_of_figures(result) + list_of("Notes", result.notes);
  return plain_page(html_text(result.machine.host) + " – profgpu bench", body + list_of("Not measured", missing));
}

std::string bench_text_for(const BenchResult& result, std::string_view path) {
  if (path.ends_with(".csv")) return bench_csv(result);
  return path.ends_with(".html") ? bench_page(result) : bench_json(result);
}

}  // namespace profgpu
