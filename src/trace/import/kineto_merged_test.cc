#include "trace/import/kineto_merged.h"

#include <gtest/gtest.h>

#include "trace/import/kineto_event.h"

namespace profgpu {
namespace {

using Labels = std::set<std::string, std::less<>>;

TEST(RankLabel, StandsBeforeTheProcess) {
  EXPECT_EQ(rank_label("[TP00-DP01] 83"), "TP00-DP01");
  EXPECT_EQ(rank_label("[TP00] Spans"), "TP00");
}

TEST(RankLabel, IsNoneOfDamagedText) {
  for (const char* pid : {"83", "", "[", "[TP00", "[TP00 83", "[] 83", "[TP00]", "[TP00] ", "[TP00]83", "[T\\u0050] 8"})
    EXPECT_EQ(rank_label(pid), "") << pid;
  EXPECT_EQ(rank_label("[" + std::string(100, 'T') + "] 83"), "");
}

TEST(RankLabel, IsLookedForInPidsAlone) {
  EXPECT_EQ(labels_in(R"({"pid": "[TP00] 83", "name": "[TP02] 1"}, {"pid":"[TP01] 83"}, {"pid": 7})"),
            (Labels{"TP00", "TP01"}));
  EXPECT_EQ(labels_in(R"({"name": "\"pid\": \"[TP00] 83\"", "x": "pid", "pid": "[TP0)"), Labels());
}

}  // namespace
}  // namespace profgpu
