#include "analyse/rank/rank_report.h"

#include <gtest/gtest.h>

#include "support/hand_trace.h"

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

/// Steps that train take 100 us, those that evaluate or are empty 30. The kinds as letters.
std::string note_of(std::string_view kinds) {
  HandTrace hand;
  int64_t at = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const bool trains = kinds[i] == 't';
    hand.range("ProfilerStep#" + std::to_string(i), at, at + (trains ? 100 : 30));
    if (kinds[i] != '.') hand.op("aten::mm", at + 1, at + 5);
    if (trains) hand.op("autograd::engine::evaluate_function: MmBackward0", at + 10, at + 20);
    at += trains ? 100 : 30;
  }
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  for (const TraceIssue& i : facts.get<Quality>().issues)
    if (i.kind == TraceIssueKind::kNote) return i.text;
  return "";
}

TEST(Quality, SaysWhichStepsAveragesAreOf) {
  EXPECT_EQ(note_of("tttttt"), "");
  EXPECT_EQ(note_of("eeee"), "");
  EXPECT_EQ(note_of("tttttt."), "") << "the profiler's last step is empty";
  EXPECT_EQ(note_of("ttttteee"),
            "averages are over steps of training (5) and of evaluation (3): --steps 0:5 selects training");
  EXPECT_EQ(note_of("eettteett"), "averages are over steps of training (5) and of evaluation (4)");
  EXPECT_EQ(note_of("ttteeeee"),
            "training steps (3) are longer than those of evaluation and count as warm-up, so averages are of evaluation "
            "alone: --steps 0:3 selects training");
}

std::string steps_advice(const Trace& trace) {
  const Facts facts(trace, {});
  for (const TraceIssue& i : facts.get<Quality>().issues)
    if (i.kind == TraceIssueKind::kNoSteps) return i.text;
  return "";
}

TEST(Quality, OfAProgramThatIsNotPythonStepsAreNvtxRanges) {
  HandTrace c, python;
  c.range("work", 0, 100).call("cudaLaunchKernel", 5, 10, "solver");
  python.range("work", 0, 100).call("cudaLaunchKernel", 5, 10, "python3");
  Trace of_c = c.build(), of_python = python.build();
  of_c.recorded = of_python.recorded = true;
  of_python.threads.back().name = "python3";
  EXPECT_NE(steps_advice(of_c).find("nvtxRangePushA"), std::string::npos) << steps_advice(of_c);
  EXPECT_NE(steps_advice(of_python).find("use profgpu.step() once per step"), std::string::npos) << steps_advice(of_python);
}

}  // namespace
}  // namespace profgpu
