// What the files behind <profgpu/c.h> share: text to and from it, its errors, and tables.
#pragma once

#include <profgpu/c.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "app/export/data_table.h"
#include "base/result.h"
#include "base/secrets.h"

namespace profgpu {

// A column as one array.
/// Budget: an append per cell; of text also a lookup, none where it is the text before it.
class ColumnValues {
 public:
  /// Of cells of any kind, whose text may be gone after add().
  ColumnValues() = default;
  /// Of cells whose text stays where it is.
  explicit ColumnValues(Datum::Kind kind) : kind_(kind), texts_stay_(true) {}

  void reserve(size_t rows);
  /// A kind that is not the column's changes the column: whole numbers become real ones, and numbers beside text text.
  void add(const Datum& cell);
  /// Call after the last cell: a column without any value is of real numbers.
  void finish();

  [[nodiscard]] size_t size() const { return size_; }
  /// Type, data, validity and dictionary.
  void describe(profgpu_column& out) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void change_to(Datum::Kind kind);
  void add_null();
  int32_t code_of(std::string_view text);

  Datum::Kind kind_ = Datum::Kind::kNull;
  bool texts_stay_ = false;
  size_t size_ = 0;
  std::vector<int64_t> integers_;
  std::vector<uint8_t> valid_;      // empty: all
  std::vector<double> reals_;
  std::vector<int32_t> codes_;
  std::string dictionary_;
  std::vector<uint64_t> offsets_{0};
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> places_;
  std::string_view last_;           // compared by place: text of a trace is interned
  int32_t last_code_ = -1;          // -1: not known
};

}  // namespace profgpu

struct profgpu_error {
  profgpu::Error error;
};

struct profgpu_text {
  std::string text;
};

/// Columns by number, laid out at the first request. Several threads may request them.
struct profgpu_table {
  profgpu_table() = default;
  profgpu_table(const profgpu_table&) = delete;
  profgpu_table& operator=(const profgpu_table&) = delete;
  virtual ~profgpu_table() = default;
  [[nodiscard]] virtual size_t rows() const = 0;
  [[nodiscard]] virtual size_t columns() const = 0;
  /// Name, unit and meaning.
  [[nodiscard]] virtual profgpu_column described(size_t column) const = 0;
  virtual const profgpu::ColumnValues& values(size_t column) = 0;
};

namespace profgpu {

inline std::string_view view(profgpu_string s) {
  return s.data == nullptr ? std::string_view() : std::string_view(s.data, s.size);
}
/// Of text that ends in a zero.
inline profgpu_string borrowed(std::string_view s) { return {s.data(), s.size()}; }

inline void give(profgpu_error** out, const Error& error) {
  if (out != nullptr) *out = new profgpu_error{{masked_message(error.message), masked_message(error.hint)}};
}
/// Of a function that was given no object to work on.
inline Error missing(std::string_view what) { return {"a " + std::string(what) + " is needed, not NULL"}; }

inline std::vector<std::string> texts(const profgpu_string* items, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; items != nullptr && i < count; ++i) out.emplace_back(view(items[i]));
  return out;
}

/// What the caller's structure has room for.
template <class Struct>
void write_struct(Struct* out, Struct value) {
  value.struct_size = std::min(out->struct_size, sizeof value);
  std::memcpy(out, &value, value.struct_size);
}

/// Values by option, in the order given.
using GivenOptions = std::map<std::string_view, std::vector<std::string>>;
/// An error where one is not of `known`, which begin with "--".
Result<GivenOptions> given_options(const profgpu_option* options, size_t count,
                                   const std::vector<std::string_view>& known);

/// A table whose columns are all there already.
std::unique_ptr<profgpu_table> finished_table(std::vector<std::string> names, std::vector<ColumnValues> columns);

}  // namespace profgpu
