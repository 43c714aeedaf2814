// One device in full.
#include "present/device_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "present/device_fields.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr int kLabel = 13;      // "  processes  "
constexpr int kReadableBlock = 120;  // what is set at the right stays near what it belongs to
constexpr size_t kMostProcesses = 6, kMostReasons = 3;
constexpr double kShown_pct = 0.5;  // shares below that are nothing
constexpr double kMiB = 1 << 20, kGiB = 1 << 30, kSecond = 1e9;

bool flag(const Record& r, std::string_view field) {
  const bool* b = r.at(field).boolean();
  return b && *b;
}

// A line of the block: its label, then text that wraps below itself. Nothing for an empty text.
void add(Lines& lines, std::string_view label, const std::string& said, int width, Style style = Style::kPlain) {
  if (said.empty()) return;
  Line first = Line().skip(2).add(label, Style::kFaint).to_column(kLabel);
  append(lines, wrapped_after(std::move(first), said, width, style));
}

void join(std::string& to, const std::string& part, std::string_view separator = "; ") {
  if (part.empty()) return;
  if (!to.empty()) to += separator;
  to += part;
}

std::string busy_text(const Record& r) {
  const auto mean = number_in(r, "util_gpu_mean");
  if (!mean) {
    for (const auto& [name, words] :
         {std::pair{"graphics_active_pct", "by the chip's counters"}, {"sm_active_pct", "of the multiprocessors"}})
      if (const auto active = metric_in(r, name, "mean")) return fmt::format("{} {}", format_percent(*active), words);
    const std::string why = why_absent(r, "utilization_pct");
    return "not known" + (why.empty() ? "" : ": " + why);
  }
  std::string out = format_percent(*mean);
  const auto p5 = number_in(r, "util_gpu_p5"), p50 = number_in(r, "util_gpu_p50"), p95 = number_in(r, "util_gpu_p95");
  if (p5 && p50 && p95 && number_in(r, "util_gpu_max").value_or(0) > 0)
    out += fmt::format("   p5 {}   p50 {}   p95 {}", whole_number_text(*p5), whole_number_text(*p50),
                       whole_number_text(*p95));
  if (const auto idle = number_in(r, "idle_pct"); idle && *idle >= kShown_pct)
    out += fmt::format("   idle (<5 %) {} of the time", format_percent(*idle, 0));
  return out;
}

void add_course(Lines& lines, const Record& r, int width) {
  const std::string course = text_in(r, "sparkline");
  const auto column_ns = number_in(r, "trace_column_ns");
  if (course.find_first_not_of(' ') == std::string::npos || !column_ns || *column_ns <= 0) return;
  if (number_in(r, "util_gpu_max").value_or(0) <= 0) return;
  Line line = Line().to_column(kLabel).add(course, Style::kBusy);
  const std::string scale = "   one column = " + format_duration(*column_ns, 2);
  if (width <= 0 || line.width() + display_width(scale) <= width) line.add(scale, Style::kFaint);
  lines.push_back(std::move(line));
}

// What the chip's own counters say of the work.
std::string activity_text(const Record& r) {
  std::string out;
  bool any = false;
  for (const auto& [name, words] : {std::pair{"sm_active_pct", "multiprocessors"},
                                    {"sm_occupancy_pct", "occupancy"},
                                    {"tensor_active_pct", "tensor cores"},
                                    {"dram_active_pct", "memory"}})
    if (const auto mean = metric_in(r, name, "mean")) {
      join(out, fmt::format("{} {}", words, format_percent(*mean, 0)), ", ");
      any = any || *mean > 0;
    }
  return any ? out : "";
}

std::string memory_text(const Record& r) {
  const auto peak = number_in(r, "mem_used_max_mb"), total = number_in(r, "mem_total_mb"),
             mean = number_in(r, "mem_used_mean_mb");
  if (!peak) return {};
  std::string out = format_bytes(*peak * kMiB);
  if (total && *total > 0) {
    out = *total * kMiB >= kGiB ? fmt::format("{:.1f} of {:.1f} GiB", *peak / 1024, *total / 1024)
                                : out + " of " + format_bytes(*total * kMiB);
    out += fmt::format(" at most ({})", format_percent(100 * *peak / *total, 0));
  } else {
    out += " at most";
  }
  if (mean) out += ", mean " + format_bytes(*mean * kMiB);
  if (const auto growth = number_in(r, "memory_growth_bytes_per_s");
      growth && total && *growth * 3600 > *total * kMiB / 100)
    out += fmt::format("; grows by {} a minute", format_bytes(*growth * 60));
  return out;
}

std::string power_text(const Record& r) {
  const auto mean = number_in(r, "power_mean_w"), most = number_in(r, "power_max_w"), energy = number_in(r, "energy_j");
  std::string out;
  if (mean) out = format_watts(*mean) + " mean";
  if (mean && most) out += ", " + format_watts(*most) + " at most";
  if (const auto limit = number_in(r, "constants", "power_limit_w"); limit && mean)
    out += " of " + format_watts(*limit);
  else if (const auto now = metric_in(r, "power_limit_w", "last"); now && mean)
    out += " of " + format_watts(*now);
  if (!energy) return out;
  const std::string method = text_in(r, "energy_method");
  std::string said =
      format_energy(*energy) + (method == "counter" ? " by the board's counter" : " from the power over time");
  if (const auto busy = number_in(r, "energy_per_busy_second_j");
      busy && number_in(r, "busy_time_est_s").value_or(0) >= 1)
    said += fmt::format(" ({} for each busy second)", format_energy(*busy));
  join(out, said);
  const std::string note = text_in(r, "energy_note");
  return note.empty() ? out : out + " (" + note + ")";
}

