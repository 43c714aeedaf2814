#include "present/device_fields.h"

#include <cmath>

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

}  // namespace profgpu
