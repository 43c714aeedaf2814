// The folder of a recording, and the names in it that one `profgpu run` reserves, so that several at once, on one
// machine or many, do not overwrite each other's files.
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

/// Creates the folder if needed and reserves names in it. The error: it holds a finished recording of this host, or
/// cannot be written. `shared`: a launcher started several profgpu processes, some of which may have finished.
Result<RecordingFolder> take_recording_folder(const std::string& path, bool shared);
/// Removes what take_recording_folder() created, where the command could not be started.
void discard(const RecordingFolder& folder);
/// "profgpu-train-20260102-150405", in the current folder; with -2 and so on where that is taken. `job`: of processes
/// that a launcher started, which need one name: "profgpu-train-JOB".
std::string default_recording_folder(const std::vector<std::string>& command, const std::string& job = "");

/// The host's name as recorded processes write it.
std::string recording_host();
/// The number of processes by a launcher's variables; 0: no launcher, or not set.
int launched_processes();
/// What the launcher calls this job or step: the same in all of its processes, another one in its next start. Empty: no
/// launcher, or it has no such name.
std::string launched_job();
/// Whether the command is a program of MPI: a launcher of MPI has started us, or is what the command starts.
bool runs_mpi(const std::vector<std::string>& command);

// The environment that `profgpu run --trace` gives the command, so that its processes record themselves.

/// What is loaded into recorded processes.
struct RecordingParts {
  std::string library;      ///< libprofgpu-inject.so
  std::string preload;      ///< libprofgpu-preload.so: the same, standing in for functions of MPI, cuBLAS and cuDNN
  std::string python_hook;  ///< folder with the hook's sitecustomize.py; empty: not found
  std::string python_hook_at = {};   ///< where an installation has it
};
/// Beside the program, as it is built and as it is installed. `program`: path of our own executable.
Result<RecordingParts> find_recording_parts(const std::string& program);

struct RecordingRequest {
  std::string folder;        ///< absolute; empty: nothing is recorded
  std::string run;           ///< names the run among those that share the folder
  std::string options;       ///< for PROFGPU_RECORD_OPTIONS
  bool python_hook = true;
  int64_t python_stacks_ns = 0;   ///< between samples; 0: none
  bool preload = false;      ///< LD_PRELOAD too: works beside another user of CUPTI, and records calls of MPI
  bool torch_on_demand = false;
  bool memory = false;       ///< snapshots of PyTorch's allocator
  int torch_steps = 0;       ///< so many steps by PyTorch's own profiler, too
};

struct CommandEnvironment {
  std::vector<std::string> variables;  ///< "NAME=value"
  std::vector<std::string> notes;      ///< what is not recorded because a variable was already set
};

/// Variables already set keep their values; ours go in front of those that are lists.
CommandEnvironment recording_environment(const RecordingRequest& request, const RecordingParts& parts,
                                         const char* const* environment);

/// Empty if it is not set. `variables`: "NAME=value".
template <class Variables>
std::string_view variable_in(const Variables& variables, std::string_view name) {
  for (const std::string_view v : variables)
    if (v.size() > name.size() && v.starts_with(name) && v[name.size()] == '=') return v.substr(name.size() + 1);
  return {};
}

}  // namespace profgpu
