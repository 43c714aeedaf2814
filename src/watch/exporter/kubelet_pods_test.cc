#include "watch/exporter/kubelet_pods.h"

#include <gtest/gtest.h>

#include "watch/exporter/grpc_call.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kNow = 1'767'225'600 * kSecond;

PodsByDevice pods(std::string pod) { return {{{"team", std::move(pod), "main", ""}}}; }

TEST(KubeletAnswers, TheLastOneHoldsForAWhile) {
  KubeletAnswers answers;
  EXPECT_FALSE(answers.up());
  EXPECT_EQ(answers.pods(kNow), nullptr);
  EXPECT_EQ(answers.take(pods("a"), kNow), "");
  EXPECT_TRUE(answers.up());
  EXPECT_EQ(answers.take(Error{"does not answer"}, kNow + 10 * kSecond), "the kubelet: does not answer");
  EXPECT_EQ(answers.take(Error{"is damaged", "a hint"}, kNow + 20 * kSecond), "");  // told once
  EXPECT_FALSE(answers.up());
  EXPECT_EQ(answers.good_at_ns(), kNow);
  EXPECT_EQ(answers.trouble(kNow + 47 * kSecond), "is damaged, for 37 s");
  ASSERT_NE(answers.pods(kNow + 300 * kSecond), nullptr);
  EXPECT_EQ(answers.pods(kNow + 300 * kSecond)->front().front().pod, "a");
  EXPECT_EQ(answers.pods(kNow + 301 * kSecond), nullptr);
  EXPECT_EQ(answers.take(pods("b"), kNow + 400 * kSecond), "the kubelet answers again");
  EXPECT_EQ(answers.pods(kNow + 400 * kSecond)->front().front().pod, "b");
  EXPECT_EQ(answers.trouble(kNow + 400 * kSecond), "");
}

TEST(KubeletAnswers, ASocketThatWasNeverThereIsNoNews) {
  KubeletAnswers answers;
  EXPECT_EQ(answers.take_absence("/s", kNow), "");
  EXPECT_EQ(answers.trouble(kNow), "");
  EXPECT_FALSE(answers.up());
  EXPECT_EQ(answers.take(Error{"/s: Permission denied", "the kubelet's socket is root's"}, kNow),
            "the kubelet: /s: Permission denied (the kubelet's socket is root's)");
  EXPECT_EQ(answers.take_absence("/s", kNow), "");  // the trouble is old
  EXPECT_EQ(answers.trouble(kNow), "/s is gone, for 0 s");
  EXPECT_EQ(answers.take(pods("a"), kNow), "the kubelet answers again");
  EXPECT_EQ(answers.take_absence("/s", kNow), "the kubelet: /s is gone");
}

TEST(GrpcCall, AnAddressThatCannotBe) {
  const std::string path(kLongestSocketPath, 'x');
  EXPECT_FALSE(grpc_call({.socket = path, .method = "/m"}, {}));
  EXPECT_FALSE(grpc_call({.socket = "/nowhere/at.sock", .method = "/m"}, {}));
}

}  // namespace
}  // namespace profgpu
