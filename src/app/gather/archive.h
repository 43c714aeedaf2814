// Structs to bytes and back, for other processes of the same program: no version, no names, varints.
//
// Any struct without constructors takes part: its members are counted, and put in their order.
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
#include "trace/string_pool.h"

namespace profgpu::archive {

struct Anything {
  template <class T>
  operator T() const;
};
/// How many members a struct has: as many things as it can be made of.
template <class T, class... Members>
consteval int member_count() {
  if constexpr (requires { T{Members{}..., Anything{}}; }) return member_count<T, Members..., Anything>();
  else return sizeof...(Members);
}

template <class T>
struct IsId : std::false_type {};
template <class Tag>
struct IsId<Id<Tag>> : std::true_type {};

/// Calls `f` with each member of a struct.
template <class T, class F>
void each_member(T& x, F&& f) {
  constexpr int n = member_count<std::remove_const_t<T>>();
  static_assert(n > 0 && n <= 38);
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
  PROFGPU_MEMBERS(23, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z)
  PROFGPU_MEMBERS(24, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2)
  PROFGPU_MEMBERS(25, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2)
  PROFGPU_MEMBERS(26, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2)
  PROFGPU_MEMBERS(27, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2)
  PROFGPU_MEMBERS(28, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2)
  PROFGPU_MEMBERS(29, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2)
  PROFGPU_MEMBERS(30, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2)
  PROFGPU_MEMBERS(31, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2)
  PROFGPU_MEMBERS(32, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2)
  PROFGPU_MEMBERS(33, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2, j2)
  PROFGPU_MEMBERS(34, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2, j2, k2)
  PROFGPU_MEMBERS(35, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2, j2, k2, l2)
  PROFGPU_MEMBERS(36, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2, j2, k2, l2, m2)
  PROFGPU_MEMBERS(37, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2, j2, k2, l2, m2, o2)
  PROFGPU_MEMBERS(38, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r, s, t, u, v, w, y, z, a2, b2, c2, d2, e2, f2, g2, \
                  h2, i2, j2, k2, l2, m2, o2, p2)
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
  template <class K, class T>
  void put(const std::map<K, T>& all) {
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

 private:
  void varint(uint64_t v) { append_varint(bytes, v); }
  template <class Range>
  void range(const Range& all) {
    varint(all.size());
    for (const auto& x : all) put(x);
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
  template <class K, class T>
  void get(std::map<K, T>& all) {
    all.clear();
    const uint64_t n = varint();
    for (uint64_t i = 0; i < n && !failed_; ++i) {
      std::pair<K, T> x{};
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

 private:
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
  std::string_view left_;
  bool failed_ = false;
};

}  // namespace profgpu::archive
