#include "top/graph.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace profgpu {

std::vector<std::string> graph(const std::vector<float>& columns, double most, int rows) {
  static constexpr std::string_view kHeights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::string> out(static_cast<size_t>(std::max(rows, 0)));
  for (const float value : columns) {
    const int eighths =
        std::isnan(value) ? 0 : std::clamp(static_cast<int>(std::lround(most > 0 ? value / most * rows * 8 : 0)), 1, rows * 8);
    for (int r = 0; r < rows; ++r) out[static_cast<size_t>(rows - 1 - r)] += kHeights[std::clamp(eighths - r * 8, 0, 8)];
  }
  return out;
}

double largest(const std::vector<float>& columns) {
  double most = 0;
  for (const float v : columns)
    if (!std::isnan(v)) most = std::max<double>(most, v);
  return most;
}

}  // namespace profgpu
