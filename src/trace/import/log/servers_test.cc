// Lines of servers that answer requests.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <utility>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

TEST(Servers, TensorRtLlmWithinTritonAndTextGenerationInference) {
  const RunLog triton = log_of(
      R"(I0506 10:00:00.000000 1 model_instance_state.cc:969] "{\"Active Request Count\":99,\"Iteration Counter\":392,\"Max Request Count\":256,\"Scheduled Requests\":5,\"Max KV cache blocks\":40,\"Used KV cache blocks\":31}")"
      "\n");
  ASSERT_EQ(triton.serving.size(), 1u);
  EXPECT_EQ(triton.serving[0].program, "tensorrt_llm");
  EXPECT_EQ(triton.serving[0].running, 5);
  EXPECT_EQ(triton.serving[0].waiting, 94);
  EXPECT_EQ(triton.serving[0].cache_pct, 77.5);
  for (const auto& [each, rate] : {std::pair("20ms", 50.0), std::pair("2s", 0.5), std::pair("500µs", 2000.0)}) {
    const RunLog tgi = log_of(fmt::format("2024-05-06T10:00:00.798333Z  INFO generate{{total_time=\"3.05s\" queue_time=\"49.3µs\" "
                                          "inference_time=\"3.05s\" time_per_token=\"{}\" seed=\"None\"}}: "
                                          "text_generation_router::server: Success\n", each));
    ASSERT_EQ(tgi.serving.size(), 1u) << each;
    EXPECT_NEAR(*tgi.serving[0].generated_tokens_per_s, rate, 1e-6) << each;
  }
}

TEST(Servers, PreemptionsOfSeveralEnginesWithoutLabels) {
  const auto engine = [](int rank) {
    return fmt::format("INFO 05-01 12:00:00 [loggers.py:116] Engine {:03d}: Avg prompt throughput: 10.0 tokens/s, Avg generation "
                       "throughput: 20.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 5.0%\n", rank);
  };
  const std::string preempted = "WARNING 05-01 12:00:00 scheduler.py:1754] Sequence group 4-0 is preempted. "
                                "total_num_cumulative_preemption=51\n";
  EXPECT_TRUE(log_of(engine(0) + engine(1) + preempted).preempted_mixed);
  EXPECT_FALSE(log_of(engine(0) + engine(0) + preempted).preempted_mixed);
}

}  // namespace
}  // namespace profgpu
