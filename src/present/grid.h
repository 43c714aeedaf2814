// Aligned columns: measured, shrunk to the width at hand and, where that is not enough, split into blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "present/line.h"

namespace profgpu {

struct Cell {
  std::string text;
  Style style = Style::kPlain;
};

struct GridColumn {
  std::string header;
  bool right = false;     ///< aligned to the right, and never shortened
};

class Grid {
 public:
  void add_column(std::string header, bool right = false) { columns_.push_back({sanitised_header(header), right}); }
  void add_row(std::vector<Cell> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// Lines of at most `width` cells (0: as wide as it gets). Left-aligned columns give way first; if that is not
  /// enough, the columns come in several blocks below each other, each beginning with column `key`.
  [[nodiscard]] Lines lines(int width, size_t key = 0) const;

 private:
  static std::string sanitised_header(std::string_view header);
  [[nodiscard]] std::vector<int> natural_widths() const;
  [[nodiscard]] Lines block(const std::vector<size_t>& columns, const std::vector<int>& widths) const;
  [[nodiscard]] Lines blocks(int width, size_t key, const std::vector<int>& natural) const;
  [[nodiscard]] int least(size_t column, int natural) const;
  void share_out(const std::vector<size_t>& columns, const std::vector<int>& natural, int width,
                 std::vector<int>& widths) const;

  std::vector<GridColumn> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace profgpu
