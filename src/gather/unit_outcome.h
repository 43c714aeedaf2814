// What came of reading one unit of an input.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gather/rank_result.h"
#include "import/input_units.h"
#include "job/rank_outline.h"

namespace profgpu {

struct UnitOutcome {
  std::optional<Error> error;                ///< a file that the user named cannot be read
  std::vector<std::string> left_out;
  std::vector<InputPart> parts;
  /// Of all parts that are traces, where they are one rank for all that they say themselves.
  std::optional<RankResult> result;
  std::optional<RankOutline> outline;        ///< with the result, where asked for
  std::unique_ptr<TraceFacts> trace;         ///< likewise
  std::vector<SampleLog> samples;            ///< of parts that are samples, in their order
};

/// What one of several processes read.
struct ShareRead {
  uint64_t names = 0;                        ///< of all files that it saw
  std::vector<std::pair<size_t, UnitOutcome>> outcomes;   ///< by place of the unit
};

/// For other processes. Samples are left out: whoever needs them reads them again. So are outlines and traces, which
/// nobody asks several processes for.
std::string encoded(const ShareRead& share);
/// The error: not what encoded() wrote.
Result<ShareRead> decoded_share(const std::string& bytes);

}  // namespace profgpu
