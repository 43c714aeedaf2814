// profgpu exporter: what devices do, for Prometheus to fetch. Asked for by flags and by dcgm-exporter's environment
// variables.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/decimal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "devices/host_process.h"
#include "devices/system_files.h"
#include "watch/exporter/http_server.h"
#include "watch/exporter/kubelet_pods.h"
#include "watch/exporter/metrics_service.h"
#include "watch/exporter/web_config.h"
#include "watch/live/recording_folder.h"

namespace profgpu {
namespace {

struct ExporterCommand {
  DeviceOptions devices;
  std::string listen = "127.0.0.1:9400";
  MetricsServiceOptions service;   ///< but for interval and devices
  WebConfig web;
  std::vector<std::string> notes;  ///< for people, one line each
};

using EnvironmentVariables = std::map<std::string, std::string>;

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
        fmt::format("{}: not measured and left out: {}", path, joined(command.service.counters.left_out)));
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
  if (!unused.empty()) command.notes.push_back("without effect here: " + joined(unused));
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

// Those of our environment that may concern the exporter.
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

// A flag counts for more than a variable. The error is a usage error.
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

void announce(const std::string& text) { print_message("profgpu: exporter: " + text); }

// A connection is a file descriptor; many systems begin programs with room for 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, 4096));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Outcome serve(const ExporterCommand& command, OpenDevices devices, HttpServer& server) {
  MetricsServiceOptions options = command.service;
  options.interval_ns = command.devices.interval_ns;
  options.devices = devices.devices;
  const size_t count = options.devices.size();
  MetricsService service(devices.backend, std::move(options), announce);
  service.start();
  announce(fmt::format("{} device{} at {}/metrics, read every {:g} s", count, count == 1 ? "" : "s", server.url(),
                  static_cast<double>(command.devices.interval_ns) * 1e-9));
  server.run([&](const HttpRequest& request) { return service.answer(request, server.figures()); });
  service.stop();
  if (service.any_stuck()) leave_stuck("exporter", {});
  return {};
}

Outcome exporter(const Arguments& arguments) {
  auto command = exporter_command(arguments, exporter_variables());
  if (!command) return Outcome::usage(command.error());
  raise_descriptor_limit();
  // Before the driver is asked, which may take long: whoever has a port that is in use should hear it at once.
  auto server = HttpServer::open(command->listen, command->web, own_program());
  if (!server) return Outcome::failed(server.error());
  auto devices = open_shown("exporter", command->devices);
  if (!devices) return Outcome::failed(devices.error());
  for (const std::string& note : command->notes) announce(note);
  return serve(*command, *std::move(devices), **server);
}

}  // namespace

extern const Command kExporter;
const Command kExporter{
    .name = "exporter",
    .summary = "what GPUs do, for Prometheus to fetch; in the place of dcgm-exporter",
    .positional = "",
    .groups = {shown_device_flags(true),
               {"Where",
                {{.name = "--listen",
                  .value = "ADDRESS:PORT",
                  .help = "where to answer; :9400 is every interface (default 127.0.0.1:9400)"},
                 {.name = "--web.config.file",
                  .value = "FILE",
                  .help = "TLS and passwords, in the form of Prometheus' exporter-toolkit",
                  .takes_path = true}}},
               {"What",
                {{.name = "--dcgm-names",
                  .value = "WHICH",
                  .help = "DCGM's names beside ours: as ever, those of DCGM 4.6, or none (default classic)",
                  .choices = {"classic", "4.6", "off"}},
                 {.name = "--collectors",
                  .short_name = "-f",
                  .value = "FILE",
                  .help = "dcgm-exporter's counters file: which of DCGM's fields are shown",
                  .takes_path = true},
                 {.name = "--hpc-job-mapping-dir",
                  .value = "FOLDER",
                  .help = "files named 0, 1 ... with the jobs on each GPU (default: Slurm's, by the processes)",
                  .takes_path = true},
                 {.name = "--no-hostname", .help = "series have no label for the host"}}},
               {"Kubernetes",
                {{.name = "--kubernetes",
                  .short_name = "-k",
                  .help = "series have labels of the pods that were given the devices; the kubelet is asked"},
                 {.name = "--pod-resources-kubelet-socket",
                  .value = "PATH",
                  .help = "its socket (default /var/lib/kubelet/pod-resources/kubelet.sock)",
                  .takes_path = true},
                 {.name = "--kubernetes-virtual-gpus",
                  .help = "shared devices: a copy of DCGM's series for each container, not for the first alone"},
                 {.name = "--kubernetes-gpu-id-type",
                  .value = "TYPE",
                  .help = "taken for dcgm-exporter's sake: both are always understood",
                  .choices = {"uid", "device-name"}},
                 {.name = "--nvidia-resource-names",
                  .value = "NAMES",
                  .help = "taken for dcgm-exporter's sake: ids say enough, whatever the resource is called"}}}},
    .examples = {{"profgpu exporter", "at http://127.0.0.1:9400/metrics, until Ctrl-C"},
                 {"profgpu exporter --listen :9400 --web.config.file web.yml",
                  "for other machines, with TLS and a password"},
                 {"profgpu exporter --backend replay:examples/replay.jsonl",
                  "a recording again and again, without a GPU"},
                 {"profgpu exporter --dcgm-names off -i 0.1", "our own names only, read ten times a second"}},
    .notes =
        "Devices are read in the background; a request never waits for a driver. A device that is lost or hangs has "
        "profgpu_device_up 0 and no values, the others go on. Pages: /metrics (Prometheus text, or OpenMetrics where "
        "asked for), /health (503 when no device answers), /-/ready, and / for people. dcgm-exporter's variables "
        "count where no flag says otherwise: DCGM_EXPORTER_LISTEN, _INTERVAL, _COLLECTORS, _DEVICES_STR, "
        "_NO_HOSTNAME, _WEB_CONFIG_FILE, _KUBERNETES, DCGM_POD_RESOURCES_KUBELET_SOCKET, KUBERNETES_VIRTUAL_GPUS, "
        "DCGM_HPC_JOB_MAPPING_DIR, NODE_NAME. Exit status: 0 after SIGTERM or "
        "Ctrl-C, 1 no device or no such address, 2 usage.",
    .run = exporter,
};

}  // namespace profgpu
