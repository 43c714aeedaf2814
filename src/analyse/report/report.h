// Parts of reports: values, tables and records of documents, findings, checks, issues of inputs.
//
// The unit of a document's column or field follows from its name (`_ns`, `_bytes`, `_pct`, `_gbps`), see unit_of().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "analyse/report/paste.h"
#include "base/severity.h"

namespace profgpu {

enum class Unit : uint8_t { kNone, kNanoseconds, kBytes, kPercent, kGbps };

/// wall_ns is in nanoseconds, peak_allocated_bytes in bytes, span_pct in percent (0..100).
Unit unit_of(std::string_view field);

/// For texts that may be unknown.
inline std::optional<std::string_view> unless_empty(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

class Value;
struct Table;
struct Record;
using List = std::vector<Value>;

/// Null (unknown), a scalar, or something nested. Cheap to copy: nested values are shared.
class Value {
 public:
  Value() = default;
  Value(bool v) : v_(v) {}
  Value(int v) : v_(int64_t{v}) {}
  Value(int64_t v) : v_(v) {}
  Value(uint32_t v) : v_(int64_t{v}) {}
  Value(size_t v) : v_(static_cast<int64_t>(v)) {}
  Value(double v) : v_(v) {}
  Value(const char* v) : v_(std::string(v)) {}
  Value(std::nullptr_t) = delete;   // Value() is null
  Value(std::string_view v) : v_(std::string(v)) {}
  Value(std::string v) : v_(std::move(v)) {}
  Value(Table v);
  Value(Record v);
  Value(List v);
  template <class T>
  Value(const std::optional<T>& v) {
    if (v) *this = Value(*v);
  }

  [[nodiscard]] bool is_null() const { return v_.index() == 0; }
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&v_); }
  [[nodiscard]] const int64_t* integer() const { return std::get_if<int64_t>(&v_); }
  [[nodiscard]] const double* real() const { return std::get_if<double>(&v_); }
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&v_); }
  [[nodiscard]] const Table* table() const { return nested<Table>(); }
  [[nodiscard]] const Record* record() const { return nested<Record>(); }
  [[nodiscard]] const List* list() const { return nested<List>(); }
  /// Any number as a double; `otherwise` if it is not a number.
  [[nodiscard]] double number(double otherwise = 0) const;

 private:
  template <class T>
  const T* nested() const {
    const auto* p = std::get_if<std::shared_ptr<const T>>(&v_);
    return p ? p->get() : nullptr;
  }
  std::variant<std::monostate, bool, int64_t, double, std::string, std::shared_ptr<const Table>,
               std::shared_ptr<const Record>, std::shared_ptr<const List>>
      v_;
};

/// Rows of equal shape. JSON writes an array of objects.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;

  /// Index of a column, or -1.
  [[nodiscard]] int column(std::string_view name) const;
  /// Null: no such column.
  [[nodiscard]] const Value& at(size_t row, std::string_view column_name) const;
};

/// Named fields in order. JSON writes an object.
struct Record {
  std::vector<std::pair<std::string, Value>> fields;

  Record& add(std::string name, Value value) {
    fields.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  /// Null: no such field.
  [[nodiscard]] const Value& at(std::string_view name) const;
};

/// Something wrong or missing in an input.
struct Issue {
  std::string kind;
  int64_t count = 0;
  Severity severity = Severity::kWarning;
  std::string text;  ///< one sentence; a second line may give its consequences

  void fields(auto&& v) const {
    v("kind", kind), v("count", count), v("severity", severity_name(severity)), v("text", text);
  }
};

struct InputFile {
  std::string path;
  std::string format;  ///< short name as in `profgpu formats`
  std::string summary; ///< "PyTorch trace"
  int64_t file_bytes = 0;
  int64_t events = 0;
  std::optional<int> rank;
  std::vector<Issue> issues;

  void fields(auto&& v) const {
    v("path", path), v("format", format), v("file_bytes", file_bytes), v("events", events), v("rank", rank);
    v("issues", issues);
  }
};

/// Where the timeline shows something. What is not known is for the reader to choose, the longest first.
struct Locator {
  enum class At : uint8_t {
    kSteps, kLongestStep, kMemoryPeak,   ///< the measured steps, or one of them
    kLongestGap,                         ///< of idle cause `of`
    kLongestKernel,                      ///< of kind `of`, or with it in its name
    kLongestPhase,                       ///< of phase `of`
    kLongestWait,                        ///< in a collective, on a rank that is not among the finding's
  } at = At::kSteps;
  std::string of;
  std::optional<int> rank = {};
  std::optional<int64_t> device = {}, step = {};            ///< step: as Step::index
  std::optional<int64_t> start_ns = {}, duration_ns = {};   ///< exactly this stretch, on the rank's own clock

