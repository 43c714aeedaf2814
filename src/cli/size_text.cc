#include "cli/size_text.h"

#include <cctype>
#include <cmath>
#include <string>

#include "base/decimal.h"

namespace profgpu {

std::optional<double> size_bytes(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.");
  const auto number = real_number(text.substr(0, end));
  if (!number) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(std::min(end, text.size())))
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "b") return number;
  const size_t power = std::string_view("kmgt").find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = unit.substr(1);
  if (!rest.empty() && rest != "ib" && rest != "b") return std::nullopt;
  return *number * std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

}  // namespace profgpu
