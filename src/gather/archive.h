// Structs to bytes and back, for other processes of the same program: no version, no names, varints.
//
// A struct takes part by saying how many members it has (kMembers); one more without a new number does not compile.
// Reading checks every length, so that bytes cut short or mixed up end in failed(), not in a crash.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/varint.h"
#include "report/report.h"
#include "trace/string_pool.h"

namespace profgpu::archive {

template <class T>
constexpr int kMembers = 0;

template <class T>
struct IsId : std::false_type {};
template <class Tag>
struct IsId<Id<Tag>> : std::true_type {};

/// Calls `f` with each member of a struct of that many.
template <class T, class F>
void each_member(T& x, F&& f) {
  constexpr int n = kMembers<std::remove_const_t<T>>;
  static_assert(n > 0, "say how many members it has");
  const auto all = [&](auto&... members) { (f(members), ...); };
#define PROFGPU_MEMBERS(count, ...) \
  if constexpr (n == (count)) {     \
    auto& [__VA_ARGS__] = x;        \
    all(__VA_ARGS__);               \
  }
  PROFGPU_MEMBERS(1, a)
  PROFGPU_MEMBERS(2, a, b)
  PROFGPU_MEMBERS(3, a, b, c)
  PROFGPU_MEMBERS(4, a, b, c, d)
  PROFGPU_MEMBERS(5, a, b, c, d, e)
  PROFGPU_MEMBERS(6, a, b, c, d, e, g)
  PROFGPU_MEMBERS(7, a, b, c, d, e, g, h)
  PROFGPU_MEMBERS(8, a, b, c, d, e, g, h, i)
  PROFGPU_MEMBERS(9, a, b, c, d, e, g, h, i, j)
  PROFGPU_MEMBERS(10, a, b, c, d, e, g, h, i, j, k)
  PROFGPU_MEMBERS(11, a, b, c, d, e, g, h, i, j, k, l)
  PROFGPU_MEMBERS(12, a, b, c, d, e, g, h, i, j, k, l, m)
  PROFGPU_MEMBERS(13, a, b, c, d, e, g, h, i, j, k, l, m, o)
  PROFGPU_MEMBERS(14, a, b, c, d, e, g, h, i, j, k, l, m, o, p)
  PROFGPU_MEMBERS(15, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q)
  PROFGPU_MEMBERS(16, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r)
  PROFGPU_MEMBERS(17, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s)
  PROFGPU_MEMBERS(18, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t)
  PROFGPU_MEMBERS(19, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u)
  PROFGPU_MEMBERS(20, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v)
  PROFGPU_MEMBERS(21, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w)
  PROFGPU_MEMBERS(22, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y)
#undef PROFGPU_MEMBERS
}

class Writer {
 public:
  std::string bytes;

  template <class T>
  void put(const T& x) {
    if constexpr (std::is_same_v<T, double>) {
      const auto bits = std::bit_cast<std::array<char, 8>>(x);
      bytes.append(bits.data(), bits.size());
    } else if constexpr (std::is_enum_v<T>) {
      varint(static_cast<uint64_t>(x));
    } else if constexpr (std::is_unsigned_v<T>) {
      varint(x);
    } else if constexpr (std::is_signed_v<T>) {
      varint(zigzag(static_cast<uint64_t>(static_cast<int64_t>(x))));
    } else if constexpr (IsId<T>::value) {
      varint(x.value);
    } else {
      each_member(x, [this](const auto& member) { this->put(member); });
    }
  }
  void put(const std::string& s) {
    varint(s.size());
    bytes.append(s);
  }
  template <class T>
  void put(const std::optional<T>& x) {
    put(x.has_value());
    if (x) put(*x);
  }
  template <class T>
  void put(const std::vector<T>& all) {
    range(all);
  }
  template <class T>
  void put(const std::set<T>& all) {
    range(all);
  }
  template <class T, size_t N>
  void put(const std::array<T, N>& all) {
    for (const T& x : all) put(x);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& x) {
    put(x.first);
    put(x.second);
  }
  void put(const Value& v) {
    if (const bool* b = v.boolean()) tagged('b', *b);
    else if (const int64_t* i = v.integer()) tagged('i', *i);
    else if (const double* d = v.real()) tagged('d', *d);
    else if (const std::string* s = v.text()) tagged('s', *s);
    else if (const Table* t = v.table()) tagged('t', t->columns), put(t->rows);
    else if (const Record* r = v.record()) tagged('r', r->fields);
    else if (const List* l = v.list()) tagged('l', *l);
    else bytes.push_back('0');
  }

