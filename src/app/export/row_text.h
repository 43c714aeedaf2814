// Rows as text: CSV, JSON or columns for people.
#pragma once

#include <string>
#include <vector>

#include "app/export/data_table.h"
#include "base/byte_writer.h"

namespace profgpu {

enum class RowFormat : uint8_t {
  kCsv,     ///< RFC 4180 with line feeds: one row of names; nothing between two commas is null, "" is empty text
  kJson,    ///< an array with one object a row and line
  kTable,   ///< aligned by what the first thousand rows need; names are made harmless for a terminal
};

class RowText {
 public:
  using Shown = std::string (*)(std::string_view);
  /// `longest`: cells that a text may take in a table, what is longer is cut; 0: all. `shown`: a line of a table as the
  /// screen can show it; null: as it is.
  RowText(RowFormat format, std::vector<std::string> columns, int longest, ByteWriter& out,
          CsvText csv = CsvText::kForFile, Shown shown = nullptr);
  void row(const std::vector<Datum>& cells);
  /// Call last.
  void finish();

 private:
  void append_cell(const Datum& cell);
  void csv_row(const std::vector<Datum>& cells);
  void json_row(const std::vector<Datum>& cells);
  void table_row(const std::vector<Datum>& cells);
  void show_held();
  void show(const std::vector<std::string>& texts);

  RowFormat format_;
  std::vector<std::string> columns_;
  int longest_;
  ByteWriter& out_;
  CsvText csv_;
  Shown shown_;
  int64_t rows_ = 0;
  std::string text_;                           // of the row at hand
  std::vector<std::vector<std::string>> held_; // rows of a table that decide its widths
  std::vector<int> widths_;
  std::vector<bool> right_;
};

}  // namespace profgpu
