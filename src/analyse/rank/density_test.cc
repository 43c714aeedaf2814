#include "analyse/rank/track_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace profgpu {
namespace {

struct Event {
  int64_t start, end;
  uint8_t category;
};

// Nanosecond by nanosecond: an instant is the event's that started last among those that have not ended.
PageDensity slow_density(const std::vector<Event>& events, int64_t bin_ns, size_t bins) {
  PageDensity out{bin_ns, std::vector<uint8_t>(bins), std::vector<uint8_t>(bins)};
  for (size_t b = 0; b < bins; ++b) {
    std::vector<int64_t> by_category(DensityBins::kCategories);
    int64_t covered = 0;
    for (int64_t t = static_cast<int64_t>(b) * bin_ns; t < static_cast<int64_t>(b + 1) * bin_ns; ++t) {
      const Event* owner = nullptr;
      for (const Event& e : events)
        if (e.start <= t && t < e.end) owner = &e;
      if (!owner) continue;
      ++covered;
      ++by_category[owner->category];
    }
    if (covered == 0) continue;
    out.category[b] =
        static_cast<uint8_t>(std::max_element(by_category.begin(), by_category.end()) - by_category.begin());
    out.busy[b] =
        static_cast<uint8_t>(std::max(1.0, static_cast<double>(covered) / static_cast<double>(bin_ns) * 255 + 0.5));
  }
  return out;
}

PageDensity density(const std::vector<Event>& events, int64_t bin_ns, size_t bins) {
  DensityBins d(bin_ns, bins);
  for (const Event& e : events) d.add(e.start, e.end, e.category);
  return d.finish();
}

// Ranges below `depth` others, as threads have them.
void add_nested(std::mt19937& random, int64_t start, int64_t end, int depth, std::vector<Event>& out) {
  for (int64_t at = start; at < end;) {
    const int64_t from = std::min(end, at + static_cast<int64_t>(random() % 7));
    const int64_t to = std::min(end, from + 1 + static_cast<int64_t>(random() % 40));
    if (from >= to) return;
    out.push_back({from, to, static_cast<uint8_t>(random() % 5)});
    if (depth > 0) add_nested(random, from, to, depth - 1, out);
    at = to;
  }
}

TEST(Density, IsThatOfTheSlowReference) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Event> events;
    add_nested(random, 0, 500, 3, events);
    const auto bin_ns = static_cast<int64_t>(1 + random() % 60);
    const auto bins = static_cast<size_t>(random() % 30 + 1);
    const PageDensity fast = density(events, bin_ns, bins), slow = slow_density(events, bin_ns, bins);
    ASSERT_EQ(fast.busy, slow.busy) << round;
    ASSERT_EQ(fast.category, slow.category) << round;
  }
}

TEST(Density, EventsThatOverlapWithoutNestingCountOnce) {
  const PageDensity d = density({{0, 60, 1}, {40, 90, 2}, {50, 55, 3}}, 100, 1);
  EXPECT_EQ(d.busy[0], 230);   // 90 of 100
  EXPECT_EQ(d.category[0], 2);
}

TEST(Density, OneNanosecondOfABinShows) {
  const PageDensity d = density({{5, 6, 4}}, 1'000'000, 2);
  EXPECT_EQ(d.busy, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(d.category[0], 4);
}

TEST(Density, WhatLiesBehindTheLastBinIsLeftOut) {
  const PageDensity d = density({{0, 1000, 1}, {900, INT64_MAX, 2}}, 10, 3);
  EXPECT_EQ(d.busy, (std::vector<uint8_t>{255, 255, 255}));
}

}  // namespace
}  // namespace profgpu
