// The folder of a recording: the names in it that `profgpu run` takes for itself, so that several at once, on one
// machine or many, do not harm each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace profgpu {

struct RecordingFolder {
  std::string path;       ///< absolute
  std::string host;       ///< as it stands in file names
  std::string session;    ///< session.json, or session-HOST.json and so on where that is taken
  std::string samples, summary;
  std::string host_file;  ///< HOST-host.pgt
  bool made = false;      ///< was not there before
};

/// Makes the folder where it is not there, and takes names in it. An error if it holds a recording of this host that
/// has ended, or cannot be written. `shared`: a launcher started several of us, who may have ended before.
Result<RecordingFolder> take_recording_folder(const std::string& path, bool shared);
/// Takes back what take_recording_folder() made, where the command could not be started.
void discard(const RecordingFolder& folder);
/// "profgpu-train-20260102-150405", in the current folder; with -2 and so on where that is taken.
std::string default_recording_folder(const std::vector<std::string>& command);

/// The host's name as recorded processes write it.
std::string recording_host();
/// What a launcher says of how many processes there are; 0: no launcher, or it does not say.
int launched_processes();

// What `profgpu run --trace` puts into the environment of the command, so that its processes record themselves.

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
  int64_t python_stacks_ns = 0;   ///< between samples; 0: none
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
