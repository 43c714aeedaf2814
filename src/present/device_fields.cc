#include "present/device_fields.h"

#include <cmath>
#include <tuple>

#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

// The row of a table whose first column is `key`; -1: none.
int row_of(const Table* table, std::string_view key) {
  for (size_t i = 0; table && i < table->rows.size(); ++i)
    if (const std::string* s = table->rows[i].front().text(); s && *s == key) return static_cast<int>(i);
  return -1;
}

std::optional<double> number_of(const Value& v) {
  return v.integer() || v.real() ? std::optional(v.number()) : std::nullopt;
}

std::string cell(const std::optional<double>& x, std::string (*show)(double)) {
  return x ? show(*x) : std::string(kUnknownText);
}

}  // namespace

std::optional<double> number_in(const Record& r, std::string_view field) { return number_of(r.at(field)); }

std::string text_in(const Record& r, std::string_view field) {
  const std::string* s = r.at(field).text();
  return s ? *s : "";
}

std::optional<double> number_in(const Record& r, std::string_view record, std::string_view field) {
  const Record* inner = r.at(record).record();
  return inner ? number_in(*inner, field) : std::nullopt;
}

std::optional<double> metric_in(const Record& r, std::string_view metric, std::string_view column) {
  const Table* table = r.at("metrics").table();
  const int row = row_of(table, metric);
  return row < 0 ? std::nullopt : number_of(table->at(static_cast<size_t>(row), column));
}

std::string why_absent(const Record& r, std::string_view metric) {
  const Table* table = r.at("absent").table();
  const int row = row_of(table, metric);
  const std::string* why = row < 0 ? nullptr : table->at(static_cast<size_t>(row), "reason").text();
  return why ? *why : "";
}

std::string whole_number_text(double x) { return format_count(std::llround(x)); }
std::string format_watts(double watts) { return (watts < 10 ? format_number(watts) : whole_number_text(watts)) + " W"; }

std::string format_energy(double joules) {
  if (std::abs(joules) >= 999.5e3) return format_number(joules / 1e6) + " MJ";
  return std::abs(joules) >= 999.5 ? format_number(joules / 1e3) + " kJ" : format_number(joules) + " J";
}

std::string device_name(const Record& r) {
  std::string out = text_in(r, "name");
  const auto join = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  if (const std::string mig = text_in(r, "mig_profile"); !mig.empty()) join("MIG " + mig);
  if (const std::string driver = text_in(r, "driver_version"); !driver.empty()) join("driver " + driver);
  return out;
}

std::string errors_text(const Record& r) {
  std::string out;
  for (const auto& [name, one, many] : {std::tuple{"xid_errors", "driver error (Xid)", "driver errors (Xid)"},
                                        {"ecc_uncorrected_errors", "memory error not corrected", "memory errors not corrected"},
                                        {"ecc_corrected_errors", "memory error corrected", "memory errors corrected"},
                                        {"nvlink_errors", "NVLink error", "NVLink errors"},
                                        {"pcie_replays", "PCIe replay", "PCIe replays"}}) {
    const auto n = number_in(r, "counters", name);
    if (!n || *n <= 0) continue;
    out += (out.empty() ? "" : ", ") + plural(std::llround(*n), one, many);
    if (const auto code = metric_in(r, "xid_last", "last"); code && std::string_view(name) == "xid_errors")
      out += (*n == 1 ? ": " : ", the last ") + whole_number_text(*code);
  }
  return out;
}

const std::vector<std::string>& device_columns() {
  static const std::vector<std::string> kColumns = {"GPU",   "",       "busy",    "idle",     "memory peak",
                                                    "power", "energy", "hottest", "held back"};
  return kColumns;
}

std::vector<std::string> device_cells(const Record& r) {
  const auto pct = [](double x) { return format_percent(x, 0); };
  const Table* throttle = r.at("throttle").table();
  const auto held =
      !throttle ? std::nullopt : std::optional(throttle->rows.empty() ? 0.0 : throttle->at(0, "pct").number());
  return {text_in(r, "label"),
          device_name(r),
          cell(number_in(r, "util_gpu_mean"), [](double x) { return format_percent(x); }),
          cell(number_in(r, "idle_pct"), pct),
          cell(number_in(r, "mem_used_max_mb"), [](double x) { return format_bytes(x * (1 << 20)); }),
          cell(number_in(r, "power_mean_w"), format_watts),
          cell(number_in(r, "energy_j"), format_energy),
          cell(number_in(r, "temp_max_c"), [](double x) { return whole_number_text(x) + " °C"; }),
          cell(held, pct)};
}

}  // namespace profgpu
