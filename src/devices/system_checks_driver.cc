// Driver, libraries, toolkit, device files and rights.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/system_checks.h"

namespace profgpu {
namespace {

std::string variable_text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_version(std::string_view text) {
  return text.find('.') != text.npos && text.find_first_not_of("0123456789.") == text.npos && text.front() != '.';
}

// Whether a GPU of NVIDIA (vendor 10de, class 03 display) is on the bus.
bool has_nvidia_on_bus(const SystemRoots& roots) {
  for (const std::string& name : folder_names(roots.sys + "/bus/pci/devices")) {
    const std::string folder = roots.sys + "/bus/pci/devices/" + name;
    if (file_line(folder + "/vendor") == "0x10de" && file_line(folder + "/class").starts_with("0x03")) return true;
  }
  return false;
}

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  const std::string path = variable_text("LD_LIBRARY_PATH");
  for (const std::string_view folder : pieces_of(path, ':')) folders.emplace_back(folder);
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                            "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"})
    folders.emplace_back(usual);
  return folders;
}

struct FoundLibrary {
  std::string path, version;   // version: what the file behind the link is called after
};

FoundLibrary find_loadable(const std::string& name) {
  for (const std::string& folder : library_folders()) {
    const std::string path = folder + "/" + name;
    char* real = ::realpath(path.c_str(), nullptr);
    if (!real) continue;
    const std::string target = real;
    std::free(real);
    const size_t so = target.rfind(".so.");
    const std::string version = so == target.npos ? "" : target.substr(so + 4);
    return {path, is_version(version) ? version : ""};
  }
  return {};
}

constexpr std::string_view kNoDriver = "no NVIDIA kernel module is loaded";

}  // namespace

std::string kernel_module_version(const SystemRoots& roots) {
  const std::string module = file_line(roots.sys + "/module/nvidia/version");
  if (!module.empty() && is_version(module)) return module;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …": the first word that is a version.
  const std::string line = file_line(roots.proc + "/driver/nvidia/version");
  for (const std::string_view word : pieces_of(line, ' '))
    if (is_version(word)) return std::string(word);
  return "";
}

void check_driver_version(const SystemRoots& roots, SystemChecks& checks) {
  const std::string version = kernel_module_version(roots);
  if (!version.empty())
    checks.push_back({"driver_version", "", Health::kOk, "NVIDIA kernel module " + version});
  else if (has_nvidia_on_bus(roots))
    checks.push_back({"driver_version", "", Health::kProblem,
                      "an NVIDIA GPU is on the PCI bus, but no NVIDIA kernel module is loaded",
                      "`modprobe nvidia` says why; after a new kernel, install its headers and the driver again"});
  else
    checks.push_back(
        {"driver_version", "", Health::kUnknown, fmt::format("{}, and no NVIDIA GPU is on the PCI bus", kNoDriver)});
}

void check_driver_library(const SystemRoots& roots, SystemChecks& checks) {
  const std::string module = kernel_module_version(roots);
  for (const char* name : {"libnvidia-ml.so.1", "libcuda.so.1"}) {
    const FoundLibrary library = find_loadable(name);
    const std::string id = std::string("driver_library_") + (name[3] == 'n' ? "nvml" : "cuda");
    if (library.path.empty()) {
      checks.push_back({id, "", module.empty() ? Health::kUnknown : Health::kProblem,
                        std::string(name) + " is nowhere usual",
                        module.empty() ? ""
                                       : "install the driver's libraries of version " + module +
                                             "; in a container: start it with --gpus all, or with the NVIDIA runtime"});
    } else if (!module.empty() && !library.version.empty() && library.version.size() > 2 && library.version != module) {
      checks.push_back(
          {id, "", Health::kProblem,
           fmt::format("{} is of version {}, the kernel module of {}", library.path, library.version, module),
           "the driver was upgraded under a running system: reboot, or stop all GPU programs and reload the "
           "module (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia)"});
    } else {
      checks.push_back({id, "", Health::kOk,
                        library.path + (library.version.empty() ? "" : ", version " + library.version)});
    }
  }
}

