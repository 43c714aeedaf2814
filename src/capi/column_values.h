// A column's cells as one array, for callers that read memory and not cells.
#pragma once

#include <profgpu/c.h>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "export/data_table.h"

namespace profgpu {

/// Budget: an append a cell; of text, one look-up too, none where it is the text before it.
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
