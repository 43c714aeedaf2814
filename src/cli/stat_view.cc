#include "cli/stat_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "base/clock.h"
#include "devices/selection.h"
#include "view/json_text.h"
#include "watch/live/child_process.h"

namespace profgpu {
namespace {

constexpr std::chrono::milliseconds kProcessorWindow{100};

}  // namespace

std::optional<double> StatDevice::value(Metric metric) const {
  const auto sampled = look.value(metric);
  return sampled ? sampled : info->constant(metric);
}

StatSource::StatSource(const OpenDevices& open, SnapshotOptions options)
    : open_(open),
      snapshots_(open.backend, open.devices, options),
      host_(host_name()),
      driver_(common_driver(open.backend->devices(), open.devices)),
      recorded_(open.backend->name() == "replay") {}

void StatSource::look_up(StatView& view) {
  if (recorded_) return;  // the numbers are another machine's
  std::set<int64_t> pids;
  for (const StatDevice& device : view.devices)
    for (const StatProcess& process : device.processes) pids.insert(process.sample.pid);
  std::map<int64_t, HostProcess> known;
  for (const StatDevice& device : view.devices)
    for (const StatProcess& process : device.processes)
      if (!known.contains(process.sample.pid))
        known[process.sample.pid] =
            host_processes_.look(process.sample.pid, compute_file(device.info->vendor), pids.size() == 1);
  for (StatDevice& device : view.devices)
    for (StatProcess& process : device.processes) process.host = known[process.sample.pid];
}

StatView StatSource::take(bool processor) {
  StatView view;
  view.host = host_;
  view.driver = driver_;
  view.backend = open_.backend.get();
  for (DeviceLook& look : snapshots_.take()) {
    StatDevice device;
    device.info = &open_.backend->devices()[look.device];
    for (const ProcessSample& sample : look.reading.processes)
      device.processes.push_back({sample, recorded_process(sample)});
    std::stable_sort(device.processes.begin(), device.processes.end(), [](const auto& a, const auto& b) {
      return a.sample.memory_bytes.value_or(0) > b.sample.memory_bytes.value_or(0);
    });
    device.look = std::move(look);
    view.devices.push_back(std::move(device));
  }
  view.time_ns = unix_ns();
  look_up(view);
  const bool any =
      std::any_of(view.devices.begin(), view.devices.end(), [](const auto& d) { return !d.processes.empty(); });
  if (processor && first_ && any && !recorded_) {
    std::this_thread::sleep_for(kProcessorWindow);
    look_up(view);
  }
  first_ = false;
  return view;
}

std::string iso_time(int64_t unix_ns, bool zone) {
  const int64_t below_second = unix_ns % 1'000'000'000;
  const std::string seconds = formatted_time(unix_ns, "%Y-%m-%dT%H:%M:%S");
  if (!zone) return fmt::format("{}.{:06}", seconds, below_second / 1000);
  std::string offset = formatted_time(unix_ns, "%z");
  if (offset.size() == 5) offset.insert(3, ":");
  return fmt::format("{}.{:03}{}", seconds, below_second / 1'000'000, offset);
}

template <class V>
void StatProcess::fields(V&& v) const {
  const std::string command = host.command();
  v("pid", sample.pid), v("type", std::string_view(&sample.type, 1)), v("memory_bytes", sample.memory_bytes);
  v("utilization_pct", sample.utilization_pct), v("memory_utilization_pct", sample.memory_utilization_pct);
  v("encoder_utilization_pct", sample.encoder_pct), v("decoder_utilization_pct", sample.decoder_pct);
  v("name", unless_empty(sample.name)), v("visible_pid", only_if(host.visible_pid != 0, host.visible_pid));
  v("inferred", host.inferred), v("unknown", unless_empty(host.unknown)), v("user", unless_empty(host.user));
  v("command", unless_empty(command)), v("arguments", host.arguments), v("cpu_pct", host.cpu_pct);
  v("host_memory_bytes", host.memory_bytes), v("threads", host.threads), v("start_ns", host.start_ns);
  const Placement& place = host;
  v("container_runtime", unless_empty(place.container_runtime)), v("container", unless_empty(place.container));
  v("pod", unless_empty(place.pod)), v("slurm_job", unless_empty(place.slurm_job));
  v("slurm_step", unless_empty(place.slurm_step)), v("rank", host.rank), v("local_rank", host.local_rank),
      v("world_size", host.world_size);
}

namespace {

// Counters and most gauges are whole numbers in double's exact range: written without an exponent.
Value metric_value(const std::optional<double>& x) {
  if (x && std::abs(*x) <= 9e15 && *x == std::trunc(*x)) return static_cast<int64_t>(*x);
  return x;
}

struct DeviceDocument {
  const StatView* view;
  const StatDevice* device;

