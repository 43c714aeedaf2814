#include "watch/live/recording_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "analyse/report/document.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "base/descriptor.h"
#include "base/dyn_lib.h"
#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxNames = 1000;

bool is_plain(char c) { return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.'; }

// 0, or errno.
int take_name(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) ? 0 : errno;
}

// Whether the file describes a finished run on `host`: it has an end, or its process is gone.
bool is_over(const std::string& path, const std::string& host) {
  const auto text = file_text(path, 1 << 20);
  if (!text || text->empty()) return false;
  const auto value = value_from_json(*text);
  const Record* session = value ? value->record() : nullptr;
  const std::string* its_host = session ? session->at("host").text() : nullptr;
  if (!its_host || *its_host != host) return false;
  if (!session->at("ended_unix_ns").is_null()) return true;
  const int64_t* pid = session->at("pid").integer();
  return pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
}

Status refuse_earlier(const std::string& path, const std::string& host) {
  for (const std::string& name : folder_names(path))
    if (name.starts_with("session") && name.ends_with(".json") && is_over(path + "/" + name, host))
      return Error{path + ": holds an earlier recording", "name another folder with -o, or remove this one"};
  return ok();
}

}  // namespace

std::string recording_host() {
  utsname system{};
  ::uname(&system);
  std::string host = system.nodename;
  for (size_t i = 0; i < host.size(); ++i)
    if (!is_plain(host[i]) || (host[i] == '.' && i == 0)) host[i] = '_';
  return host.empty() ? "localhost" : host;
}

