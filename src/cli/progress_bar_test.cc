#include "cli/progress_bar.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(ProgressLine, ShowsTheShareThatIsDone) {
  Progress progress;
  EXPECT_EQ(progress_line(progress), "reading  0 MB");
  progress.total_bytes = 200'000'000;
  progress.done_bytes = 100'000'000;
  EXPECT_EQ(progress_line(progress),
            "reading  [" + std::string(15, '#') + std::string(15, ' ') + "]  50 %  100 of 200 MB");
  progress.done_bytes = 300'000'000;
  progress.stage = "analysing";
  EXPECT_EQ(progress_line(progress), "analysing  [" + std::string(30, '#') + "]  100 %  300 of 200 MB")
      << "never over 100 %";
}

}  // namespace
}  // namespace profgpu