  template <class V>
  void fields(V&& v) const {
    const StatDevice& d = *device;
    v("index", d.info->index), v("label", d.info->label()), v("name", d.info->name), v("vendor", d.info->vendor);
    v("uuid", unless_empty(d.info->uuid)), v("pci_bus_id", unless_empty(d.info->pci_bus_id));
    v("mig_profile", unless_empty(d.info->mig_profile)), v("state", device_state_name(d.look.state));
    v("message", unless_empty(d.look.message));
    v("since_ns", only_if(d.look.state != DeviceState::kOk, d.look.since_ns)), v("time_ns", d.look.reading.time_ns);
    Table absent{{"metric", "reason"}, {}};
    for (const MetricInfo& m : metrics()) {
      const auto value = d.value(m.metric);
      v(m.name, metric_value(value));
      if (value) continue;
      const std::string why = view->backend->why_absent(d.look.device, m.metric);
      absent.rows.push_back({m.name, unless_empty(why.empty() ? d.look.message : why)});
    }
    v("absent", Value(std::move(absent)));
    v("processes", d.look.reading.has_processes ? value_of(d.processes) : Value());
  }
};

struct StatDocument {
  const StatView& view;

  template <class V>
  void fields(V&& v) const {
    v("schema", "profgpu.stat.v1"), v("time", iso_time(view.time_ns)), v("time_ns", view.time_ns);
    v("host", unless_empty(view.host)), v("driver", unless_empty(view.driver)), v("backend", view.backend->name());
    std::vector<DeviceDocument> devices;
    for (const StatDevice& d : view.devices) devices.push_back({&view, &d});
    v("devices", InFull<DeviceDocument>{devices});
  }
};

struct GpustatProcess {
  const StatProcess* process;

  template <class V>
  void fields(V&& v) const {
    const auto& [sample, host] = *process;
    const std::string command = host.command();
    v("username", unless_empty(host.user)), v("command", unless_empty(command.empty() ? sample.name : command));
    v("full_command", host.arguments);
    v("gpu_memory_usage", sample.memory_bytes ? std::optional(*sample.memory_bytes >> 20) : std::nullopt);
    v("cpu_percent", host.cpu_pct), v("cpu_memory_usage", host.memory_bytes), v("pid", sample.pid);
  }
};

struct GpustatDevice {
  const StatDevice* device;

  template <class V>
  void fields(V&& v) const {
    const StatDevice& d = *device;
    const bool well = d.look.state == DeviceState::kOk;
    // In gpustat's unit, whole, cut as gpustat does.
    const auto whole = [&](Metric m, double unit = 1) {
      const auto x = well ? d.value(m) : std::nullopt;
      return x ? std::optional(static_cast<int64_t>(*x / unit)) : std::nullopt;
    };
    v("index", d.info->index), v("uuid", unless_empty(d.info->uuid));
    v("name", well ? d.info->name : "((" + d.look.message + "))");
    v("temperature.gpu", whole(Metric::kTemperature)), v("fan.speed", whole(Metric::kFanSpeed));
    v("utilization.gpu", whole(Metric::kUtilization)), v("utilization.enc", whole(Metric::kEncoderUtilization));
    v("utilization.dec", whole(Metric::kDecoderUtilization)), v("power.draw", whole(Metric::kPower));
    v("enforced.power.limit", whole(Metric::kPowerLimit)), v("memory.used", whole(Metric::kMemoryUsed, 1 << 20));
    v("memory.total", whole(Metric::kMemoryTotal, 1 << 20));
    std::vector<GpustatProcess> processes;
    for (const StatProcess& p : d.processes) processes.push_back({&p});
    v("processes", only_if(well && d.look.reading.has_processes, InFull<GpustatProcess>{processes}));
  }
};

struct GpustatDocument {
  const StatView& view;

  template <class V>
  void fields(V&& v) const {
    v("hostname", view.host), v("driver_version", unless_empty(view.driver));
    v("query_time", iso_time(view.time_ns, false));
    std::vector<GpustatDevice> devices;
    for (const StatDevice& d : view.devices)
      if (!d.info->parent) devices.push_back({&d});  // gpustat knows no MIG instances
    v("gpus", InFull<GpustatDevice>{devices});
  }
};

}  // namespace

std::string stat_json(const StatView& view) { return json_document(StatDocument{view}); }

std::string gpustat_json(const StatView& view) { return json_document(GpustatDocument{view}); }

}  // namespace profgpu