 private:
  void varint(uint64_t v) { append_varint(bytes, v); }
  template <class Range>
  void range(const Range& all) {
    varint(all.size());
    for (const auto& x : all) put(x);
  }
  template <class T>
  void tagged(char tag, const T& x) {
    bytes.push_back(tag);
    put(x);
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() const { return left_.empty(); }

  template <class T>
  void get(T& x) {
    if constexpr (std::is_same_v<T, double>) {
      std::array<char, 8> bits{};
      const std::string_view from = take(bits.size());
      if (!failed_) std::memcpy(bits.data(), from.data(), bits.size());
      x = std::bit_cast<double>(bits);
    } else if constexpr (std::is_enum_v<T> || std::is_unsigned_v<T>) {
      x = static_cast<T>(varint());
    } else if constexpr (std::is_signed_v<T>) {
      x = static_cast<T>(static_cast<int64_t>(from_zigzag(varint())));
    } else if constexpr (IsId<T>::value) {
      x.value = static_cast<decltype(x.value)>(varint());
    } else {
      each_member(x, [this](auto& member) { this->get(member); });
    }
  }
  void get(std::string& s) { s = take(varint()); }
  template <class T>
  void get(std::optional<T>& x) {
    bool there = false;
    get(there);
    x.reset();
    if (there && !failed_) get(x.emplace());
  }
  template <class T>
  void get(std::vector<T>& all) {
    all.clear();
    const uint64_t n = varint();
    all.reserve(std::min<uint64_t>(n, left_.size()));
    for (uint64_t i = 0; i < n && !failed_; ++i) get(all.emplace_back());
  }
  template <class T>
  void get(std::set<T>& all) {
    all.clear();
    const uint64_t n = varint();
    for (uint64_t i = 0; i < n && !failed_; ++i) {
      T x{};
      get(x);
      all.insert(std::move(x));
    }
  }
  template <class T, size_t N>
  void get(std::array<T, N>& all) {
    for (T& x : all) get(x);
  }
  template <class A, class B>
  void get(std::pair<A, B>& x) {
    get(x.first);
    get(x.second);
  }
  void get(Value& v) {
    const std::string_view tag = take(1);
    switch (failed_ ? '0' : tag.front()) {
      case '0': v = Value(); break;
      case 'b': v = of<bool>(); break;
      case 'i': v = of<int64_t>(); break;
      case 'd': v = of<double>(); break;
      case 's': v = of<std::string>(); break;
      case 'l': v = nested<List>([this](List& l) { get(l); }); break;
      case 'r': v = nested<Record>([this](Record& r) { get(r.fields); }); break;
      case 't': v = nested<Table>([this](Table& t) { get(t.columns), get(t.rows); }); break;
      default: failed_ = true;
    }
  }

 private:
  static constexpr int kDeepest = 64;

  std::string_view take(uint64_t n) {
    if (failed_ || n > left_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view out = left_.substr(0, n);
    left_.remove_prefix(n);
    return out;
  }
  uint64_t varint() {
    uint64_t v = 0;
    failed_ = failed_ || !take_varint(left_, v);
    return failed_ ? 0 : v;
  }
  template <class T>
  T of() {
    T x{};
    get(x);
    return x;
  }
  template <class T, class Fill>
  Value nested(Fill&& fill) {
    T x;
    if (++depth_ > kDeepest) failed_ = true;
    else fill(x);
    --depth_;
    return Value(std::move(x));
  }

  std::string_view left_;
  bool failed_ = false;
  int depth_ = 0;
};

}  // namespace profgpu::archive
