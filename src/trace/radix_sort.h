// Stable sort of rows by a 64-bit key. Budget: 4 ns a row and pass; where the keys are a few sorted runs, passes that
// merge them, else as many of 11 bits as the keys differ in.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace profgpu {

struct SortKey {
  uint64_t key;
  uint32_t row;
};

/// Merges the sorted runs that `keys` is made of: files have events by time, but calls after ops. False, and nothing is
/// done, where the runs are many.
inline bool merge_runs(std::vector<SortKey>& keys) {
  constexpr size_t kMaxRuns = 8;
  const auto by_key = [](const SortKey& a, const SortKey& b) { return a.key < b.key; };
  std::vector<size_t> bounds = {0};
  while (bounds.back() < keys.size()) {
    if (bounds.size() > kMaxRuns) return false;
    const auto end = std::is_sorted_until(keys.begin() + static_cast<int64_t>(bounds.back()), keys.end(), by_key);
    bounds.push_back(static_cast<size_t>(end - keys.begin()));
  }
  std::vector<SortKey> other;
  while (bounds.size() > 2) {
    other.resize(keys.size());
    std::vector<size_t> joined = {0};
    for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
      const size_t end = bounds[std::min(i + 2, bounds.size() - 1)];
      std::merge(keys.data() + bounds[i], keys.data() + bounds[i + 1], keys.data() + bounds[i + 1], keys.data() + end,
                 other.data() + bounds[i], by_key);
      joined.push_back(end);
    }
    keys.swap(other);
    bounds = std::move(joined);
  }
  return true;
}

inline void radix_sort(std::vector<SortKey>& keys) {
  const auto by_key = [](const SortKey& a, const SortKey& b) { return a.key < b.key; };
  if (merge_runs(keys)) return;
  if (keys.size() < 512) {
    std::stable_sort(keys.begin(), keys.end(), by_key);
    return;
  }
  uint64_t low = UINT64_MAX, high = 0;
  for (const SortKey& k : keys) low = std::min(low, k.key), high = std::max(high, k.key);
  std::vector<SortKey> other(keys.size());
  for (int shift = 0; shift < 64 && (high - low) >> shift != 0; shift += 11) {
    std::array<uint32_t, 2048> place{};
    for (const SortKey& k : keys) ++place[(k.key - low) >> shift & 2047];
    uint32_t at = 0;
    for (uint32_t& p : place) at += std::exchange(p, at);
    for (const SortKey& k : keys) other[place[(k.key - low) >> shift & 2047]++] = k;
    keys.swap(other);
  }
}

/// Sorts each run of equal keys by `less`, which compares rows.
template <class Less>
void sort_ties(std::vector<SortKey>& keys, Less&& less) {
  for (size_t i = 0; i + 1 < keys.size();) {
    size_t j = i + 1;
    while (j < keys.size() && keys[j].key == keys[i].key) ++j;
    if (j - i > 1)
      std::sort(keys.begin() + static_cast<int64_t>(i), keys.begin() + static_cast<int64_t>(j),
                [&](const SortKey& a, const SortKey& b) { return less(a.row, b.row); });
    i = j;
  }
}

/// Signed values in the order of unsigned ones.
inline uint64_t ordered(int64_t v) { return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63); }

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
