#include "base/duration_text.h"

#include <utility>

#include "base/decimal.h"

namespace profgpu {

std::optional<int64_t> duration_ns(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1},      {"us", 1e3},  {"µs", 1e3},
                                                                   {"ms", 1e6},    {"min", 6e10}, {"m", 6e10},
                                                                   {"h", 3.6e12},  {"s", 1e9}};
  double scale = 1e9;
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    scale = ns;
    break;
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto number = real_number(text);
  if (!number || *number < 0 || *number * scale > 9e18) return std::nullopt;
  return static_cast<int64_t>(*number * scale + 0.5);
}

}  // namespace profgpu
