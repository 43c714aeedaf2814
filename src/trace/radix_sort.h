// Stable sort of values by a 64-bit key. Budget: 4 ns a row and pass; where the keys are a few sorted runs, passes that
// merge them, else as many of 11 bits as the keys differ in.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace profgpu {

/// A row and what it is sorted by.
struct SortKey {
  uint64_t key;
  uint32_t row;
};
inline uint64_t sort_key(const SortKey& k) { return k.key; }

/// Signed values in the order of unsigned ones, and back.
inline uint64_t ordered(int64_t v) { return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63); }
inline int64_t unordered(uint64_t key) { return static_cast<int64_t>(key ^ (uint64_t{1} << 63)); }
inline uint64_t sort_key(int64_t v) { return ordered(v); }

/// The key of a value that has one.
struct OwnKey {
  template <class T>
  uint64_t operator()(const T& v) const {
    return sort_key(v);
  }
};

template <class Key = OwnKey>
auto less_by(Key key = {}) {
  return [key](const auto& a, const auto& b) { return key(a) < key(b); };
}

/// Merges two sorted runs side by side in memory; `spare` is room that calls share.
template <class T, class Key>
void merge_two(T* first, T* middle, T* last, std::vector<T>& spare, Key key) {
  first = std::upper_bound(first, middle, *middle, less_by(key));
  spare.assign(first, middle);
  const T *left = spare.data(), *left_end = left + spare.size();
  while (left != left_end && middle != last) {
    const bool right = key(*middle) < key(*left);   // no branch: it goes either way
    *first++ = *(right ? middle : left);
    middle += right;
    left += !right;
  }
  std::copy(left, left_end, first);
}

/// Merges the sorted runs that `values` are made of: files have events by time, but calls after ops. False, and nothing
/// is done, where the runs are many.
template <class T, class Key = OwnKey>
bool merge_runs(std::span<T> values, std::vector<T>& spare, Key key = {}) {
  constexpr size_t kMaxRuns = 8;
  std::vector<T*> bounds = {values.data()};
  T* const end = values.data() + values.size();
  while (bounds.back() != end) {
    if (bounds.size() > kMaxRuns) return false;
    bounds.push_back(std::is_sorted_until(bounds.back(), end, less_by(key)));
  }
  while (bounds.size() > 2) {
    std::vector<T*> joined = {bounds.front()};
    for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
      T* const last = bounds[std::min(i + 2, bounds.size() - 1)];
      if (bounds[i + 1] != last) merge_two(bounds[i], bounds[i + 1], last, spare, key);
      joined.push_back(last);
    }
    bounds = std::move(joined);
  }
  return true;
}

/// Sorts by `sort_key(value)`.
template <class T>
void radix_sort(std::vector<T>& values) {
  std::vector<T> spare;
  if (merge_runs(std::span(values), spare)) return;
  if (values.size() < 512) {
    std::stable_sort(values.begin(), values.end(), less_by());
    return;
  }
  uint64_t low = UINT64_MAX, high = 0;
  for (const T& v : values) low = std::min(low, sort_key(v)), high = std::max(high, sort_key(v));
  spare.resize(values.size());
  std::span<T> from = values, to = spare;
  for (int shift = 0; shift < 64 && (high - low) >> shift != 0; shift += 11) {
    std::array<uint32_t, 2048> place{};
    for (const T& v : from) ++place[(sort_key(v) - low) >> shift & 2047];
    uint32_t at = 0;
    for (uint32_t& p : place) at += std::exchange(p, at);
    for (const T& v : from) to[place[(sort_key(v) - low) >> shift & 2047]++] = v;
    std::swap(from, to);
  }
  if (from.data() != values.data()) values.swap(spare);
}

/// Sorts each run of equal keys by `less`.
template <class T, class Key, class Less>
void sort_ties(std::span<T> values, Key key, Less&& less) {
  for (size_t i = 0; i + 1 < values.size();) {
    size_t j = i + 1;
    while (j < values.size() && key(values[j]) == key(values[i])) ++j;
    if (j - i > 1)
      std::sort(values.begin() + static_cast<int64_t>(i), values.begin() + static_cast<int64_t>(j), less);
    i = j;
  }
}

/// `less` compares rows.
template <class Less>
void sort_ties(std::vector<SortKey>& keys, Less&& less) {
  sort_ties(std::span(keys), OwnKey(), [&](const SortKey& a, const SortKey& b) { return less(a.row, b.row); });
}

// Two pieces of work at once.

/// Does both, side by side where there are threads for it.
template <class A, class B>
void side_by_side(int threads, A&& a, B&& b) {
  if (threads < 2) {
    a();
    b();
    return;
  }
  std::thread other(b);
  a();
  other.join();
}

}  // namespace profgpu
