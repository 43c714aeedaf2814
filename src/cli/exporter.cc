// profgpu exporter: readings of devices for Prometheus, with flags or dcgm-exporter's environment variables.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/decimal.h"
#include "base/dyn_lib.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "devices/host_process.h"
#include "view/wording.h"
#include "watch/exporter/http_server.h"
#include "watch/exporter/kubelet_pods.h"
#include "watch/exporter/metrics_service.h"
#include "watch/exporter/web_config.h"

namespace profgpu {
namespace {

struct ExporterCommand {
  DeviceOptions devices;
  std::string listen = "127.0.0.1:9400";
  MetricsServiceOptions service;   ///< except interval and devices
  WebConfig web;
  std::vector<std::string> notes;  ///< for people, one line each
};

constexpr size_t kMaxCountersBytes = 1 << 20;
constexpr int64_t kMs = 1'000'000, kMaxInterval_ms = 86'400'000;

/// Options as flags and as dcgm-exporter's environment variables; flags take precedence.
struct ExporterInput {
  const Arguments& arguments;
  std::map<std::string, std::string> variables = {};   ///< that may concern the exporter

  explicit ExporterInput(const Arguments& a) : arguments(a) {
    for (char** entry = environ; *entry; ++entry) {
      const std::string_view text = *entry, name = text.substr(0, text.find('='));
      if (name.size() < text.size() && (name.starts_with("DCGM_") || name == "NODE_NAME" ||
                                        name == "KUBERNETES_VIRTUAL_GPUS" || name == "NVIDIA_RESOURCE_NAMES"))
        variables.emplace(name, text.substr(name.size() + 1));
    }
  }
  [[nodiscard]] std::string variable(const std::string& name) const {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  }
  /// The flag's value, else the variable's.
  [[nodiscard]] std::string value(std::string_view flag, const std::string& name) const {
    return arguments.has(flag) ? arguments.value(flag) : variable(name);
  }
  /// The switch is given, or the variable is set to yes.
  [[nodiscard]] bool yes(std::string_view flag, const std::string& name) const {
    const std::string text = variable(name);
    return arguments.has(flag) || text == "true" || text == "1" || text == "TRUE" || text == "t" || text == "T";
  }
};

Status read_interval(const ExporterInput& input, ExporterCommand& command) {
  const std::string text = input.variable("DCGM_EXPORTER_INTERVAL");
  if (input.arguments.has("--interval") || text.empty()) return ok();
  const auto ms = whole_number(text);
  if (!ms || *ms < 1 || *ms > kMaxInterval_ms)
    return Error{fmt::format("DCGM_EXPORTER_INTERVAL takes milliseconds, not \"{}\"", text)};
  command.devices.interval_ns = *ms * kMs;
  return ok();
}

Status read_counters(const ExporterInput& input, ExporterCommand& command) {
  command.service.counters = default_dcgm_counters();
  const std::string path = input.value("--collectors", "DCGM_EXPORTER_COLLECTORS");
  if (path.empty()) return ok();
  const auto text = file_text(path, kMaxCountersBytes);
  // Images of dcgm-exporter name a file that came with it.
  if (!text && !input.arguments.has("--collectors") && path.starts_with("/etc/dcgm-exporter/")) {
    command.notes.push_back(fmt::format("{} not found: using dcgm-exporter's default counters", path));
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
Status read_devices(const ExporterInput& input, ExporterCommand& command) {
  if (input.arguments.has("--device")) return ok();
  const std::string text = input.variable("DCGM_EXPORTER_DEVICES_STR");
  if (text.starts_with("g:")) command.devices.device = {text.substr(2)};
  else if (!text.empty() && text != "f" && text != "g" && text != "i")
    command.notes.push_back(fmt::format("DCGM_EXPORTER_DEVICES_STR={} is not understood: showing all GPUs", text));
  return ok();
}

Status read_kubernetes(const ExporterInput& input, ExporterCommand& command) {
  MetricsServiceOptions& service = command.service;
  service.shared_pods = input.yes("--kubernetes-virtual-gpus", "KUBERNETES_VIRTUAL_GPUS");
  if (!input.yes("--kubernetes", "DCGM_EXPORTER_KUBERNETES")) return ok();
  service.kubelet_socket = input.value("--pod-resources-kubelet-socket", "DCGM_POD_RESOURCES_KUBELET_SOCKET");
  if (service.kubelet_socket.empty()) service.kubelet_socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  if (service.kubelet_socket.size() >= kLongestSocketPath)
    return Error{fmt::format("the path of the kubelet's socket has {} bytes; the limit is {}",
                             service.kubelet_socket.size(), kLongestSocketPath - 1)};
  if (::access(service.kubelet_socket.c_str(), F_OK) != 0)
    command.notes.push_back(fmt::format("{}: {}; series have no pod labels until it exists", service.kubelet_socket,
                                        std::strerror(errno)));
  return ok();
}

Status read_web(const ExporterInput& input, ExporterCommand& command) {
  const std::string path = input.value("--web.config.file", "DCGM_EXPORTER_WEB_CONFIG_FILE");
  if (path.empty()) return ok();
  auto config = read_web_config(path);
  if (!config) return config.error();
  command.web = *std::move(config);
  for (const std::string& note : command.web.notes) command.notes.push_back(path + ": " + note);
  return ok();
}

void note_unused(const ExporterInput& input, ExporterCommand& command) {
  static constexpr std::string_view kUsed[] = {
      "DCGM_EXPORTER_LISTEN", "DCGM_EXPORTER_INTERVAL", "DCGM_EXPORTER_COLLECTORS", "DCGM_EXPORTER_DEVICES_STR",
      "DCGM_EXPORTER_NO_HOSTNAME", "DCGM_EXPORTER_WEB_CONFIG_FILE", "DCGM_HPC_JOB_MAPPING_DIR", "NODE_NAME",
      "DCGM_EXPORTER_KUBERNETES", "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "NVIDIA_RESOURCE_NAMES",
      "DCGM_POD_RESOURCES_KUBELET_SOCKET", "KUBERNETES_VIRTUAL_GPUS"};
  std::string unused;
  for (const auto& [name, value] : input.variables)
    if (!value.empty() && value != "false" && value != "none" && value != "0" &&
        std::find(std::begin(kUsed), std::end(kUsed), name) == std::end(kUsed))
      append_listed(unused, name);
  if (!unused.empty()) command.notes.push_back("ignored: " + unused);
}

// The error is a usage error.
Result<ExporterCommand> exporter_command(const ExporterInput& input) {
  const Arguments& arguments = input.arguments;
  ExporterCommand command;
  auto devices = device_options(arguments, "all");
  if (!devices) return devices.error();
  command.devices = *std::move(devices);
  // A replay that ends would leave the exporter without readings.
  if (std::string& backend = command.devices.backend;
      backend.starts_with("replay:") && backend.find(",loop") == backend.npos)
    backend += ",loop";
  const std::string listen = input.value("--listen", "DCGM_EXPORTER_LISTEN");
  if (!listen.empty() || arguments.has("--listen")) command.listen = listen;
  if (Status s = HttpServer::check_address(command.listen); !s) return s.error();
  const std::string names = arguments.value("--dcgm-names", "classic");
  command.service.names = names == "off" ? DcgmNames::kOff : names == "4.6" ? DcgmNames::kNew : DcgmNames::kClassic;
  command.service.job_mapping = input.value("--hpc-job-mapping-dir", "DCGM_HPC_JOB_MAPPING_DIR");
  if (!input.yes("--no-hostname", "DCGM_EXPORTER_NO_HOSTNAME")) {
    const std::string node = input.variable("NODE_NAME");
    command.service.host = node.empty() ? host_name() : node;
  }
  for (const auto read : {read_interval, read_counters, read_devices, read_kubernetes, read_web})
    if (Status s = read(input, command); !s) return s.error();
  note_unused(input, command);
  return command;
}

void print_exporter(const std::string& text) { print_message("profgpu: exporter: " + masked_message(text)); }

// A connection is a file descriptor; many systems start programs with a limit of 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, 4096));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Outcome serve(const ExporterCommand& command, const OpenDevices& devices, HttpServer& server) {
  MetricsServiceOptions options = command.service;
  options.interval_ns = command.devices.interval_ns;
  options.devices = devices.devices;
  MetricsService service(devices.backend, std::move(options), print_exporter);
  service.start();
  print_exporter(fmt::format("{} at {}/metrics, read every {:g} s",
                             plural(static_cast<int64_t>(devices.devices.size()), "GPU", "GPUs"), server.url(),
                             static_cast<double>(command.devices.interval_ns) * 1e-9));
  server.run([&](const HttpRequest& request) { return service.answer(request, server.figures()); });
  service.stop();
  if (service.any_stuck()) leave_stuck("exporter", {});
  return {};
}

Outcome exporter(const Arguments& arguments) {
  auto command = exporter_command(ExporterInput(arguments));
  if (!command) return Outcome::usage(command.error());
  raise_descriptor_limit();
  // Before opening the driver, which may take long: a port that is in use should be reported at once.
  auto server = HttpServer::open(command->listen, command->web, own_program());
  if (!server) return server.error();
  auto devices = open_shown("exporter", command->devices);
  if (!devices) return devices.error();
  for (const std::string& note : command->notes) print_exporter(note);
  return serve(*command, *devices, **server);
}

}  // namespace

extern const Command kExporter{
    .name = "exporter",
    .summary = "Prometheus exporter; replaces dcgm-exporter",
    .groups =
        {device_flags(kAllDevices, {kIntervalFlag}),
         {"Where",
          {{"--listen ADDRESS:PORT", "address to listen on; :9400 is every interface (default 127.0.0.1:9400)"},
           {"--web.config.file FILE", "TLS and passwords, in the format of Prometheus' exporter-toolkit"}}},
         {"What",
          {{"--dcgm-names WHICH",
            "DCGM's metric names beside ours: the usual ones, those of DCGM 4.6, or none (default classic)",
            {"classic", "4.6", "off"}},
           {"-f, --collectors FILE", "dcgm-exporter's counters file: which of DCGM's fields to show"},
           {"--hpc-job-mapping-dir FOLDER",
            "files named 0, 1 ... that list the jobs on each GPU (default: Slurm's, found by the processes)"},
           {"--no-hostname", "no host label on series"}}},
         {"Kubernetes",
          {{"-k, --kubernetes", "label series with the pods that own the GPUs, by querying the kubelet"},
           {"--pod-resources-kubelet-socket PATH",
            "the kubelet's socket (default /var/lib/kubelet/pod-resources/kubelet.sock)"},
           {"--kubernetes-virtual-gpus",
            "shared GPUs: repeat DCGM's series for each container, not only for the first"},
           {"--kubernetes-gpu-id-type TYPE",
            "accepted for compatibility with dcgm-exporter; both are always understood",
            {"uid", "device-name"}},
           {"--nvidia-resource-names NAMES",
            "accepted for compatibility with dcgm-exporter; GPUs are found by id, whatever the resource is called"}}}},
    .examples = {{"profgpu exporter", "serve http://127.0.0.1:9400/metrics until Ctrl-C"},
                 {"profgpu exporter --listen :9400 --web.config.file web.yml",
                  "for other machines, with TLS and a password"},
                 {"profgpu exporter --backend replay:examples/replay.jsonl", "replay a recording, without a GPU"},
                 {"profgpu exporter --dcgm-names off -i 0.1", "only our names, read ten times a second"}},
    .notes =
        "GPUs are read in the background; a request never waits for a driver. A GPU that is lost or hangs has "
        "profgpu_device_up 0 and no values; the others are unaffected. Pages: /metrics (Prometheus text, or OpenMetrics "
        "on request), /health (503 when no GPU answers), /-/ready, and / for people.\n\n"
        "dcgm-exporter's variables apply where no flag is given: DCGM_EXPORTER_LISTEN, _INTERVAL, _COLLECTORS, "
        "_DEVICES_STR, _NO_HOSTNAME, _WEB_CONFIG_FILE, _KUBERNETES, DCGM_POD_RESOURCES_KUBELET_SOCKET, "
        "KUBERNETES_VIRTUAL_GPUS, DCGM_HPC_JOB_MAPPING_DIR, NODE_NAME.\n\n"
        "Exit status: 0 after SIGTERM or Ctrl-C, 1 no GPU or address not available, 2 usage.",
    .run = exporter,
};

}  // namespace profgpu
