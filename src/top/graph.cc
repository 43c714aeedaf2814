#include "top/graph.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace profgpu {

std::vector<std::string> graph(const Curve& curve, double most, int rows, int cells) {
  static constexpr std::string_view kHeights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::string> out(static_cast<size_t>(std::max(rows, 0)));
  for (int x = std::max(cells, 0) - 1; x >= 0; --x) {
    const auto back = static_cast<size_t>(x);
    const float value = back < curve.size() ? curve.back(back) : std::nanf("");
    const int eighths =
        std::isnan(value) ? 0 : std::clamp(static_cast<int>(std::lround(most > 0 ? value / most * rows * 8 : 0)), 1, rows * 8);
    for (int r = 0; r < rows; ++r) out[static_cast<size_t>(rows - 1 - r)] += kHeights[std::clamp(eighths - r * 8, 0, 8)];
  }
  return out;
}

double largest(const Curve& curve, int cells) {
  double most = 0;
  for (size_t i = 0; i < curve.size() && i < static_cast<size_t>(std::max(cells, 0)); ++i)
    if (const float v = curve.back(i); !std::isnan(v)) most = std::max<double>(most, v);
  return most;
}

}  // namespace profgpu