void check_cuda_toolkit(const SystemRoots&, SystemChecks& checks) {
  std::vector<std::string> folders = {variable_text("CUDA_HOME"), variable_text("CUDA_PATH"), "/usr/local/cuda",
                                      "/opt/cuda"};
  for (const char* prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = variable_text(prefix); !folder.empty()) {
      folders.push_back(folder);
      for (const std::string& python : folder_names(folder + "/lib"))
        if (python.starts_with("python"))
          folders.push_back(folder + "/lib/" + python + "/site-packages/nvidia/cuda_cupti");
    }
  std::string toolkit, cupti;
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    if (toolkit.empty() && ::access((folder + "/bin/nvcc").c_str(), X_OK) == 0) toolkit = folder;
    for (const char* place : {"/extras/CUPTI/lib64", "/lib64", "/lib", "/targets/x86_64-linux/lib"})
      for (const std::string& file : folder_names(folder + place))
        if (cupti.empty() && file.starts_with("libcupti.so")) cupti = folder + place + "/" + file;
  }
  std::string detail = toolkit.empty() ? "no CUDA toolkit found" : "CUDA toolkit in " + toolkit;
  detail += cupti.empty() ? ", no libcupti" : ", " + cupti;
  const bool both = !toolkit.empty() && !cupti.empty();
  checks.push_back({"cuda_toolkit", "", both ? Health::kOk : Health::kUnknown, detail,
                    both ? "" : "PyTorch brings its own; set CUDA_HOME if there is one elsewhere"});
}

void check_device_nodes(const SystemRoots& roots, SystemChecks& checks) {
  std::vector<std::string> names, closed;
  std::vector<std::string> paths;
  for (const std::string& name : folder_names(roots.dev))
    if (name.starts_with("nvidia") || name == "kfd") paths.push_back(name);
  for (const std::string& name : folder_names(roots.dev + "/dri"))
    if (name.starts_with("renderD")) paths.push_back("dri/" + name);
  for (const std::string& name : paths) {
    const std::string path = roots.dev + "/" + name;
    if (name == "nvidia-caps" || name == "nvidia-caps-imex-channels") continue;  // folders
    (::access(path.c_str(), R_OK | W_OK) == 0 ? names : closed).push_back(name);
  }
  std::string list = joined(closed);
  if (!closed.empty())
    checks.push_back({"device_nodes", "", Health::kProblem, "this user may not open " + list + " in " + roots.dev,
                      closed.front().starts_with("nvidia")
                          ? "they should be open to all (0666); see NVreg_DeviceFileMode, or the "
                            "job system's device rules"
                          : "add the user to the groups render and video"});
  else if (names.empty() && !kernel_module_version(roots).empty())
    checks.push_back({"device_nodes", "", Health::kProblem,
                      "the driver is loaded, but there is no " + roots.dev + "/nvidia*",
                      "in a container: start it with --gpus all; else `nvidia-modprobe -c0 -u`"});
  else
    checks.push_back({"device_nodes", "", names.empty() ? Health::kUnknown : Health::kOk,
                      names.empty() ? "no GPU's files in " + roots.dev
                                    : fmt::format("{} device files, all of which this user may open", names.size())});
}

void check_profiling_permission(const SystemRoots& roots, SystemChecks& checks) {
  const std::string text = file_text(roots.proc + "/driver/nvidia/params").value_or("");
  const std::string_view only = line_value(text, "RmProfilingAdminOnly");
  if (only.empty()) return;
  if (only == "0") {
    checks.push_back({"profiling_permission", "", Health::kOk, "every user may profile GPUs"});
  } else if (::geteuid() == 0) {
    checks.push_back(
        {"profiling_permission", "", Health::kOk, "only administrators may profile GPUs, and this is one"});
  } else {
    checks.push_back(
        {"profiling_permission", "", Health::kWarning, "only administrators may read the GPU's counters",
         "for all users: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot; "
         "in a container: --cap-add SYS_ADMIN. Kernel traces work without"});
  }
}

void check_mps(const SystemRoots& roots, SystemChecks& checks) {
  const std::string program = running_program(roots, "nvidia-cuda-mps");
  if (!program.empty())
    checks.push_back(
        {"mps", "", Health::kOk, program + " runs: programs share GPUs through it",
         "figures of single processes may be the server's; `echo quit | nvidia-cuda-mps-control` ends it"});
  else if (!kernel_module_version(roots).empty())
    checks.push_back({"mps", "", Health::kOk, "no MPS server runs"});
}

}  // namespace profgpu
