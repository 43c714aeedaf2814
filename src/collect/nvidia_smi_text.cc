#include "collect/nvidia_smi_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "collect/system_files.h"
#include "trace/sample_file_column.h"

namespace profgpu {
namespace {

struct Placeholder {
  std::string_view text, reason;
  bool trouble;
};
constexpr Placeholder kPlaceholders[] = {
    {"", "nvidia-smi left it empty", false},
    {"N/A", "not available on this device", false},
    {"[N/A]", "not available on this device", false},
    {"[Not Supported]", "not supported by this device", false},
    {"[Not Found]", "not available on this device", false},
    {"[Requested functionality has been deprecated]", "no longer reported by this driver", false},
    {"[Function Not Found]", "not known to this driver", false},
    {"[Insufficient Permissions]", "no permission", false},
    {"[GPU requires reset]", "GPU requires reset", true},
    {"[GPU is lost]", "GPU is lost", true},
    {"[Unknown Error]", "unknown error", true},
    {"ERR!", "the driver answered with an error", true},
};

/// "100", "100 %", "76.50 W": nounits is not obeyed for every field. nullopt for anything else.
std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (unit.empty()) return value;
  const bool is_unit = unit.size() <= 6 && unit.front() == ' ' && unit.find_first_of("0123456789.,:") == unit.npos;
  return is_unit ? std::optional(value) : std::nullopt;
}

std::optional<double> whole_in(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(value);
}

}  // namespace

SmiValue smi_value(std::string_view field) {
  const std::string_view text = without_blanks(field);
  for (const Placeholder& p : kPlaceholders)
    if (text == p.text) return {std::nullopt, p.reason, p.trouble};
  if (text.size() > 2 && text.front() == '[' && text.back() == ']')
    return {std::nullopt, text.substr(1, text.size() - 2), false};
  if (const auto number = plain_number(text)) return {number, {}, false};
  if (const auto number = state_number(text)) return {number, {}, false};
  if (text.size() <= 3 && text.starts_with("P"))
    if (const auto number = whole_in(text.substr(1), 10)) return {number, {}, false};
  return {std::nullopt, "nvidia-smi printed something that is no number", false};
}

void split_smi_row(std::string_view row, size_t most, std::vector<std::string_view>& fields) {
  fields.clear();
  while (fields.size() + 1 < most) {
    const size_t comma = row.find(',');
    if (comma == row.npos) break;
    fields.push_back(without_blanks(row.substr(0, comma)));
    row.remove_prefix(comma + 1);
  }
  fields.push_back(without_blanks(row));
}

std::string smi_pci_bus_id(std::string_view text) {
  const std::vector<std::string_view> parts = pieces_of(without_blanks(text), ':');
  if (parts.size() < 2 || parts.size() > 3) return "";
  const std::string_view last = parts.back();
  const size_t dot = last.find('.');
  const auto domain = parts.size() == 3 ? whole_in(parts[0], 16) : 0.0;
  const auto bus = whole_in(parts[parts.size() - 2], 16);
  const auto device = whole_in(last.substr(0, dot), 16);
  const auto function = dot == last.npos ? 0.0 : whole_in(last.substr(dot + 1), 16);
  if (!domain || !bus || !device || !function || *domain > 0xffffffffu || *bus > 255 || *device > 31 || *function > 7)
    return "";
  return fmt::format("{:08x}:{:02x}:{:02x}.{:x}", static_cast<uint32_t>(*domain), static_cast<uint32_t>(*bus),
                     static_cast<uint32_t>(*device), static_cast<uint32_t>(*function));
}

}  // namespace profgpu
