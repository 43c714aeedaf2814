// What `profgpu doctor` finds out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collect/system_checks.h"

namespace profgpu {

/// One way to read devices, and whether it works here.
struct BackendFinding {
  std::string_view name, summary;
  enum State { kWorks, kNotThere, kSilent, kNotTried } state = kNotTried;
  std::string detail, hint;
  size_t devices = 0;
};
std::string_view backend_state_name(BackendFinding::State state);

struct DoctorFindings {
  std::vector<BackendFinding> backends;
  SystemChecks checks;
  bool stuck = false;          ///< something has not come back: leave by std::_Exit
};

/// `backend`: "auto" tries all; else as --backend takes it. `words`: what --device gave. At most six seconds.
DoctorFindings examine(const std::string& backend, const std::vector<std::string>& words);

}  // namespace profgpu
