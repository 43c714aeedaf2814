#include "present/grid.h"

#include <algorithm>
#include <numeric>

#include "report/text.h"

namespace profgpu {
namespace {

constexpr int kColumnGap = 2;
constexpr int kLeastText = 24;  // a name cut shorter says too little

int total(const std::vector<size_t>& columns, const std::vector<int>& widths) {
  int sum = columns.empty() ? 0 : kColumnGap * (static_cast<int>(columns.size()) - 1);
  for (const size_t c : columns) sum += widths[c];
  return sum;
}

}  // namespace

std::string Grid::sanitised_header(std::string_view header) { return sanitised(header); }

void Grid::add_row(std::vector<Cell> cells) {
  cells.resize(columns_.size());
  for (Cell& cell : cells) cell.text = sanitised(cell.text);
  rows_.push_back(std::move(cells));
}

std::vector<int> Grid::natural_widths() const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].header);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c].text));
    widths.push_back(width);
  }
  return widths;
}

int Grid::least(size_t column, int natural) const {
  return columns_[column].right ? natural : std::min(natural, kLeastText);
}

// Widths of text columns: each what it needs, if the line has it, else the widest give way first.
void Grid::share_out(const std::vector<size_t>& columns, const std::vector<int>& natural, int width,
                     std::vector<int>& widths) const {
  for (const size_t c : columns) widths[c] = natural[c];
  for (int excess = total(columns, widths) - width; excess > 0;) {
    size_t widest = columns_.size();
    for (const size_t c : columns)
      if (widths[c] > least(c, natural[c]) && (widest == columns_.size() || widths[c] > widths[widest])) widest = c;
    if (widest == columns_.size()) return;
    // Down to the next widest at once would be faster and no clearer; names have at most some thousand cells.
    const int step = std::clamp(excess, 1, std::max(1, (widths[widest] - kLeastText) / 8));
    widths[widest] -= step;
    excess -= step;
  }
}

Lines Grid::block(const std::vector<size_t>& columns, const std::vector<int>& widths) const {
  Lines out;
  const auto add_cells = [&](auto cell_of) {
    Line line;
    for (const size_t c : columns) {
      const Cell cell = cell_of(c);
      const std::string text = truncated(cell.text, widths[c]);
      if (c != columns.front()) line.skip(kColumnGap);
      line.add(columns_[c].right ? padded_left(text, widths[c]) : padded_right(text, widths[c]), cell.style);
    }
    out.push_back(std::move(line));
  };
  add_cells([&](size_t c) { return Cell{columns_[c].header, c == columns.front() ? Style::kStrong : Style::kFaint}; });
  for (const auto& row : rows_) add_cells([&](size_t c) { return row[c]; });
  return out;
}

Lines Grid::blocks(int width, size_t key, const std::vector<int>& natural) const {
  std::vector<int> widths(natural.size());
  for (size_t c = 0; c < natural.size(); ++c) widths[c] = least(c, natural[c]);
  // Long texts last: between short columns they would be cut, alone they have the line.
  std::vector<size_t> order(natural.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](size_t c) { return widths[c] == natural[c]; });
  Lines out;
  std::vector<size_t> columns{key};
  const auto flush = [&] {
    std::vector<int> shared = widths;
    share_out(columns, natural, width, shared);
    append(out, {Line()});
    append(out, block(columns, shared));
    columns = {key};
  };
  for (const size_t c : order) {
    if (c == key) continue;
    columns.push_back(c);
    if (total(columns, widths) <= width || columns.size() == 2) continue;
    columns.pop_back();
    flush();
    columns.push_back(c);
  }
  flush();
  return out;
}

Lines Grid::lines(int width, size_t key) const {
  if (columns_.empty()) return {};
  const std::vector<int> natural = natural_widths();
  std::vector<size_t> columns(columns_.size());
  std::iota(columns.begin(), columns.end(), size_t{0});
  if (width <= 0) return block(columns, natural);
  std::vector<int> widths = natural;
  share_out(columns, natural, width, widths);
  return total(columns, widths) <= width ? block(columns, widths) : blocks(width, key, natural);
}

}  // namespace profgpu
