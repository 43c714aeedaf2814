#include "measure/rank_exchange.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace profgpu {
namespace {

constexpr int64_t kPatience_ns = 60'000'000'000;

LaunchedRank one_of_two(int rank, const std::string& job) {
  LaunchedRank l;
  l.rank = l.local_rank = rank, l.ranks = 2, l.job = job + std::to_string(::getpid());
  return l;
}

TEST(RankExchange, RanksOfDifferentParentsMeetByAFile) {
  const std::string file = ::testing::TempDir() + "rank_exchange_" + std::to_string(::getpid());
  std::thread other([&] {
    const auto one = RankExchange::connect(one_of_two(1, "a parent "), file, kPatience_ns);
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_TRUE((*one)->gather("one"));
  });
  {
    const auto zero = RankExchange::connect(one_of_two(0, "another parent "), file, kPatience_ns);
    EXPECT_TRUE(zero) << zero.error().message;
    const auto all = zero ? (*zero)->gather("zero") : Result<std::vector<std::string>>(zero.error());
    EXPECT_TRUE(all);
    if (all) {
      EXPECT_EQ(*all, (std::vector<std::string>{"zero", "one"}));
    }
  }
  other.join();
}

TEST(RankExchange, AFailureStays) {
  LaunchedRank launched = one_of_two(0, "a failure stays ");
  launched.one_host = true;
  // Too long for a message. What is behind its length looks like a message of two bytes.
  std::string text(size_t{4} << 20, '\0');
  text[0] = 2;
  std::thread other([&] {
    LaunchedRank one = launched;
    one.rank = 1;
    const auto exchange = RankExchange::connect(one, "", kPatience_ns);
    ASSERT_TRUE(exchange) << exchange.error().message;
    EXPECT_FALSE((*exchange)->gather(text));
  });
  {
    const auto zero = RankExchange::connect(launched, "", kPatience_ns);
    EXPECT_TRUE(zero) << zero.error().message;
    if (zero)
      for (int i = 0; i < 2; ++i) {
        const auto all = (*zero)->gather("");
        EXPECT_EQ(all ? "" : all.error().message.substr(0, 8), "rank 1 (");
      }
  }
  other.join();
}

}  // namespace
}  // namespace profgpu
