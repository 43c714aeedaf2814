#include "analyse/report/report.h"

namespace profgpu {
namespace {

const Value kNull;

struct UnitName {
  std::string_view suffix;
  Unit unit;
};
constexpr UnitName kUnits[] = {
    {"_ns", Unit::kNanoseconds}, {"_bytes", Unit::kBytes}, {"_pct", Unit::kPercent}, {"_gbps", Unit::kGbps}};

// growth_bytes_per_step is in bytes, step_mean_ns_by_rank in nanoseconds.
std::string_view without_qualifier(std::string_view field) {
  for (const std::string_view word : {"_per_", "_by_"})
    if (const size_t at = field.rfind(word); at != std::string_view::npos) field = field.substr(0, at);
  return field;
}

}  // namespace

Unit unit_of(std::string_view field) {
  field = without_qualifier(field);
  for (const UnitName& u : kUnits)
    if (field.ends_with(u.suffix)) return u.unit;
  return Unit::kNone;
}

Value::Value(Table v) : v_(std::make_shared<const Table>(std::move(v))) {}
Value::Value(Record v) : v_(std::make_shared<const Record>(std::move(v))) {}
Value::Value(List v) : v_(std::make_shared<const List>(std::move(v))) {}

double Value::number(double otherwise) const {
  if (const int64_t* i = integer()) return static_cast<double>(*i);
  if (const double* d = real()) return *d;
  return otherwise;
}

int Table::column(std::string_view name) const {
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] == name) return static_cast<int>(i);
  return -1;
}

const Value& Table::at(size_t row, std::string_view column_name) const {
  const int c = column(column_name);
  if (c < 0 || row >= rows.size() || static_cast<size_t>(c) >= rows[row].size()) return kNull;
  return rows[row][static_cast<size_t>(c)];
}

const Value& Record::at(std::string_view name) const {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  return kNull;
}

std::string_view Locator::at_name() const {
  switch (at) {
    case Locator::At::kSteps: return "steps";
    case Locator::At::kLongestStep: return "longest_step";
    case Locator::At::kMemoryPeak: return "memory_peak";
    case Locator::At::kLongestGap: return "longest_gap";
    case Locator::At::kLongestKernel: return "longest_kernel";
    case Locator::At::kLongestPhase: return "longest_phase";
    case Locator::At::kLongestWait: return "longest_wait";
  }
  return "steps";
}

std::string_view verdict_kind_name(VerdictKind kind) {
  constexpr std::string_view kNames[] = {"bottleneck", "healthy", "hang", "failure", "capture", "inconclusive"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view verdict_name(Verdict v) {
  switch (v) {
    case Verdict::kPass: return "pass";
    case Verdict::kFail: return "fail";
    case Verdict::kUnknown: return "unknown";
  }
  return "unknown";
}

}  // namespace profgpu