  [[nodiscard]] std::string_view at_name() const;
  void fields(auto&& v) const {
    v("at", at_name()), v("of", unless_empty(of)), v("rank", rank), v("device", device), v("step", step);
    v("start_ns", start_ns), v("duration_ns", duration_ns);
  }
};

/// Where the program spends time: a function, or without stacks a range of the framework.
struct Place {
  std::string name;              ///< of the function or range
  std::string file;              ///< of a Python function; else empty
  std::optional<int64_t> line;   ///< where it begins
  std::string module;            ///< the innermost nn.Module around it; empty: none or unknown
  int64_t ns = 0, count = 0;     ///< over the measured steps
  bool is_range = false;         ///< that the program or a library marks, such as record_function's; not documented

  bool operator==(const Place&) const = default;
  void fields(auto&& v) const {
    v("name", name), v("file", unless_empty(file)), v("line", line), v("module", unless_empty(module)), v("ns", ns);
    v("count", count);
  }
};

/// What a change saves of a rank's own time before a point of its lane (analyse/job/lane.h).
struct LaneSaving {
  uint32_t point = 0;
  int64_t ns = 0;
};

/// What costs time and what to change.
struct Finding {
  std::string rule;
  Severity severity = Severity::kInfo;
  std::vector<int> ranks;
  std::optional<double> value;      ///< measured, in `unit`
  std::optional<double> threshold;  ///< in `unit`
  std::string unit;                 ///< "%", "ratio", "count", ...
  std::string what;                 ///< one clause: the observation
  std::string why;                  ///< one or two sentences: how it costs time here
  std::vector<std::string> fix;     ///< changes to make, best first, with the setting or call
  std::optional<int64_t> cost_ns;   ///< wall time that the measured steps would save; none: not estimated
  std::optional<double> cost_pct;   ///< of the wall time of those steps
  std::vector<std::string> evidence;
  Locator seen;
  bool names_ranks = false;         ///< `what` begins with the ranks
  std::vector<Place> where = {};    ///< in the program; most expensive first
  std::string verdict = {};         ///< the report's first sentence; empty: the rule's own
  bool own_fixes = false;           ///< frameworks' settings would not help
  bool cost_is_most = false;        ///< recording made what it is about longer: without that it costs less
  int64_t steps = 0;                ///< measured steps of the rank that the figures are of; 0: of none
  std::vector<LaneSaving> in_lane = {};   ///< for the job's replay, in order; empty: no cost, or known there

  void fields(auto&& v) const {
    v("rule", rule), v("severity", severity_name(severity)), v("ranks", ranks), v("value", value),
        v("threshold", threshold);
    v("unit", unit), v("what", what), v("why", why), v("fix", fix), v("paste", pasteable(fix));
    v("cost_ns", cost_ns), v("cost_pct", cost_pct), v("steps", steps);
    v("evidence", evidence), v("where", where), v("seen", seen);
  }
};

/// What fixing the most expensive finding would make of a step: the figures of the verdict.
struct StepSaving {
  std::string rule;
  int64_t step_ns = 0, without_ns = 0;

  void fields(auto&& v) const { v("rule", rule), v("step_ns", step_ns), v("without_ns", without_ns); }
};

enum class VerdictKind : uint8_t {
  kBottleneck,     ///< there is something to gain, and the verdict names it
  kHealthy,        ///< no findings above info
  kHang,           ///< the job does not end
  kFailure,        ///< the run ended by an error, a signal or the scheduler
  kCapture,        ///< a graph is being captured: not a run
  kInconclusive,   ///< too little was recorded
};
std::string_view verdict_kind_name(VerdictKind kind);

enum class Verdict : uint8_t { kPass, kFail, kUnknown };
std::string_view verdict_name(Verdict v);

struct Check {
  std::string id;
  std::string question;
  Verdict verdict = Verdict::kUnknown;
  std::optional<double> value;
  std::optional<double> threshold;
  std::string brief;  ///< for the one-line checklist: "GPU busy 60.6 % (over 80)"
  std::string record = {};   ///< what to record to answer it; empty: answered, or recording would not help
  bool applies = true;       ///< false: it is no question of this program; then `brief` says why

  void fields(auto&& v) const {
    v("id", id), v("question", question), v("verdict", verdict_name(verdict)), v("value", value),
        v("threshold", threshold);
    v("record", unless_empty(record)), v("applies", applies);
  }
};

struct Report;

struct PresentOptions {
  int width = 100;          ///< columns; 0: do not wrap
  bool colour = false;
  int top = 10;             ///< rows of long tables
  std::string section;      ///< only this section; empty: the first screen
  bool verbose = false;
};

struct Presenter {
  std::string_view name;     ///< --format NAME
  std::string_view summary;
  std::string (*write)(const Report&, const PresentOptions&);
};

}  // namespace profgpu
