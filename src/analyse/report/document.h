// Typed rows as a document. A type that takes part names its fields once, in a member template
//
//   template <class V>
//   void fields(V&& v) const { v("launches", launches), v("p95_latency_ns", whole_ns(p95_latency_ns)); }
//
// and everything that knows fields by name is made from that: the JSON document, the tables of a section as text,
// tables for SQL. Names state units, see unit_of().
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

inline std::optional<std::string_view> unless_empty(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}
/// Nanoseconds are whole in a report.
inline int64_t whole_ns(double ns) { return std::llround(ns); }
inline std::optional<int64_t> whole_ns(const std::optional<double>& ns) {
  return ns ? std::optional(whole_ns(*ns)) : std::nullopt;
}
template <class T>
std::optional<T> only_if(bool holds, T x) {
  return holds ? std::optional<T>(std::move(x)) : std::nullopt;
}

/// The first that it holds for; null: none.
template <class All, class Holds, class Of = std::identity>
auto* first_where(All& all, Holds holds, Of of = {}) {
  const auto found = std::ranges::find_if(all, holds, of);
  return found == std::ranges::end(all) ? nullptr : &*found;
}

/// Items of which a document shows each field on a line, where rows of a table have one line each.
template <class T>
struct InFull {
  const std::vector<T>& in_full;
};

template <class Rows>
Table table_of(const Rows& rows);

/// Named types become records, rows of them tables (lists, where none can be made without its fields), other lists and
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

/// Objects become records (of two fields of one name both stay), arrays lists, whole numbers that fit 64 bits integers.
/// The error says at which byte the text stops being JSON.
Result<Value> value_from_json(const std::string& text);

}  // namespace profgpu
