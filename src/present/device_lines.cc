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

// Right of the first line if there is room, else above it.
void add_about(Lines& lines, const std::string& about, int width) {
  const int cells = display_width(sanitised(about)), end = std::min(width > 0 ? width : kReadable, kReadable);
  if (!lines.empty() && lines.front().width() + 3 + cells <= end) {
    lines.front().to_column(end - cells).add(about, Style::kStrong);
    return;
  }
  lines.insert(lines.begin(), Line(truncated(sanitised(about), width > 0 ? width : kReadable), Style::kStrong));
}

Lines device_table(const std::vector<Record>& devices, int width) {
  Grid grid;
  constexpr size_t kTexts = 2;
  for (size_t c = 0; c < device_columns().size(); ++c) grid.add_column(device_columns()[c], c >= kTexts);
  for (const Record& r : devices) {
    std::vector<Cell> cells;
    for (const std::string& text : device_cells(r))
      cells.push_back({text, cells.empty() ? Style::kStrong : text == kUnknownText ? Style::kFaint : Style::kPlain});
    grid.add_row(std::move(cells));
  }
  Lines lines = grid.lines(width);
  for (const Record& r : devices)
    for (const auto& [said, style] : {std::pair{errors_text(r), Style::kBad}, {text_in(r, "notes"), Style::kPlain}})
      if (!said.empty())
        append(lines, wrapped_after(Line("! ", Style::kWarn).add("GPU " + text_in(r, "label") + "  "), said, width, style));
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
