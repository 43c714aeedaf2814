#include "collect/nvidia_smi_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <ctime>

#include "collect/system_files.h"

namespace profgpu {
namespace {

struct Word {
  std::string_view text;
  double value;
};
// The last five: gpu_recovery_action, in the order of nvmlDeviceGpuRecoveryAction_t.
constexpr Word kWords[] = {
    {"Active", 1},     {"Not Active", 0}, {"Yes", 1},   {"No", 0},     {"Enabled", 1},   {"Disabled", 0},
    {"None", 0},       {"Reset", 1},      {"Reboot", 2}, {"Drain P2P", 3}, {"Drain and Reset", 4},
};

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

std::optional<double> state_number(std::string_view text) {
  for (const Word& w : kWords)
    if (text == w.text) return w.value;
  if (text.starts_with("0x")) return whole_in(text.substr(2), 16);
  if (text.size() <= 3 && text.starts_with("P")) return whole_in(text.substr(1), 10);
  return std::nullopt;
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

std::optional<int64_t> smi_time_ns(std::string_view text) {
  // YYYY/MM/DD HH:MM:SS.mmm
  constexpr std::string_view kShape = "0000/00/00 00:00:00.000";
  if (text.size() != kShape.size()) return std::nullopt;
  int parts[7] = {}, part = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !digit : text[i] != kShape[i]) return std::nullopt;
    if (digit) parts[part] = parts[part] * 10 + (text[i] - '0');
    else ++part;
  }
  std::tm local{};
  local.tm_year = parts[0] - 1900, local.tm_mon = parts[1] - 1, local.tm_mday = parts[2];
  local.tm_hour = parts[3], local.tm_min = parts[4], local.tm_sec = parts[5], local.tm_isdst = -1;
  const std::time_t seconds = std::mktime(&local);
  if (seconds == -1) return std::nullopt;
  return int64_t{seconds} * 1'000'000'000 + int64_t{parts[6]} * 1'000'000;
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
