#include "cli/stat_json.h"

#include "present/json_text.h"

namespace profgpu {
namespace {

void put_text_or_null(JsonText& json, std::string_view text) { text.empty() ? json.null() : json.text(text); }

void write_processor_side(JsonText& json, const HostProcess& host) {
  json.key("user"), put_text_or_null(json, host.user);
  json.key("command"), put_text_or_null(json, host.command());
  json.key("arguments"), json.open('[', Layout::kInline);
  for (const std::string& argument : host.arguments) json.element(), json.text(argument);
  json.close(']');
  json.key("cpu_pct"), json.real_or_null(host.cpu_pct);
  json.key("host_memory_bytes"), json.integer_or_null(host.memory_bytes);
  json.key("threads"), json.integer_or_null(host.threads);
  json.key("start_ns"), json.integer_or_null(host.start_ns);
  json.key("container_runtime"), put_text_or_null(json, host.placement.container_runtime);
  json.key("container"), put_text_or_null(json, host.placement.container);
  json.key("pod"), put_text_or_null(json, host.placement.pod);
  json.key("slurm_job"), put_text_or_null(json, host.placement.slurm_job);
  json.key("slurm_step"), put_text_or_null(json, host.placement.slurm_step);
  json.key("rank"), json.integer_or_null(host.rank);
  json.key("local_rank"), json.integer_or_null(host.local_rank);
  json.key("world_size"), json.integer_or_null(host.world_size);
}

void write_process(JsonText& json, const StatProcess& p) {
  json.open('{', Layout::kInline);
  json.key("pid"), json.integer(p.sample.pid);
  json.key("type"), json.text(std::string_view(&p.sample.type, 1));
  json.key("memory_bytes"), json.integer_or_null(p.sample.memory_bytes);
  json.key("utilization_pct"), json.real_or_null(p.sample.utilization_pct);
  json.key("memory_utilization_pct"), json.real_or_null(p.sample.memory_utilization_pct);
  json.key("encoder_utilization_pct"), json.real_or_null(p.sample.encoder_pct);
  json.key("decoder_utilization_pct"), json.real_or_null(p.sample.decoder_pct);
  json.key("name"), put_text_or_null(json, p.sample.name);
  json.key("visible_pid"), p.host.visible_pid != 0 ? json.integer(p.host.visible_pid) : json.null();
  json.key("inferred"), json.boolean(p.host.inferred);
  json.key("unknown"), put_text_or_null(json, p.host.unknown);
  write_processor_side(json, p.host);
  json.close('}');
}

// Counters and most gauges are whole numbers in double's exact range: written without an exponent.
void write_value(JsonText& json, double value) {
  if (value >= -9e15 && value <= 9e15 && value == static_cast<double>(static_cast<int64_t>(value)))
    return json.integer(static_cast<int64_t>(value));
  json.real(value);
}

void write_metrics(JsonText& json, const StatView& view, const StatDevice& d) {
  std::vector<Metric> absent;
  for (const MetricInfo& m : metrics()) {
    json.key(m.name);
    const auto value = d.value(m.metric);
    value ? write_value(json, *value) : json.null();
    if (!value) absent.push_back(m.metric);
  }
  json.key("absent"), json.open('[');
  for (const Metric metric : absent) {
    const std::string why = view.backend->why_absent(d.look.device, metric);
    json.element(), json.open('{', Layout::kInline);
    json.key("metric"), json.text(metric_info(metric).name);
    json.key("reason");
    if (!why.empty()) json.text(why);
    else d.look.message.empty() ? json.null() : json.text(d.look.message);
    json.close('}');
  }
  json.close(']');
}

void write_device(JsonText& json, const StatView& view, const StatDevice& d) {
  json.element(), json.open('{');
  json.key("index"), json.integer(d.info->index);
  json.key("label"), json.text(d.info->label());
  json.key("name"), json.text(d.info->name);
  json.key("vendor"), json.text(d.info->vendor);
  json.key("uuid"), put_text_or_null(json, d.info->uuid);
  json.key("pci_bus_id"), put_text_or_null(json, d.info->pci_bus_id);
  json.key("mig_profile"), put_text_or_null(json, d.info->mig_profile);
  json.key("state"), json.text(device_state_name(d.look.state));
  json.key("message"), put_text_or_null(json, d.look.message);
  json.key("since_ns");
  d.look.state == DeviceState::kOk ? json.null() : json.integer(d.look.since_ns);
  json.key("time_ns"), json.integer(d.look.reading.time_ns);
  write_metrics(json, view, d);
  json.key("processes");
  if (d.look.reading.has_processes) {
    json.open('[');
    for (const StatProcess& p : d.processes) json.element(), write_process(json, p);
    json.close(']');
  } else {
    json.null();
  }
  json.close('}');
}

// A value in gpustat's unit, whole, cut as gpustat does; null if it is absent.
void whole_or_null(JsonText& json, const std::optional<double>& value, double unit = 1) {
  value ? json.integer(static_cast<int64_t>(*value / unit)) : json.null();
}

constexpr double kBytesPerMiB = 1 << 20;

void write_gpustat_process(JsonText& json, const StatProcess& p) {
  json.element(), json.open('{');
  const std::string command = p.host.command();
  json.key("username"), put_text_or_null(json, p.host.user);
  json.key("command"), put_text_or_null(json, command.empty() ? p.sample.name : command);
  json.key("full_command"), json.open('[');
  for (const std::string& argument : p.host.arguments) json.element(), json.text(argument);
  json.close(']');
  json.key("gpu_memory_usage");
  p.sample.memory_bytes ? json.integer(*p.sample.memory_bytes >> 20) : json.null();
  json.key("cpu_percent"), json.real_or_null(p.host.cpu_pct);
  json.key("cpu_memory_usage"), json.integer_or_null(p.host.memory_bytes);
  json.key("pid"), json.integer(p.sample.pid);
  json.close('}');
}

void write_gpustat_device(JsonText& json, const StatDevice& d) {
  const bool well = d.look.state == DeviceState::kOk;
  const auto value = [&](Metric m) { return well ? d.value(m) : std::nullopt; };
  json.element(), json.open('{');
  json.key("index"), json.integer(d.info->index);
  json.key("uuid"), put_text_or_null(json, d.info->uuid);
  json.key("name"), well ? json.text(d.info->name) : json.text("((" + d.look.message + "))");
  json.key("temperature.gpu"), whole_or_null(json, value(Metric::kTemperature));
  json.key("fan.speed"), whole_or_null(json, value(Metric::kFanSpeed));
  json.key("utilization.gpu"), whole_or_null(json, value(Metric::kUtilization));
  json.key("utilization.enc"), whole_or_null(json, value(Metric::kEncoderUtilization));
  json.key("utilization.dec"), whole_or_null(json, value(Metric::kDecoderUtilization));
  json.key("power.draw"), whole_or_null(json, value(Metric::kPower));
  json.key("enforced.power.limit"), whole_or_null(json, value(Metric::kPowerLimit));
  json.key("memory.used"), whole_or_null(json, value(Metric::kMemoryUsed), kBytesPerMiB);
  json.key("memory.total"), whole_or_null(json, value(Metric::kMemoryTotal), kBytesPerMiB);
  json.key("processes");
  if (well && d.look.reading.has_processes) {
    json.open('[');
    for (const StatProcess& p : d.processes) write_gpustat_process(json, p);
    json.close(']');
  } else {
    json.null();
  }
  json.close('}');
}

}  // namespace

std::string stat_json(const StatView& view) {
  JsonText json;
  json.open('{');
  json.key("schema"), json.text("profgpu.stat.v1");
  json.key("time"), json.text(iso_time(view.time_ns));
  json.key("time_ns"), json.integer(view.time_ns);
  json.key("host"), put_text_or_null(json, view.host);
  json.key("driver"), put_text_or_null(json, view.driver);
  json.key("backend"), json.text(view.backend->name());
  json.key("devices"), json.open('[');
  for (const StatDevice& d : view.devices) write_device(json, view, d);
  json.close(']');
  json.close('}');
  return json.take() + "\n";
}

std::string gpustat_json(const StatView& view) {
  JsonText json;
  json.open('{');
  json.key("hostname"), json.text(view.host);
  json.key("driver_version"), put_text_or_null(json, view.driver);
  json.key("query_time"), json.text(iso_time(view.time_ns, false));
  json.key("gpus"), json.open('[');
  for (const StatDevice& d : view.devices)
    if (!d.info->parent) write_gpustat_device(json, d);  // gpustat knows no MIG instances
  json.close(']');
  json.close('}');
  return json.take() + "\n";
}

}  // namespace profgpu
