#include "watch/live/recording_environment.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace profgpu {
namespace {

constexpr std::string_view kLibrary = "libprofgpu-inject.so";

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::string first_file(const std::vector<std::string>& paths) {
  const auto it = std::find_if(paths.begin(), paths.end(), is_file);
  std::error_code error;
  return it == paths.end() ? "" : std::filesystem::canonical(*it, error).string();
}

// Our library under whatever folder: a `profgpu run` inside another finds the variables set to it.
bool is_ours(std::string_view value) { return value.substr(value.rfind('/') + 1) == kLibrary; }

class Variables {
 public:
  explicit Variables(const char* const* environment) {
    for (; environment && *environment; ++environment) list_.emplace_back(*environment);
  }
  [[nodiscard]] std::string_view get(std::string_view name) const { return variable(list_, name); }
  void set(std::string_view name, const std::string& value) {
    std::erase_if(list_, [&](const std::string& v) { return v.starts_with(std::string(name) + "="); });
    list_.push_back(std::string(name) + "=" + value);
  }
  void put_in_front(std::string_view name, const std::string& value) {
    const std::string rest(get(name));
    // Twice the same would be loaded once; an empty piece of PYTHONPATH would be the current folder.
    if (rest == value || rest.starts_with(value + ":")) return;
    set(name, rest.empty() ? value : value + ":" + rest);
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void set_injection(Variables& variables, const std::string& library, std::vector<std::string>& notes) {
  struct Injection {
    const char* variable;
    const char* lost;
  };
  static constexpr Injection kInjections[] = {
      {"CUDA_INJECTION64_PATH", "kernels and copies may be missing"},
      {"NVTX_INJECTION64_PATH", "NVTX ranges are not recorded"},
      {"NCCL_PROFILER_PLUGIN", "NCCL's collectives are not recorded"},
  };
  for (const Injection& i : kInjections) {
    const std::string now(variables.get(i.variable));
    if (now.empty() || is_ours(now))
      variables.set(i.variable, library);
    else
      notes.push_back(std::string(i.lost) + ": " + i.variable + " is already set to " + now);
  }
}

void set_python(Variables& variables, const RecordingRequest& request, const RecordingParts& parts,
                std::vector<std::string>& notes) {
  variables.set("PROFGPU_INJECT", parts.library);
  if (!request.python_hook)
    variables.set("PROFGPU_PYTHON_HOOK", "0");
  else if (parts.python_hook.empty())
    notes.emplace_back(
        "steps and phases of Python programs are not marked: the folder python-hook is not beside profgpu");
  else
    variables.put_in_front("PYTHONPATH", parts.python_hook);
}

}  // namespace

std::string_view variable(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& v : variables)
    if (v.size() > name.size() && v.starts_with(name) && v[name.size()] == '=')
      return std::string_view(v).substr(name.size() + 1);
  return {};
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

Result<RecordingParts> find_recording_parts(const std::string& program) {
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  RecordingParts parts;
  parts.library = first_file({folder + std::string(kLibrary), folder + "../lib/profgpu/" + std::string(kLibrary)});
  if (parts.library.empty())
    return Error{"nothing can be recorded: " + std::string(kLibrary) + " is not beside profgpu",
                 "it belongs into " + folder + "../lib/profgpu/, as an installation puts it"};
  const std::string hook = first_file({folder + "../share/profgpu/python-hook/sitecustomize.py",
                                       folder + "share/profgpu/python-hook/sitecustomize.py",
                                       folder + "../../src/record/inject/python/sitecustomize.py"});
  parts.python_hook = hook.substr(0, hook.empty() ? 0 : hook.rfind('/'));
  return parts;
}

CommandEnvironment recording_environment(const RecordingRequest& request, const RecordingParts& parts,
                                         const char* const* environment) {
  Variables variables(environment);
  CommandEnvironment out;
  if (!request.folder.empty()) {
    variables.set("PROFGPU_RECORD", request.folder);
    variables.set("PROFGPU_RUN", request.run);
    // The user's own options stand behind ours: the last of a name counts.
    const std::string more(variables.get("PROFGPU_RECORD_OPTIONS"));
    variables.set("PROFGPU_RECORD_OPTIONS", request.options + (more.empty() ? "" : "," + more));
    set_injection(variables, parts.library, out.notes);
    if (request.preload) variables.put_in_front("LD_PRELOAD", parts.library);
    set_python(variables, request, parts, out.notes);
  }
  if (request.torch_on_demand) {
    // PyTorch says every ten seconds, on standard error, that nobody answers; above 4 it says nothing of the kind.
    if (variables.get("KINETO_USE_DAEMON").empty()) variables.set("KINETO_USE_DAEMON", "1");
    if (variables.get("KINETO_LOG_LEVEL").empty()) variables.set("KINETO_LOG_LEVEL", "5");
  }
  out.variables = variables.take();
  return out;
}

}  // namespace profgpu
