#include "app/compare/history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace profgpu {
namespace {

class HistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("profgpu-history-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "history.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(HistoryTest, KeepsWhatWasSaved) {
  {
    auto history = History::open(path_, true);
    ASSERT_TRUE(history);
    ASSERT_TRUE(history->save({0, "main", 5, "a.json", "host", "abc", 100, 10, std::nullopt}, "{\"one\": 1}"));
    ASSERT_TRUE(history->save({0, "main", 6, "b.json", "", "", 90, 10, 2048}, "{\"two\": 2}"));
    ASSERT_TRUE(history->save({0, "other", 7, "", "", "", {}, {}, {}}, ""));
  }
  auto history = History::open(path_, false);
  ASSERT_TRUE(history);
  const auto runs = history->runs("main");
  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].commit, "abc");
  EXPECT_EQ((*runs)[0].step_mean_ns, 100);
  EXPECT_FALSE((*runs)[0].peak_memory_bytes);
  EXPECT_EQ((*runs)[1].peak_memory_bytes, 2048);
  EXPECT_EQ(history->runs("")->size(), 3u);
  EXPECT_EQ(*history->latest_document("main"), "{\"two\": 2}");
  EXPECT_EQ(*history->latest_document("none"), "");
}

TEST_F(HistoryTest, SeveralWriteAtOnce) {
  std::vector<std::thread> jobs;
  for (int j = 0; j < 4; ++j)
    jobs.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        auto history = History::open(path_, true);
        if (history) (void)history->save({0, "main", i, "", "", "", {}, {}, {}}, "{}");
      }
    });
  for (std::thread& t : jobs) t.join();
  EXPECT_EQ(History::open(path_, false)->runs("main")->size(), 40u);
}

TEST_F(HistoryTest, SaysWhatIsWrongWithAFile) {
  EXPECT_NE(History::open(path_, false).error().message.find("no such file"), std::string::npos);
  std::ofstream(path_) << "this is a text and not a history of runs at all, however long one makes it, it stays a text";
  const auto text = History::open(path_, true);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().hint.find("damaged or no history"), std::string::npos);
  EXPECT_FALSE(History::open((folder_ / "missing" / "x.sqlite").string(), true));
}

}  // namespace
}  // namespace profgpu
