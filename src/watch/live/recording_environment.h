// What `profgpu run --trace` puts into the environment of the command, so that its processes record themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// What is loaded into recorded processes.
struct RecordingParts {
  std::string library;      ///< libprofgpu-inject.so
  std::string python_hook;  ///< folder with the hook's sitecustomize.py; empty: not found
};
/// Beside the program, as it is built and as it is installed. `program`: path of our own executable.
Result<RecordingParts> find_recording_parts(const std::string& program);
/// Of the running program; empty if the kernel does not say.
std::string own_program();

struct RecordingRequest {
  std::string folder;        ///< absolute; empty: nothing is recorded
  std::string run;           ///< names the run among those that share the folder
  std::string options;       ///< for PROFGPU_RECORD_OPTIONS
  bool python_hook = true;
  bool preload = false;      ///< LD_PRELOAD too: works beside another user of CUPTI
  bool torch_on_demand = false;
};

struct CommandEnvironment {
  std::vector<std::string> variables;  ///< "NAME=value"
  std::vector<std::string> notes;      ///< what is not recorded because somebody else has set a variable
};

/// Variables that others have set keep their value; those that are lists get ours put in front.
CommandEnvironment recording_environment(const RecordingRequest& request, const RecordingParts& parts,
                                         const char* const* environment);

/// Empty if the name is not there. `variables`: "NAME=value".
std::string_view variable(const std::vector<std::string>& variables, std::string_view name);

}  // namespace profgpu
