// What the program's exit status says. Documented in the manual page; scripts rely on it.
#pragma once

namespace profgpu {

enum class ExitCode : int {
  kOk = 0,           ///< done, even if the report is partial
  kFailed = 1,       ///< nothing to report; standard error says why
  kUsage = 2,        ///< the command line cannot be understood
  kFindings = 3,     ///< a finding at or above --fail-on
  kInterrupted = 130 ///< Ctrl-C
};

}  // namespace profgpu
