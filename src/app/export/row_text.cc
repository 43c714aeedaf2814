#include "app/export/row_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "analyse/report/text.h"
#include "app/export/run.h"
#include "base/csv.h"
#include "base/decimal.h"
#include "base/json_quoted.h"

namespace profgpu {
namespace {

constexpr size_t kHeldRows = 1000;

void append_number(std::string& out, const Datum& cell) {
  char digits[32];
  const auto end = cell.kind() == Datum::Kind::kInteger ? std::to_chars(digits, digits + sizeof digits, cell.integer())
                                                        : std::to_chars(digits, digits + sizeof digits, cell.real());
  out.append(digits, end.ptr);
}

bool is_number(const Datum& cell) { return cell.kind() == Datum::Kind::kInteger || cell.kind() == Datum::Kind::kReal; }

}  // namespace

RowText::RowText(RowFormat format, std::vector<std::string> columns, int longest, ByteWriter& out, CsvText csv,
                 Shown shown)
    : format_(format), columns_(std::move(columns)), longest_(longest), out_(out), csv_(csv), shown_(shown) {
  if (format_ == RowFormat::kJson) out_.put('[');
  if (format_ != RowFormat::kCsv) return;
  for (const std::string& c : columns_) {
    if (&c != columns_.data()) text_ += ',';
    append_csv(text_, c);
  }
  out_.put(text_ += '\n');
}

void RowText::row(const std::vector<Datum>& cells) {
  if (format_ == RowFormat::kTable) {
    table_row(cells);
  } else {
    text_.clear();
    if (format_ == RowFormat::kCsv) csv_row(cells);
    else json_row(cells);
    out_.put(text_);
  }
  ++rows_;
}

// Nothing is null, so that empty text has quotes.
void RowText::append_cell(const Datum& cell) {
  if (is_number(cell)) return append_number(text_, cell);
  if (cell.kind() != Datum::Kind::kText) return;
  if (cell.text().empty()) return void(text_ += "\"\"");
  const bool formula = csv_ != CsvText::kRaw && is_formula(cell.text());
  if (!formula && csv_ != CsvText::kForTerminal) return append_csv(text_, cell.text());
  std::string safe(formula ? "'" : "");
  append_csv(text_, safe += csv_ == CsvText::kForTerminal ? sanitised(cell.text()) : cell.text());
}

void RowText::csv_row(const std::vector<Datum>& cells) {
  for (const Datum& cell : cells) {
    if (&cell != cells.data()) text_ += ',';
    append_cell(cell);
  }
  text_ += '\n';
}

void RowText::json_row(const std::vector<Datum>& cells) {
  text_ += rows_ > 0 ? ",\n {" : "\n {";
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text_ += ", ";
    append_json_quoted(text_, columns_[i]);
    text_ += ": ";
    const Datum& cell = cells[i];
    if (cell.kind() == Datum::Kind::kText) append_json_quoted(text_, cell.text());
    else if (is_number(cell) && (cell.kind() == Datum::Kind::kInteger || std::isfinite(cell.real())))
      append_number(text_, cell);
    else text_ += "null";
  }
  text_ += '}';
}

void RowText::table_row(const std::vector<Datum>& cells) {
  if (right_.empty()) right_.assign(cells.size(), true);
  std::vector<std::string> texts;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string& text = texts.emplace_back();
    if (is_number(cells[i])) append_number(text, cells[i]);
    else if (cells[i].kind() == Datum::Kind::kNull) text = "null";
    else text = sanitised(cells[i].text());
    if (longest_ > 0 && !is_number(cells[i])) text = truncated(text, longest_);
    if (widths_.empty() && cells[i].kind() == Datum::Kind::kText) right_[i] = false;
  }
  if (!widths_.empty()) return show(texts);
  held_.push_back(std::move(texts));
  if (held_.size() == kHeldRows) show_held();
}

void RowText::show_held() {
  right_.resize(columns_.size(), false);
  std::vector<std::string> names;
  for (const std::string& c : columns_) {
    names.push_back(sanitised(c));
    widths_.push_back(display_width(names.back()));
  }
  for (const auto& texts : held_)
    for (size_t i = 0; i < texts.size(); ++i) widths_[i] = std::max(widths_[i], display_width(texts[i]));
  show(names);
  for (const auto& texts : held_) show(texts);
  held_.clear();
}

void RowText::show(const std::vector<std::string>& texts) {
  text_.clear();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) text_ += "  ";
    text_ += right_[i] ? padded_left(texts[i], widths_[i]) : padded_right(texts[i], widths_[i]);
  }
  while (!text_.empty() && text_.back() == ' ') text_.pop_back();
  text_ += '\n';
  out_.put(shown_ == nullptr ? text_ : shown_(text_));
}

void RowText::finish() {
  if (format_ == RowFormat::kJson) out_.put(rows_ > 0 ? "\n]\n" : "]\n");
  if (format_ == RowFormat::kTable && widths_.empty()) show_held();
}

// Every table as one CSV file.

namespace {

bool has_rows(const TableRows& rows) {
  return std::any_of(rows.sources().begin(), rows.sources().end(),
                     [](const RowSource& from) { return from.table.rows(from) > 0; });
}

// Tables that have rows; those without would only be in the way.
Result<std::vector<std::string>> tables(const RunRows& run) {
  std::set<const DataTable*> filled;
  for (const DataTable* table : data_tables())
    if (table->of_run && has_rows(TableRows(run, *table))) filled.insert(table);
  const Status status = run.each_rank([&](const RankRows& rank) {
    for (const DataTable* table : data_tables())
      if (!table->of_run && !filled.contains(table) && has_rows(TableRows(run, *table, rank))) filled.insert(table);
  });
  if (!status) return status.error();
  std::vector<std::string> names;
  for (const DataTable* table : data_tables())
    if (filled.contains(table)) names.emplace_back(table->name);
  return names;
}

void write_rows(const TableRows& rows, RowText& text, const ByteWriter& out) {
  for (const RowSource& from : rows.sources()) {
    std::vector<Datum> cells(from.table.columns.size());
    const size_t count = from.table.rows(from);
    for (size_t row = 0; row < count && out.error() == 0; ++row) {
      for (size_t i = 0; i < cells.size(); ++i) cells[i] = from.table.columns[i].at(from, row, i);
      text.row(cells);
    }
  }
}

Status write_csv(const RunRows& run, const ExportOptions& options, ByteWriter& out) {
  const DataTable* table = find_data_table(options.table);
  if (table == nullptr) return Error{"there is no table " + options.table, "`profgpu query --tables` lists them"};
  std::vector<std::string> names;
  for (const DataColumn& c : table->columns) names.emplace_back(c.name);
  RowText text(RowFormat::kCsv, names, 0, out, options.csv);
  if (table->of_run) {
    write_rows(TableRows(run, *table), text, out);
  } else {
    Status status = run.each_rank([&](const RankRows& rank) { write_rows(TableRows(run, *table, rank), text, out); });
    if (!status) return status;
  }
  text.finish();
  return ok();
}

}  // namespace

extern const Exporter kCsvExport{
    .name = "csv",
    .summary = "a folder with every table as CSV (RFC 4180)",
    .reader = "a spreadsheet or pandas",
    .extension = ".csv",
    .write = write_csv,
    .tables = tables,
};

}  // namespace profgpu
