// JSON written into one growing buffer. Every text becomes valid UTF-8 and every number valid JSON, whatever comes in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_quoted.h"
#include "report/report.h"

namespace profgpu {

/// Objects and arrays are laid out by the caller's choice: kLines puts each member on its own line, kInline none.
enum class Layout { kLines, kInline };

class JsonText {
 public:
  void open(char bracket, Layout layout = Layout::kLines);
  void close(char bracket);
  /// Before each member of an object; elements of arrays call element() instead.
  void key(std::string_view name);
  void element();

  void null() { out_ += "null"; }
  void boolean(bool b) { out_ += b ? "true" : "false"; }
  void integer(int64_t n);
  void real(double x);  ///< shortest text that reads back as x; null if it is not finite
  void text(std::string_view s);
  /// As it stands, for what was written by text() or key() before.
  void raw(std::string_view json) { out_ += json; }

  template <class T>
  void integer_or_null(const std::optional<T>& n) {
    n ? integer(*n) : null();
  }
  void real_or_null(const std::optional<double>& x) { x ? real(*x) : null(); }

  /// Tables have one row on a line, records one field on a line; below `layout` kInline everything is on one line.
  void value(const Value& v, Layout layout = Layout::kLines);
  void table(const Table& t, Layout layout);
  void record(const Record& r, Layout layout);

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void separate();

  std::string out_;
  std::string nesting_;  // one character for each open bracket: what a line break in it means
  bool first_ = true;
};

}  // namespace profgpu
