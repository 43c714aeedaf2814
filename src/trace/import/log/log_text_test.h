// For tests of families: a text, read as a log.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "trace/import/log/log_reader.h"

namespace profgpu {

/// Fed in pieces of `piece` bytes.
inline RunLog log_of(std::string_view text, size_t piece = 1 << 20) {
  LogReader reader;
  for (size_t at = 0; at < text.size(); at += piece) {
    std::string padded(text.substr(at, piece));
    const size_t size = padded.size();
    padded.append(64, '\0');
    reader.feed({padded.data(), size});
  }
  reader.end();
  return reader.log();
}

inline const LogStep& only_step(const RunLog& log) { return log.ranks.at(0).steps.at(0); }

/// A line that is a log of one step.
struct StepCase {
  const char* line;
  int64_t number, ns, data_ns;
  double loss;
};

inline void expect_steps(std::span<const StepCase> all) {
  for (const StepCase& c : all) {
    const RunLog log = log_of(c.line);
    ASSERT_EQ(log.ranks.size(), 1u) << c.line;
    EXPECT_EQ(only_step(log).number, c.number) << c.line;
    EXPECT_EQ(only_step(log).duration_ns, c.ns) << c.line;
    EXPECT_EQ(only_step(log).phase(LogPhase::kDataLoading), c.data_ns) << c.line;
    EXPECT_EQ(only_step(log).figures.loss, c.loss) << c.line;
  }
}

}  // namespace profgpu
