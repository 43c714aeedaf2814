#include "analyse/measured.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "analyse/steps.h"
#include "import/importer.h"
#include "support/hand_trace.h"

namespace profgpu {
namespace {

int64_t sum(const Measured& m) {
  int64_t all = 0;
  for (const auto& phase : m.makeup_ns) all = std::accumulate(phase.begin(), phase.end(), all);
  return all;
}

TEST(Measured, MakeupAddsUpToTheWallTimeOfTheMeasuredSteps) {
  std::vector<std::string> files = {"examples/resnet-demo.json.gz"};
  if (std::filesystem::exists("../shared/traces"))
    for (const auto& entry : std::filesystem::directory_iterator("../shared/traces"))
      if (entry.is_regular_file() && entry.file_size() < (4u << 20)) files.push_back(entry.path());
  int checked = 0;
  for (const std::string& file : files) {
    const auto imported = import_file(file, {});
    if (!imported) continue;
    const Facts facts(imported->trace, {});
    const Measured& m = facts.get<Measured>();
    EXPECT_EQ(m.wall_ns, facts.get<Steps>().measured_wall_ns()) << file;
    EXPECT_EQ(sum(m), m.wall_ns) << file;
    for (size_t p = 0; p < kPhases; ++p)
      EXPECT_EQ(m.phases[p].total_ns, facts.get<Phases>().measured_wall_ns[p]) << file;
    ++checked;
  }
  EXPECT_GE(checked, 1);
}

}  // namespace
}  // namespace profgpu
