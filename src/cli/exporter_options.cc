#include "cli/exporter_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/decimal.h"
#include "devices/host_process.h"
#include "devices/system_files.h"
#include "watch/exporter/http_server.h"
#include "watch/exporter/kubelet_pods.h"

namespace profgpu {
namespace {

constexpr size_t kMaxCountersBytes = 1 << 20;
constexpr int64_t kMs = 1'000'000, kLongestInterval_ms = 86'400'000;

std::string variable(const EnvironmentVariables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

bool says_yes(const std::string& value) {
  return value == "true" || value == "1" || value == "TRUE" || value == "t" || value == "T";
}

// The flag's value, else the variable's.
std::string asked(const Arguments& arguments, std::string_view flag, const EnvironmentVariables& variables,
                  const std::string& name) {
  return arguments.has(flag) ? arguments.value(flag) : variable(variables, name);
}

Status read_interval(const Arguments& arguments, const EnvironmentVariables& variables, ExporterCommand& command) {
  const std::string text = variable(variables, "DCGM_EXPORTER_INTERVAL");
  if (arguments.has("--interval") || text.empty()) return ok();
  const auto ms = whole_number(text);
  if (!ms || *ms < 1 || *ms > kLongestInterval_ms)
    return Error{fmt::format("DCGM_EXPORTER_INTERVAL is in milliseconds, not \"{}\"", text)};
  command.devices.interval_ns = *ms * kMs;
  return ok();
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

// Images of dcgm-exporter name a file that came with it.
bool is_its_own(const std::string& path) { return path.starts_with("/etc/dcgm-exporter/"); }

Status read_counters(const Arguments& arguments, const EnvironmentVariables& variables, ExporterCommand& command) {
  command.service.counters = default_dcgm_counters();
  const std::string path = asked(arguments, "--collectors", variables, "DCGM_EXPORTER_COLLECTORS");
  if (path.empty()) return ok();
  const auto text = file_text(path, kMaxCountersBytes);
  if (!text && !arguments.has("--collectors") && is_its_own(path)) {
    command.notes.push_back(fmt::format("{} is not there: dcgm-exporter's default counters are shown", path));
    return ok();
  }
  if (!text)
    return Error{fmt::format("{}: cannot be read: {}", path, std::strerror(errno)),
                 "--collectors FILE, else DCGM_EXPORTER_COLLECTORS"};
  auto counters = parse_dcgm_counters(*text);
  if (!counters) return counters.error().within(path);
  command.service.counters = *std::move(counters);
  if (!command.service.counters.left_out.empty())
    command.notes.push_back(
        fmt::format("{}: not measured and left out: {}", path, listed(command.service.counters.left_out)));
  return ok();
}

// "f" and "g": everything; "g:0,1": these.
Status read_devices(const Arguments& arguments, const EnvironmentVariables& variables, ExporterCommand& command) {
  if (!command.devices.device.empty()) return ok();
  command.devices.device = {"all"};
  const std::string text = variable(variables, "DCGM_EXPORTER_DEVICES_STR");
  if (arguments.has("--device") || text.empty() || text == "f" || text == "g" || text == "i") return ok();
  if (!text.starts_with("g:")) {
    command.notes.push_back(fmt::format("DCGM_EXPORTER_DEVICES_STR={} is not understood: all devices are shown", text));
    return ok();
  }
  command.devices.device = {text.substr(2)};
  return ok();
}

void note_the_rest(const EnvironmentVariables& variables, ExporterCommand& command) {
  static const std::string_view kUsed[] = {"DCGM_EXPORTER_LISTEN",      "DCGM_EXPORTER_INTERVAL",
                                           "DCGM_EXPORTER_COLLECTORS",  "DCGM_EXPORTER_DEVICES_STR",
                                           "DCGM_EXPORTER_NO_HOSTNAME", "DCGM_EXPORTER_WEB_CONFIG_FILE",
                                           "DCGM_HPC_JOB_MAPPING_DIR",  "NODE_NAME",
                                           "DCGM_EXPORTER_KUBERNETES",  "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
                                           "NVIDIA_RESOURCE_NAMES",     "DCGM_POD_RESOURCES_KUBELET_SOCKET",
                                           "KUBERNETES_VIRTUAL_GPUS"};
  std::vector<std::string> unused;
  for (const auto& [name, value] : variables) {
    bool used = value.empty() || value == "false" || value == "none" || value == "0";
    for (const std::string_view u : kUsed) used = used || u == name;
    if (!used) unused.push_back(name);
  }
  if (!unused.empty()) command.notes.push_back("without effect here: " + listed(unused));
}

Status read_kubernetes(const Arguments& arguments, const EnvironmentVariables& variables, ExporterCommand& command) {
  command.service.shared_pods =
      arguments.has("--kubernetes-virtual-gpus") || says_yes(variable(variables, "KUBERNETES_VIRTUAL_GPUS"));
  if (!arguments.has("--kubernetes") && !says_yes(variable(variables, "DCGM_EXPORTER_KUBERNETES"))) return ok();
  const std::string named =
      asked(arguments, "--pod-resources-kubelet-socket", variables, "DCGM_POD_RESOURCES_KUBELET_SOCKET");
  command.service.kubelet_socket = named.empty() ? "/var/lib/kubelet/pod-resources/kubelet.sock" : named;
  if (command.service.kubelet_socket.size() >= kLongestSocketPath)
    return Error{fmt::format("the kubelet's socket has a path of {} bytes: sockets' paths are shorter than {}",
                             command.service.kubelet_socket.size(), kLongestSocketPath)};
  if (::access(command.service.kubelet_socket.c_str(), F_OK) != 0)
    command.notes.push_back(fmt::format("{}: {}; series have no labels of pods until it is there",
                                        command.service.kubelet_socket, std::strerror(errno)));
  return ok();
}

// A replay that ends would leave an exporter with nothing to say.
void loop_replay(std::string& backend) {
  if (backend.starts_with("replay:") && backend.find(",loop") == backend.npos) backend += ",loop";
}

std::string exporter_host(const EnvironmentVariables& variables) {
  if (const std::string node = variable(variables, "NODE_NAME"); !node.empty()) return node;
  return profgpu::host_name();
}

}  // namespace

EnvironmentVariables exporter_variables() {
  EnvironmentVariables out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == text.npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.starts_with("DCGM_") || name == "NODE_NAME" || name == "KUBERNETES_VIRTUAL_GPUS" ||
        name == "NVIDIA_RESOURCE_NAMES")
      out.emplace(name, text.substr(equals + 1));
  }
  return out;
}

Result<ExporterCommand> exporter_command(const Arguments& arguments, const EnvironmentVariables& variables) {
  ExporterCommand command;
  auto devices = device_options(arguments, 1'000'000'000);
  if (!devices) return devices.error();
  command.devices = *std::move(devices);
  loop_replay(command.devices.backend);
  const std::string listen = asked(arguments, "--listen", variables, "DCGM_EXPORTER_LISTEN");
  if (!listen.empty() || arguments.has("--listen")) command.listen = listen;
  if (Status s = HttpServer::check_address(command.listen); !s) return s.error();
  const std::string names = arguments.value("--dcgm-names", "classic");
  command.service.names = names == "off" ? DcgmNames::kOff : names == "4.6" ? DcgmNames::kNew : DcgmNames::kClassic;
  command.service.job_mapping = asked(arguments, "--hpc-job-mapping-dir", variables, "DCGM_HPC_JOB_MAPPING_DIR");
  if (!arguments.has("--no-hostname") && !says_yes(variable(variables, "DCGM_EXPORTER_NO_HOSTNAME")))
    command.service.host = exporter_host(variables);
  for (const auto read : {read_interval, read_counters, read_devices, read_kubernetes})
    if (Status s = read(arguments, variables, command); !s) return s.error();
  if (const std::string web = asked(arguments, "--web.config.file", variables, "DCGM_EXPORTER_WEB_CONFIG_FILE");
      !web.empty()) {
    auto config = read_web_config(web);
    if (!config) return config.error();
    command.web = *std::move(config);
    for (const std::string& note : command.web.notes) command.notes.push_back(web + ": " + note);
  }
  note_the_rest(variables, command);
  return command;
}

}  // namespace profgpu
