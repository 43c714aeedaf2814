#include <fmt/format.h>

#include "base/utf8.h"
#include "base/version.h"
#include "exporter/metrics_page.h"

namespace profgpu {
namespace {

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fff}table{border-collapse:collapse}"
    "th,td{padding:.25rem .9rem .25rem 0;text-align:right;border-bottom:1px solid #ddd}th:first-child,td:first-child,"
    "th:nth-child(2),td:nth-child(2),td:last-child,th:last-child{text-align:left}.down{color:#b00020}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}.down{color:#ff8a80}"
    "a{color:#8ab4f8}}";

std::string html(std::string_view text) {
  std::string valid(text), out;
  replace_invalid_utf8(valid);
  for (const char c : valid) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string cell(std::optional<double> value, double scale, std::string_view unit) {
  return value ? fmt::format("<td>{:.0f}{}</td>", *value * scale, unit) : "<td>–</td>";
}

std::string row(const ShownDevice& d, int64_t now_ns) {
  const auto value = [&](Metric m) { return d.up ? d.tally.value(m, now_ns) : std::nullopt; };
  std::string jobs;
  for (const std::string& job : d.jobs) jobs += (jobs.empty() ? "" : ", ") + job;
  for (const PodContainer& c : d.pods) jobs += (jobs.empty() ? "" : ", ") + c.name_space + "/" + c.pod;
  const std::string condition = d.up ? "answers" : d.trouble.empty() ? "has not answered yet" : d.trouble;
  constexpr double kGiB = 1.0 / (1 << 30);
  return fmt::format("<tr><td>{}</td><td>{}</td>{}{}{}{}{}<td>{}</td><td{}>{}</td></tr>\n", html(d.info->label()),
                     html(d.info->name), cell(value(Metric::kUtilization), 1, " %"),
                     cell(value(Metric::kMemoryUsed), kGiB, " GiB"), cell(value(Metric::kMemoryTotal), kGiB, " GiB"),
                     cell(value(Metric::kPower), 1, " W"), cell(value(Metric::kTemperature), 1, " °C"), html(jobs),
                     d.up ? "" : " class=down", html(condition));
}

}  // namespace

std::string status_page(const MetricsPageInput& input) {
  std::string rows;
  for (const ShownDevice& d : input.devices) rows += row(d, input.now_ns);
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>profgpu exporter</title><style>{}</style></head><body>\n<h1>profgpu exporter</h1>\n"
      "<p>{}version {} · <a href=/metrics>/metrics</a> · <a href=/health>/health</a> · <a "
      "href=/-/ready>/-/ready</a></p>\n"
      "<table><tr><th>GPU</th><th>model</th><th>busy</th><th>memory</th><th>of</th><th>power</th><th>temperature</th>"
      "<th>jobs, pods</th><th>state</th></tr>\n{}</table>\n</body></html>\n",
      kStyle, input.host.empty() ? "" : html(input.host) + " · ", kVersion, rows);
}

}  // namespace profgpu
