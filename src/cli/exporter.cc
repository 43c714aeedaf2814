// profgpu exporter: what devices do, for Prometheus to fetch.
#include "watch/exporter/metrics_service.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/exporter_options.h"
#include "cli/output.h"
#include "watch/live/recording_folder.h"

namespace profgpu {
namespace {

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
