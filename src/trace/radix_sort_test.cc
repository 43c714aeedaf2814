#include "trace/radix_sort.h"

#include <gtest/gtest.h>

#include <random>

namespace profgpu {
namespace {

// Few sorted runs, many, and none; keys near each other and far apart; ties.
TEST(RadixSort, IsStableWhateverTheKeysAreMadeOf) {
  std::mt19937_64 random(7);
  for (const size_t size : {0, 1, 2, 9, 300, 5000})
    for (const size_t runs : {1, 2, 3, 4, 7, 8, 9, 5000})
      for (const uint64_t range : {uint64_t{3}, uint64_t{100000}, UINT64_MAX}) {
        std::vector<SortKey> keys(size);
        for (size_t i = 0; i < size; ++i) keys[i] = {random() % range, static_cast<uint32_t>(i)};
        const auto by_key = [](const SortKey& a, const SortKey& b) { return a.key < b.key; };
        for (size_t r = 0; r < runs && runs < 5000; ++r)
          std::sort(keys.begin() + static_cast<int64_t>(size * r / runs),
                    keys.begin() + static_cast<int64_t>(size * (r + 1) / runs), by_key);
        for (size_t i = 0; i < size; ++i) keys[i].row = static_cast<uint32_t>(i);
        std::vector<SortKey> expected = keys;
        std::stable_sort(expected.begin(), expected.end(), by_key);
        radix_sort(keys);
        for (size_t i = 0; i < size; ++i)
          ASSERT_EQ(keys[i].row, expected[i].row) << size << " keys in " << runs << " runs";
      }
}

}  // namespace
}  // namespace profgpu
