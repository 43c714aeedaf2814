#include "base/start_up_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>

namespace profgpu {
namespace {

constexpr size_t kBytes = 1 << 20;
// Constants that nothing but the test reads. The first byte keeps them out of the zeros that no file has.
alignas(4096) constexpr unsigned char kConstants[kBytes] = {1};

/// Resident kB of the mapping that `address` is in; -1: there is none.
int64_t resident_kb(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool within = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0, end = 0;
    long long kb = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<uintptr_t>(address);
      within = begin <= at && at < end;
    } else if (within && std::sscanf(line.c_str(), "Rss: %lld", &kb) == 1) {
      return kb;
    }
  }
  return -1;
}

// What the program wrote over what its file has: the file does not bring it back.
unsigned char written[8192] = {1};

int64_t sum_of_constants() { return std::accumulate(kConstants, kConstants + kBytes, int64_t{0}); }

TEST(StartUpMemory, ConstantsGoAndComeBack) {
  const volatile unsigned char* const constants = kConstants;
  for (size_t i = 0; i < kBytes; i += 4096) EXPECT_EQ(constants[i], i == 0 ? 1 : 0);
  const int64_t before = resident_kb(kConstants);
  ASSERT_GE(before, int64_t{kBytes / 1024});
  release_start_up_memory();
  EXPECT_LE(resident_kb(kConstants), before - int64_t{kBytes / 1024} / 2);
  EXPECT_EQ(sum_of_constants(), 1);
}

TEST(StartUpMemory, WhatIsInUseStays) {
  volatile unsigned char* const bytes = written;   // the compiler does not see that they are read again
  for (size_t i = 0; i < sizeof written; ++i) bytes[i] = 7;
  release_start_up_memory();
  size_t kept = 0;
  for (size_t i = 0; i < sizeof written; ++i) kept += bytes[i] == 7;
  EXPECT_EQ(kept, sizeof written) << "what is in use stays";
}

}  // namespace
}  // namespace profgpu
