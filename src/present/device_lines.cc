#include "present/device_lines.h"

#include <algorithm>

#include "present/device_fields.h"
#include "present/grid.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr int kReadable = 120;  // what is set at the right stays near what it belongs to
constexpr size_t kMostBlocks = 4;
constexpr double kMiB = 1 << 20;

// Right of the first line if there is room, else above it.
void add_about(Lines& lines, const std::string& about, int width) {
  const int cells = display_width(sanitised(about)), end = std::min(width > 0 ? width : kReadable, kReadable);
  if (!lines.empty() && lines.front().width() + 3 + cells <= end) {
    lines.front().to_column(end - cells).add(about, Style::kStrong);
    return;
  }
  lines.insert(lines.begin(), Line(truncated(sanitised(about), width > 0 ? width : kReadable), Style::kStrong));
}

Cell cell(const std::optional<double>& x, std::string (*show)(double)) {
  return {x ? show(*x) : std::string(kUnknownText), x ? Style::kPlain : Style::kFaint};
}

Lines device_table(const std::vector<Record>& devices, int width) {
  Grid grid;
  grid.add_column("GPU"), grid.add_column("");
  for (const char* title : {"busy", "idle", "memory peak", "power", "energy", "hottest", "held back"})
    grid.add_column(title, true);
  const auto pct = [](double x) { return format_percent(x, 0); };
  const auto pct1 = [](double x) { return format_percent(x); };
  const auto celsius = [](double x) { return whole_number_text(x) + " °C"; };
  const auto mib = [](double x) { return format_bytes(x * kMiB); };
  for (const Record& r : devices) {
    const Table* table = r.at("throttle").table();
    const auto held = !table ? std::nullopt : std::optional(table->rows.empty() ? 0.0 : table->at(0, "pct").number());
    grid.add_row({{text_in(r, "label"), Style::kStrong},
                  {device_name(r)},
                  cell(number_in(r, "util_gpu_mean"), pct1),
                  cell(number_in(r, "idle_pct"), pct),
                  cell(number_in(r, "mem_used_max_mb"), mib),
                  cell(number_in(r, "power_mean_w"), format_watts),
                  cell(number_in(r, "energy_j"), format_energy),
                  cell(number_in(r, "temp_max_c"), celsius),
                  cell(held, pct)});
  }
  Lines lines = grid.lines(width);
  for (const Record& r : devices)
    if (const std::string notes = text_in(r, "notes"); !notes.empty())
      append(lines, wrapped_after(Line("! ", Style::kWarn).add("GPU " + text_in(r, "label") + "  "), notes, width));
  return lines;
}

}  // namespace

Lines device_lines(const std::vector<Record>& devices, const std::string& about, int width) {
  Lines lines;
  if (devices.size() > kMostBlocks) {
    lines = device_table(devices, width);
    add_about(lines, about, width);
    return lines;
  }
  for (const Record& r : devices) {
    Lines block = device_block(r, width);
    if (lines.empty()) add_about(block, about, width);
    append(lines, std::move(block));
  }
  if (lines.empty()) add_about(lines, about, width);
  return lines;
}

}  // namespace profgpu