int launched_processes() {
  for (const char* name :
       {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (const char* value = std::getenv(name); value && *value)
      if (const auto n = whole_number(value); n && *n > 0 && *n < INT32_MAX) return static_cast<int>(*n);
  return 0;
}

std::string launched_job() {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"})
    if (const char* value = std::getenv(name); value && *value) return value;
  const char *job = std::getenv("SLURM_JOB_ID"), *step = std::getenv("SLURM_STEP_ID");
  return job && *job && step && *step ? fmt::format("{}.{}", job, step) : "";
}

bool runs_mpi(const std::vector<std::string>& command) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"})
    if (const char* value = std::getenv(name); value && *value) return true;
  constexpr std::string_view kLaunchers[] = {"mpirun", "mpiexec", "orterun", "prterun", "prun"};
  if (command.empty()) return false;
  const std::string_view first = base_name(command.front());   // "mpiexec.hydra", "mpirun.openmpi"
  return std::ranges::count(kLaunchers, first.substr(0, first.find('.'))) > 0;
}

std::string default_recording_folder(const std::vector<std::string>& command, const std::string& job) {
  // The script rather than its interpreter: the first word that names one, else the first program.
  std::string name;
  for (const std::string& word : command) {
    if (word.starts_with("-")) continue;
    const std::string_view last = base_name(word);
    if (name.empty()) name = last;
    if (last.ends_with(".py") || last.ends_with(".sh")) {
      name = last.substr(0, last.size() - 3);
      break;
    }
  }
  for (char& c : name)
    if (!is_plain(c)) c = '_';
  if (!job.empty()) {
    std::string word = job.substr(job.size() > 64 ? job.size() - 64 : 0);
    for (char& c : word)
      if (!is_plain(c)) c = '_';
    return "profgpu-" + name.substr(0, 64) + "-" + word;
  }
  const std::string base = "profgpu-" + name.substr(0, 64) + "-" + formatted_time(unix_ns(), "%Y%m%d-%H%M%S");
  std::string path = base;
  for (int i = 2; ::access(path.c_str(), F_OK) == 0 && i < kMaxNames; ++i) path = base + "-" + std::to_string(i);
  return path;
}

Result<RecordingFolder> take_recording_folder(const std::string& path, bool shared) {
  RecordingFolder folder;
  std::error_code error;
  folder.made = fs::create_directories(path, error);
  if (error) return Error{path + ": cannot be created: " + error.message(), "choose another folder with -o"};
  folder.path = fs::canonical(path, error).string();
  if (error) return Error{path + ": cannot be read: " + error.message()};
  folder.host = recording_host();
  if (!shared)
    if (auto status = refuse_earlier(folder.path, folder.host); !status) return status.error();
  const std::string own = folder.host + "-" + std::to_string(::getpid());
  for (int i = 0; i < kMaxNames; ++i) {
    const std::string suffix = i == 0   ? ""
                               : i == 1 ? "-" + folder.host
                               : i == 2 ? "-" + own
                                        : "-" + own + "-" + std::to_string(i - 1);
    folder.session = folder.path + "/session" + suffix + ".json";
    const int problem = take_name(folder.session);
    if (problem == EEXIST) continue;
    if (problem != 0) {
      if (folder.made) ::rmdir(folder.path.c_str());
      return Error{folder.path + ": cannot be written: " + std::strerror(problem)};
    }
    folder.samples = folder.path + "/samples" + suffix + ".jsonl";
    folder.summary = folder.path + "/summary" + suffix + ".json";
    folder.host_file = folder.path + "/" + (i < 2 ? folder.host : suffix.substr(1)) + "-host.pgt";
    int taken = take_name(folder.host_file);
    if (taken == EEXIST) {   // by another run on this host
      folder.host_file = folder.path + "/" + own + "-host.pgt";
      taken = take_name(folder.host_file);
    }
    if (taken == 0) return folder;
    ::unlink(folder.session.c_str());
    return Error{folder.host_file + ": cannot be written: " + std::strerror(taken)};
  }
  return Error{folder.path + ": holds too many recordings", "name another folder with -o"};
}

void discard(const RecordingFolder& folder) {
  for (const std::string& path : {folder.session, folder.samples, folder.summary, folder.host_file})
    ::unlink(path.c_str());
  if (folder.made) ::rmdir(folder.path.c_str());
}

namespace {

constexpr const char* kLibrary = "libprofgpu-inject.so";
constexpr const char* kPreloadLibrary = "libprofgpu-preload.so";

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::string first_file(const std::vector<std::string>& paths) {
  const auto it = std::find_if(paths.begin(), paths.end(), is_file);
  std::error_code error;
  return it == paths.end() ? "" : std::filesystem::canonical(*it, error).string();
}

// Our library in any folder: a `profgpu run` inside another finds the variables set to it.
bool is_ours(std::string_view value) {
  return base_name(value) == kLibrary || base_name(value) == kPreloadLibrary;
}

using Variables = std::vector<std::string>;

void set(Variables& variables, std::string_view name, const std::string& value) {
  const std::string begin = std::string(name) + "=";
  std::erase_if(variables, [&](const std::string& v) { return v.starts_with(begin); });
  variables.push_back(begin + value);
}

void prepend(Variables& variables, std::string_view name, const std::string& value) {
  const std::string rest(variable_in(variables, name));
  // An empty piece of PYTHONPATH would be the current folder.
  if (rest != value && !rest.starts_with(value + ":")) set(variables, name, rest.empty() ? value : value + ":" + rest);
}

void set_injection(Variables& variables, const std::string& library, std::vector<std::string>& notes) {
  for (const auto& [name, lost] : {std::pair{"CUDA_INJECTION64_PATH", "kernels and copies may be missing"},
                                   {"NVTX_INJECTION64_PATH", "NVTX ranges are not recorded"},
                                   {"NCCL_PROFILER_PLUGIN", "NCCL's collectives are not recorded"}}) {
    const std::string now(variable_in(variables, name));
    if (now.empty() || is_ours(now)) set(variables, name, library);
    else notes.push_back(fmt::format("{}: {} is already set to {}", lost, name, now));
  }
}

void set_python(Variables& variables, const RecordingRequest& request, const RecordingParts& parts,
                std::vector<std::string>& notes) {
  if (!request.python_hook) set(variables, "PROFGPU_PYTHON_HOOK", "0");
  else if (!parts.python_hook.empty()) prepend(variables, "PYTHONPATH", parts.python_hook);
  else notes.emplace_back(std::string("steps and phases of Python programs are not marked") +
                          (request.memory ? ", and their memory is not recorded" : "") +
                          (request.torch_steps > 0 ? ", and their operators are not traced" : "") +
                          ": the folder " + parts.python_hook_at + " is not there");
  set(variables, "PROFGPU_PYTHON_STACKS_NS", std::to_string(request.python_stacks_ns));
  // Empty in a run without --torch-steps within one with it.
  if (request.torch_steps > 0 || !variable_in(variables, "PROFGPU_TORCH_STEPS").empty())
    set(variables, "PROFGPU_TORCH_STEPS", request.torch_steps > 0 ? std::to_string(request.torch_steps) : "");
  // The program that explains an out-of-memory error; empty in a run without --memory within one with it.
  if (request.memory || !variable_in(variables, "PROFGPU_MEMORY").empty())
    set(variables, "PROFGPU_MEMORY", request.memory ? own_program() : "");
}

}  // namespace

Result<RecordingParts> find_recording_parts(const std::string& program) {
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  RecordingParts parts;
  parts.library = first_file(paths_of_part(program, kLibrary));
  parts.preload = first_file(paths_of_part(program, kPreloadLibrary));
  if (parts.preload.empty()) parts.preload = parts.library;
  if (parts.library.empty())
    return Error{fmt::format("cannot record: {} is not beside profgpu", kLibrary),
                 "an installation has it in " + folder + "../lib/profgpu/"};
  const std::string hook = first_file({folder + "../share/profgpu/python-hook/sitecustomize.py",
                                       folder + "share/profgpu/python-hook/sitecustomize.py",
                                       folder + "../../src/record/inject/python/sitecustomize.py"});
  parts.python_hook = folder_of(hook);
  parts.python_hook_at = (std::filesystem::path(folder) / "../share/profgpu/python-hook").lexically_normal();
  return parts;
}

CommandEnvironment recording_environment(const RecordingRequest& request, const RecordingParts& parts,
                                         const char* const* environment) {
  CommandEnvironment out;
  Variables& variables = out.variables;
  for (; environment && *environment; ++environment) variables.emplace_back(*environment);
  if (!request.folder.empty()) {
    set(variables, "PROFGPU_RECORD", request.folder);
    set(variables, "PROFGPU_RUN", request.run);
    // The user's own options follow ours: the last of a name counts.
    const std::string more(variable_in(variables, "PROFGPU_RECORD_OPTIONS"));
    set(variables, "PROFGPU_RECORD_OPTIONS", request.options + (more.empty() ? "" : "," + more));
    const std::string& library = request.preload ? parts.preload : parts.library;
    set_injection(variables, library, out.notes);
    set(variables, "PROFGPU_INJECT", library);
    if (request.preload) prepend(variables, "LD_PRELOAD", library);
    set_python(variables, request, parts, out.notes);
  }
  // Up to level 4, PyTorch complains on standard error every ten seconds that nothing answers.
  if (request.torch_on_demand)
    for (const auto& [name, value] : {std::pair{"KINETO_USE_DAEMON", "1"}, {"KINETO_LOG_LEVEL", "5"}})
      if (variable_in(variables, name).empty()) set(variables, name, value);
  return out;
}

}  // namespace profgpu
