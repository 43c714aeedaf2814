// Typed rows as a document. A type names its fields once, in a member template
//
//   void fields(auto&& v) const { v("launches", launches), v("p95_latency_ns", whole_ns(p95_latency_ns)); }
//
// from which the JSON document, the text tables of a section and the SQL tables are made. Names include units, see
// unit_of().
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <string>

#include "analyse/report/report.h"
#include "base/result.h"

namespace profgpu {

template <class T>
concept Named = requires(const T& x) { x.fields([](std::string_view, const auto&) {}); };

/// Nanoseconds are whole in a report.
inline int64_t whole_ns(double ns) { return std::llround(ns); }
inline std::optional<int64_t> whole_ns(const std::optional<double>& ns) {
  return ns ? std::optional(whole_ns(*ns)) : std::nullopt;
}
template <class T>
std::optional<T> only_if(bool holds, T x) {
  return holds ? std::optional<T>(std::move(x)) : std::nullopt;
}

/// Null: none.
template <class All, class Holds, class Of = std::identity>
auto* first_where(All& all, Holds holds, Of of = {}) {
  const auto found = std::ranges::find_if(all, holds, of);
  return found == std::ranges::end(all) ? nullptr : &*found;
}

/// Items shown with a line for each field, instead of as rows of a table.
template <class T>
struct InFull {
  const std::vector<T>& in_full;
};

template <class Rows>
Table table_of(const Rows& rows);

/// Named types become records, vectors of them tables (lists if the type has no default constructor), other lists and
/// maps of scalars lists and records.
template <class T>
Value value_of(const T& x) {
  if constexpr (Named<T>) {
    Record record;
    x.fields([&](std::string_view name, const auto& field) { record.add(std::string(name), value_of(field)); });
    return record;
  } else if constexpr (requires { x.has_value(); } || (std::is_pointer_v<T> && Named<std::remove_pointer_t<T>>)) {
    return x ? value_of(*x) : Value();
  } else if constexpr (requires { x.listed(); }) {
    return value_of(x.listed());
  } else if constexpr (requires { x.in_full; }) {
    List list;
    for (const auto& item : x.in_full) list.push_back(value_of(item));
    return list;
  } else if constexpr (requires { typename T::mapped_type; }) {
    Record record;
    for (const auto& [key, field] : x) record.add(std::to_string(key), value_of(field));
    return record;
  } else if constexpr (std::convertible_to<const T&, std::string_view> || !requires { x.begin(); }) {
    return Value(x);
  } else if constexpr (Named<typename T::value_type> && std::default_initializable<typename T::value_type>) {
    return table_of(x);
  } else {
    List list;
    for (const auto& item : x) list.push_back(value_of(item));
    return list;
  }
}

template <class Rows>
Table table_of(const Rows& rows) {
  Table table;
  typename Rows::value_type{}.fields([&](std::string_view name, const auto&) { table.columns.emplace_back(name); });
  table.rows.reserve(rows.size());
  for (const auto& row : rows) {
    std::vector<Value>& cells = table.rows.emplace_back();
    cells.reserve(table.columns.size());
    row.fields([&](std::string_view, const auto& field) { cells.push_back(value_of(field)); });
  }
  return table;
}

/// Objects become records (duplicate names stay), arrays lists, whole numbers that fit 64 bits integers. The error
/// gives the byte at which the text stops being JSON.
Result<Value> value_from_json(const std::string& text);

}  // namespace profgpu
