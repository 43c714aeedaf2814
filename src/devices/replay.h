// Replay: a file of samples played back as if its devices were here. For demonstrations, tests and bug reports.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace profgpu {

/// "FILE[,loop][,speed=N|max]".
struct ReplayOptions {
  std::string path;
  bool loop = false;
  std::optional<double> speed = 1;   ///< log time for each second; nullopt: one row at each read
};
Result<ReplayOptions> replay_options(std::string_view argument);

}  // namespace profgpu
