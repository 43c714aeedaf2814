#include "app/gather/read_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/simulator.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

class ReadJobTest : public testing::Test {
 protected:
  ReadJobTest() : folder_(fs::temp_directory_path() / ("profgpu_read_" + std::to_string(::getpid()))) {
    fs::create_directory(folder_);
    write(0, 3), write(1, 3);
  }
  ~ReadJobTest() override { fs::remove_all(folder_); }

  void write(int rank, int64_t steps) const {
    sim::SimOptions options;
    options.ranks = 2, options.steps = steps, options.layers = 1;
    std::ofstream(folder_ / (std::to_string(rank) + ".json"), std::ios::binary)
        << sim::kineto_text(sim::simulate(options)->traces[static_cast<size_t>(rank)], {});
  }
  [[nodiscard]] JobRead read(size_t most_kept) const {
    JobOptions options{{folder_.string()}, {}, {}, {}, most_kept};
    options.outline = [](const Facts& facts) { return RankOutline::of(facts); };
    Progress progress;
    return **read_job(options, Processes(), progress);
  }
  fs::path folder_;
};

TEST_F(ReadJobTest, TracesAreKeptUpToABound) {
  EXPECT_EQ(read(2).traces.size(), 2U);
  EXPECT_TRUE(read(1).traces.empty());
}

TEST_F(ReadJobTest, ARankIsReadAgainAsItWas) {
  const JobRead kept = read(2), job = read(0);
  for (const int rank : {0, 1}) {
    const auto again = job.files.read(rank);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->windows, kept.traces.at(rank)->trace.windows);
    EXPECT_EQ(again->activity.start_ns, kept.traces.at(rank)->trace.activity.start_ns);
    EXPECT_EQ(job.outlines.at(rank).events, static_cast<int64_t>(again->host.size() + again->activity.size()));
  }
}

TEST_F(ReadJobTest, AFileThatIsAnotherNowIsAnError) {
  const JobRead job = read(0);
  write(1, 4);
  EXPECT_TRUE(job.files.read(0));
  const auto changed = job.files.read(1);
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("1.json: changed"), std::string::npos) << changed.error().message;
  fs::remove(folder_ / "0.json");
  EXPECT_FALSE(job.files.read(0));
}

}  // namespace
}  // namespace profgpu
