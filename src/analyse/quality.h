// What is missing or wrong in a trace, as far as the tables can tell. Text damage is the importer's to say.
#pragma once

#include "analyse/facts.h"

namespace profgpu {

struct Quality {
  std::vector<TraceIssue> issues;
  /// Device time of activity whose launch is not in the file, as a share of busy time, 0..100.
  double unlaunched_pct = 0;
  static Quality compute(const Facts& facts);
};

}  // namespace profgpu
