// The command line of kineto-sim.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "tests/support/simulator.h"

namespace profgpu::sim {

extern const char* const kSimHelp;

/// What a job's folder has wrong with it: all of it by rank.
struct Damage {
  std::vector<std::pair<int, int>> truncated;   // to so many per cent of its text
  std::vector<int> doubled;                     // a copy under another name
  std::vector<int> of_another_run;              // an hour later, other steps, other noise
  std::vector<int> missing;
};

struct SimArguments {
  SimOptions sim;
  KinetoStyle style;
  Damage damage;
  std::string out;
  int64_t target_bytes = 0;
  double excess_pct = 0;   // 0: the fault's severity as given
  int only_rank = -1, threads = 0;   // 0: as many as there are cores
  bool ranks_given = false, truth = true, samples = false;
};

Result<SimArguments> parse_arguments(int count, char** words);

}  // namespace profgpu::sim
