#include "measure/loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace profgpu {
namespace {

TEST(Loader, FilesThatAreTooLargeAreNoSamples) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("loader_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::vector<std::string> paths;
  for (int i = 0; i < 16; ++i) {
    paths.push_back(folder / std::to_string(i));
    std::ofstream(paths.back()) << "sample";
  }
  const auto figures = [&] {
    Bench bench({}, nullptr);
    measure_loader(bench, paths);
    return bench.result().figures;
  };
  EXPECT_EQ(figures().size(), 1U);
  std::filesystem::resize_file(paths.back(), (uintmax_t{256} << 20) + 1);   // a hole
  EXPECT_TRUE(figures().empty());   // of fifteen
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace profgpu
