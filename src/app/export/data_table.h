// The tables that a run can be asked for: one description of each, which SQL, SQLite files, CSV and the documentation
// are made from. Cells are read where the trace has them; nothing is copied.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "analyse/report/report.h"
#include "app/export/run.h"

namespace profgpu {

/// One cell: null, a whole number, a real one, or text that lives as long as the run.
class Datum {
 public:
  enum class Kind : uint8_t { kNull, kInteger, kReal, kText };

  Datum() = default;
  template <std::integral T>
  Datum(T n) : kind_(Kind::kInteger), integer_(static_cast<int64_t>(n)) {}
  Datum(double x) : kind_(Kind::kReal), real_(x) {}
  Datum(std::string_view text) : kind_(Kind::kText), text_(text) {}
  template <class T>
  Datum(const std::optional<T>& v) {
    if (v) *this = Datum(*v);
  }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] int64_t integer() const { return integer_; }
  [[nodiscard]] double real() const { return real_; }
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string_view text_;
};

struct DataTable;

/// Where the rows of a table come from: one rank, or the run as a whole.
struct RowSource {
  const RunRows& run;
  const RankRows* rank = nullptr;         ///< null: a table of the run
  const Table* section = nullptr;         ///< of tables that a section of the report is
  const DataTable& table;
  [[nodiscard]] const Trace& trace() const { return rank->trace(); }
};

/// Of a table that is a section of the report: the cell in the section's column of the same name.
Datum section_cell(const RowSource& from, size_t row, size_t column);
size_t section_rows(const RowSource& from);

struct DataColumn {
  std::string_view name;                  ///< its unit is its ending: _ns, _bytes, _pct, _gbps
  Datum::Kind kind;
  std::string_view meaning;               ///< one clause
  Datum (*at)(const RowSource& from, size_t row, size_t column) = section_cell;
};

/// Rows that ascend in the table's column `sorted` and have one value in its column `key`.
struct Stretch {
  size_t begin = 0, end = 0;
  int64_t key = 0;
};

struct DataTable {
  std::string_view name;
  std::string_view summary;
  std::vector<DataColumn> columns;
  size_t (*rows)(const RowSource& from);
  bool of_run = false;                          ///< not one part for each rank
  std::string_view sorted = {};                 ///< empty: no order is known
  std::string_view key = {};
  std::vector<Stretch> (*stretches)(const RowSource& from) = nullptr;  ///< null: all rows are one
  std::string_view section = {};                ///< of the report; empty: made otherwise
};

/// SQL over the tables: views that both a query and an SQLite file have.
struct DataView {
  std::string_view name;
  std::string_view summary;
  std::string_view select;
};

/// In the order in which they are listed.
const std::vector<const DataTable*>& data_tables();
const std::vector<DataView>& data_views();
const DataTable* find_data_table(std::string_view name);

/// The rows of a table, by rank; one source for a table of the run, none for the tables of ranks in a run without any.
/// The report's sections that they need are made, and live as long as this. Ranks' events must be there meanwhile.
class TableRows {
 public:
  TableRows(const RunRows& run, const DataTable& table);
  /// One rank's part of a table that has one for each.
  TableRows(const RunRows& run, const DataTable& table, const RankRows& rank) { add(run, table, rank); }
  [[nodiscard]] const std::vector<RowSource>& sources() const { return sources_; }

 private:
  void add(const RunRows& run, const DataTable& table, const RankRows& rank);
  std::deque<Table> sections_;
  std::vector<RowSource> sources_;
};

/// Behind the column that every table of a rank begins with.
std::vector<DataColumn> of_rank(std::vector<DataColumn> columns);
Datum row_cell(const RowSource& from, size_t row, size_t column);

template <class Tag>
Datum id_or_null(Id<Tag> id) {
  return id.valid() ? Datum(id.value) : Datum();
}
inline Datum text_or_null(const RowSource& from, StringId id) {
  return id.valid() ? Datum(from.trace().strings[id]) : Datum();
}

// What a value says of not being known, for cell().
inline constexpr auto kFromZero = [](auto n) { return n >= 0 ? Datum(n) : Datum(); };
inline constexpr auto kAboveZero = [](auto n) { return n > 0 ? Datum(n) : Datum(); };
inline constexpr auto kTextIfAny = [](const std::string& text) {
  return text.empty() ? Datum() : Datum(std::string_view(text));
};

/// A member of each row. `Rows`: the member of Trace that has them, by row or by column, or a function of the source
/// and the row's number. `Known`: null for values that stand for unknown. Ids that are none are null.
template <auto Rows, auto Member, auto Known = std::identity()>
Datum cell(const RowSource& from, size_t row, size_t) {
  const auto datum = [&](const auto& value) -> Datum {
    if constexpr (requires { text_or_null(from, value); }) return text_or_null(from, value);
    else if constexpr (requires { id_or_null(value); }) return id_or_null(value);
    else return Datum(Known(value));
  };
  if constexpr (!std::is_member_pointer_v<decltype(Rows)>) return datum(std::invoke(Member, Rows(from, row)));
  else if constexpr (requires { (from.trace().*Rows)[row]; })
    return datum(std::invoke(Member, (from.trace().*Rows)[row]));
  else return datum((from.trace().*Rows.*Member)[row]);
}
/// How many rows a member of Trace has.
template <auto Rows>
size_t rows_of(const RowSource& from) {
  return (from.trace().*Rows).size();
}

/// "ns", "bytes" ... as the ending of a column's name says; empty: none.
std::string_view unit_in_name(std::string_view column);

}  // namespace profgpu
