#include "analyse/rank/rank_report.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

std::string without_activity(const Trace& trace) {
  const Facts facts(trace, {});
  for (const TraceIssue& i : facts.get<Quality>().issues)
    if (i.kind == TraceIssueKind::kNoDeviceActivity) return i.text;
  return {};
}

TEST(Quality, WithoutActivityItAsksForTheProfilersSwitch) {
  Trace trace;
  EXPECT_NE(without_activity(trace).find("was ProfilerActivity.CUDA on?"), std::string::npos);
  trace.recorded = true;
  EXPECT_EQ(without_activity(trace).find("ProfilerActivity"), std::string::npos);
}

TEST(Quality, WhereTheEndIsCutOffActivityMayHaveBeenThere) {
  Trace trace;
  trace.cut_off = true;
  const std::string text = without_activity(trace);
  EXPECT_EQ(text.find("ProfilerActivity"), std::string::npos) << text;
  EXPECT_NE(text.find("in the part that is cut off"), std::string::npos) << text;
}

}  // namespace
}  // namespace profgpu
