#include "analyse/flame.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

int64_t sum(const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); }

int64_t roots(const PageFlame& f, const std::vector<int64_t>& v) {
  int64_t total = 0;
  for (size_t i = 0; i < v.size(); ++i)
    if (f.parent[i] == 0) total += v[i];
  return total;
}

TEST(Flame, CallsOfOneNameBelowOneParentAreTogether) {
  TraceRows rows;
  rows.annotation("ProfilerStep#1", 0, 100).python("train.py: step", 5, 90).op("aten::mm", 10, 30);
  rows.call("cudaLaunchKernel", 20, 10, 1).op("aten::mm", 50, 20);
  rows.annotation("ProfilerStep#2", 100, 50).python("train.py: step", 100, 50);
  rows.kernel("sgemm", 60, 500, 1);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  PageStrings strings;
  const std::vector<PageFlame> all = flames(facts, strings);
  ASSERT_EQ(all.size(), 1U);
  const PageFlame& f = all[0];
  std::vector<std::string> names;
  for (const uint32_t n : f.name) names.push_back(strings[n]);
  EXPECT_EQ(names, (std::vector<std::string>{"ProfilerStep*", "train.py: step", "aten::mm", "cudaLaunchKernel"}));
  EXPECT_EQ(f.parent, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(f.calls, (std::vector<int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(f.total_ns, (std::vector<int64_t>{150, 140, 50, 10}));
  EXPECT_EQ(f.self_ns, (std::vector<int64_t>{10, 90, 40, 10}));
  EXPECT_EQ(f.device_ns, (std::vector<int64_t>{500, 500, 500, 500}));
}

TEST(Flame, SmallPartsAreJoinedAndSumsStay) {
  TraceRows rows;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "f" + std::to_string(i);
    rows.op(name, 1000 * i, 100 + i).op("inner", 1000 * i + 10, 50).call("launch", 1000 * i + 20, 5, static_cast<uint32_t>(i + 1));
    rows.kernel("k", 1000 * i + 100, 7, static_cast<uint32_t>(i + 1));
  }
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  PageStrings strings;
  const PageFlame whole = flames(facts, strings).at(0), small = flames(facts, strings, 50).at(0);
  EXPECT_EQ(whole.parent.size(), 600U);
  EXPECT_LE(small.parent.size(), 101U);
  for (const PageFlame* f : {&whole, &small}) {
    EXPECT_EQ(roots(*f, f->total_ns), 200 * 100 + 199 * 100);
    EXPECT_EQ(sum(f->self_ns), roots(*f, f->total_ns));
    EXPECT_EQ(roots(*f, f->device_ns), 200 * 7);
  }
}

}  // namespace
}  // namespace profgpu
