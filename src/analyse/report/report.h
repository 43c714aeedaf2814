// What reports are made of: documents of values, tables and records, findings, checks, and what is wrong with an input.
//
// In a document a column's or field's unit follows from its name (`_ns`, `_bytes`, `_pct`, `_gbps`), see unit_of().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/severity.h"

namespace profgpu {

enum class Unit : uint8_t { kNone, kNanoseconds, kBytes, kPercent, kGbps };

/// The unit that a field's name states: wall_ns is nanoseconds, peak_allocated_bytes bytes, span_pct percent (0..100).
Unit unit_of(std::string_view field);

class Value;
struct Table;
struct Record;
using List = std::vector<Value>;

/// One datum of a report: null (unknown), a scalar, or something nested. Cheap to copy: nested values are shared.
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
  /// The number as a double, whichever kind it is; `otherwise` for anything that is not a number.
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
  /// The cell, null if there is no such column.
  [[nodiscard]] const Value& at(size_t row, std::string_view column_name) const;
};

/// Named fields in order. JSON writes an object.
struct Record {
  std::vector<std::pair<std::string, Value>> fields;

  Record& add(std::string name, Value value) {
    fields.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  /// The field, null if there is none of that name.
  [[nodiscard]] const Value& at(std::string_view name) const;
};


/// Something that is wrong or missing in an input.
struct Issue {
  std::string kind;
  int64_t count = 0;
  Severity severity = Severity::kWarning;
  std::string text;  ///< one sentence for a person; a second line may say what follows from it

  void fields(auto&& v) const {
    v("kind", kind), v("count", count), v("severity", severity_name(severity)), v("text", text);
  }
};

struct InputFile {
  std::string path;
  std::string format;  ///< short name as in `profgpu formats`
  std::string summary; ///< for people: "PyTorch trace"
  int64_t file_bytes = 0;
  int64_t events = 0;
  std::optional<int> rank;
  std::vector<Issue> issues;

  void fields(auto&& v) const {
    v("path", path), v("format", format), v("file_bytes", file_bytes), v("events", events), v("rank", rank);
    v("issues", issues);
  }
};

/// Where in the timeline something can be seen.
struct Locator {
  enum class At : uint8_t {
    kSteps, kLongestStep, kMemoryPeak,   ///< the measured steps, or one of them
    kLongestGap,                         ///< of the idle cause that `of` names
    kLongestKernel,                      ///< whose kind is `of`, or whose name has it
    kLongestPhase,                       ///< of the phase that `of` names
    kLongestWait,                        ///< in a collective, on a rank that the finding does not name
  } at = At::kSteps;
  std::string of;

  template <class V>
  void fields(V&& v) const;
};
std::string_view locator_name(Locator::At at);
template <class V>
void Locator::fields(V&& v) const {
  v("at", locator_name(at)), v("of", of.empty() ? std::optional<std::string>() : of);
}

/// Where in the program time goes: a function, or a range of the framework's where no stacks were recorded.
struct Place {
  std::string name;              ///< of the function or range
  std::string file;              ///< of a Python function; else empty
  std::optional<int64_t> line;   ///< where it begins
  std::string module;            ///< the innermost nn.Module that it runs for; empty: none or not known
  int64_t ns = 0, count = 0;     ///< over the measured steps

  bool operator==(const Place&) const = default;
  void fields(auto&& v) const {
    const auto given = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
    v("name", name), v("file", given(file)), v("line", line), v("module", given(module)), v("ns", ns);
    v("count", count);
  }
};

/// A diagnosis: what costs time and what to change.
struct Finding {
  std::string rule;
  Severity severity = Severity::kInfo;
  std::vector<int> ranks;
  std::optional<double> value;      ///< measured, in `unit`
  std::optional<double> threshold;  ///< in `unit`
  std::string unit;                 ///< "%", "ratio", "count", ...
  std::string what;                 ///< one clause: what is seen
  std::string why;                  ///< one or two sentences: how that costs time here
  std::vector<std::string> fix;     ///< changes to make, best first; names the setting or call
  std::optional<int64_t> cost_ns;   ///< wall time of the measured steps that would not have been; none: not estimated
  std::optional<double> cost_pct;   ///< of the wall time of those steps
  std::vector<std::string> evidence;
  Locator seen;
  bool names_ranks = false;         ///< `what` begins with whom it concerns
  std::vector<Place> where = {};    ///< in the program; most expensive first
  std::string verdict = {};         ///< the report's first sentence, where the rule's own does not fit
  bool own_fixes = false;           ///< no framework's settings would help

  void fields(auto&& v) const {
    v("rule", rule), v("severity", severity_name(severity)), v("ranks", ranks), v("value", value),
        v("threshold", threshold);
    v("unit", unit), v("what", what), v("why", why), v("fix", fix), v("cost_ns", cost_ns), v("cost_pct", cost_pct);
    v("evidence", evidence), v("where", where), v("seen", seen);
  }
};

/// How much a report's first sentence claims.
enum class VerdictKind : uint8_t {
  kBottleneck,     ///< something is to be gained, and it names what
  kHealthy,        ///< nothing above info
  kHang,           ///< the job does not end
  kCapture,        ///< a graph is captured: no run
  kInconclusive,   ///< too little was recorded to say
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

  void fields(auto&& v) const {
    v("id", id), v("question", question), v("verdict", verdict_name(verdict)), v("value", value),
        v("threshold", threshold);
  }
};

struct Report;

/// What the reader asked to see.
struct PresentOptions {
  int width = 100;          ///< columns; 0: do not wrap
  bool colour = false;
  int top = 10;             ///< rows of long tables
  std::string section;      ///< show only this section; empty: the first screen
  bool verbose = false;
};

struct Presenter {
  std::string_view name;     ///< --format NAME
  std::string_view summary;
  std::string (*write)(const Report&, const PresentOptions&);
};

}  // namespace profgpu
