// JSON written into one growing buffer. Every text becomes valid UTF-8 and every number valid JSON, whatever comes in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyse/report/document.h"
#include "base/json_quoted.h"

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


  /// Tables have one row on a line, records one field on a line; below `layout` kInline everything is on one line.
  void value(const Value& v, Layout layout = Layout::kLines);
  void table(const Table& t, Layout layout);
  void record(const Record& r, Layout layout);

  /// A named type, a field on a line; each text of a list has a line too, and each field of what is InFull.
  template <Named T>
  void members(const T& x) {
    open('{');
    x.fields([&](std::string_view name, const auto& field) { key(name), member(field); });
    close('}');
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void separate();
  template <class T>
  void member(const T& x) {
    if constexpr (requires { x.in_full; }) {
      items(x.in_full, [&]<class Item>(const Item& item) {
        if constexpr (Named<Item>) members(item);
        else value(item);
      });
    } else if constexpr (requires { x.has_value(), x->in_full; }) {
      x ? member(*x) : null();
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      items(x, [&](const std::string& item) { text(item); });
    } else {
      value(value_of(x), Named<T> ? Layout::kInline : Layout::kLines);
    }
  }
  void items(const auto& all, auto&& write) {
    open('[');
    for (const auto& item : all) element(), write(item);
    close(']');
  }

  std::string out_;
  std::string nesting_;  // one character for each open bracket: what a line break in it means
  bool first_ = true;
};

/// A document of its own: a named type's or a record's fields, each on a line.
template <class T>
std::string json_document(const T& x) {
  JsonText json;
  if constexpr (Named<T>) json.members(x);
  else json.record(x, Layout::kLines);
  return json.take() + '\n';
}

}  // namespace profgpu