std::string temperature_text(const Record& r) {
  const auto mean = number_in(r, "temp_mean_c"), most = number_in(r, "temp_max_c");
  if (!mean || !most) return {};
  std::string out = fmt::format("{} °C mean, {} at most", whole_number_text(*mean), whole_number_text(*most));
  if (const auto limit = number_in(r, "constants", "temperature_slowdown_c"))
    out += fmt::format(" (slows down at {})", whole_number_text(*limit));
  if (const auto memory = metric_in(r, "memory_temperature_c", "max"))
    out += fmt::format("; memory {} at most", whole_number_text(*memory));
  return out;
}

std::string throttle_text(const Record& r) {
  const Table* table = r.at("throttle").table();
  std::string out;
  for (size_t i = 0, shown = 0; table && i < table->rows.size() && shown < kMostReasons; ++i) {
    const double pct = table->at(i, "pct").number();
    const std::string* words = table->at(i, "words").text();
    if (pct < kShown_pct || !words) continue;
    const std::string share = format_percent(pct, 0);
    join(out,
         shown == 0 ? fmt::format("held back {} of the time by {}", share, *words)
                    : fmt::format("{} by {}", share, *words),
         ", ");
    ++shown;
  }
  return out;
}

std::string clocks_text(const Record& r) {
  std::string out;
  if (const auto mean = number_in(r, "sm_clock_mean_mhz")) {
    out = fmt::format("SM {} MHz mean", whole_number_text(*mean));
    if (const auto most = number_in(r, "constants", "sm_clock_max_mhz")) out += " of " + whole_number_text(*most);
  }
  join(out, throttle_text(r));
  return out;
}

std::string links_text(const Record& r) {
  std::string out;
  const double seconds = number_in(r, "watched_ns").value_or(0) / kSecond;
  for (const auto& [name, in, from] : {std::tuple{"PCIe", "pcie_rx_bytes", "pcie_tx_bytes"},
                                       {"NVLink", "nvlink_rx_bytes", "nvlink_tx_bytes"},
                                       {"XGMI", "xgmi_rx_bytes", "xgmi_tx_bytes"}}) {
    const auto rx = number_in(r, in), tx = number_in(r, from);
    if (!rx || !tx || *rx + *tx < kMiB) continue;
    join(out, fmt::format("{} {} in, {} out", name, format_bytes(*rx), format_bytes(*tx)));
    if (seconds >= 1) out += fmt::format(" ({} a second)", format_bytes((*rx + *tx) / seconds));
  }
  return out;
}

void add_processes(Lines& lines, const Record& r, int width) {
  const Table* table = r.at("processes").table();
  if (!table) return;
  const size_t count = table->rows.size(), shown = count > kMostProcesses ? kMostProcesses - 1 : count;
  int pid_width = 0, name_width = 0;
  const auto pid_of = [&](size_t row) {
    const int64_t* pid = table->at(row, "pid").integer();
    return pid ? std::to_string(*pid) : "";
  };
  const auto name_of = [&](size_t row) {
    const std::string* name = table->at(row, "name").text();
    return sanitised(name ? *name : "");
  };
  for (size_t i = 0; i < shown; ++i) {
    pid_width = std::max(pid_width, display_width(pid_of(i)));
    name_width = std::max(name_width, display_width(name_of(i)));
  }
  const int room = (width > 0 ? std::min(width, kReadableBlock) : kReadableBlock) - kLabel - pid_width - 24;
  name_width = std::clamp(name_width, 0, std::max(room, 10));
  for (size_t i = 0; i < shown; ++i) {
    Line line = Line().skip(2).add(i == 0 ? "processes" : "", Style::kFaint).to_column(kLabel);
    line.add(padded_left(pid_of(i), pid_width)).skip(1);
    line.add(padded_right(truncated(name_of(i), name_width), name_width));
    const Value& peak = table->at(i, "memory_peak_bytes");
    if (!peak.is_null()) line.skip(3).add(format_bytes(peak.number()) + " at most");
    lines.push_back(std::move(line));
  }
  if (count > shown)
    lines.push_back(Line().to_column(kLabel).add(fmt::format("… and {} more", count - shown), Style::kFaint));
}

Line title_of(const Record& r) {
  return Line("GPU " + text_in(r, "label"), Style::kStrong).skip(2).add(device_name(r));
}

bool nothing_came(const Record& r) { return number_in(r, "n_samples").value_or(0) == 0; }

}  // namespace

Lines device_block(const Record& r, int width) {
  Lines lines{title_of(r)};
  if (nothing_came(r)) {
    add(lines, "", "no sample came", width, Style::kWarn);
  } else if (flag(r, "used")) {
    add(lines, "busy", busy_text(r), width);
    add_course(lines, r, width);
    add(lines, "activity", activity_text(r), width);
    add(lines, "memory", memory_text(r), width);
    add(lines, "power", power_text(r), width);
    add(lines, "heat", temperature_text(r), width);
    add(lines, "clocks", clocks_text(r), width);
    add(lines, "links", links_text(r), width);
    add_processes(lines, r, width);
  } else {
    std::string said = number_in(r, "util_gpu_mean") ? "not used" : "busy: " + busy_text(r);
    if (number_in(r, "mem_util_pct").value_or(0) >= 1) join(said, "memory " + memory_text(r));
    join(said, power_text(r));
    add(lines, "", said, width);
  }
  add(lines, "errors", errors_text(r), width, Style::kBad);
  if (const std::string notes = text_in(r, "notes"); !notes.empty()) add(lines, "note", notes, width, Style::kWarn);
  return lines;
}

}  // namespace profgpu
