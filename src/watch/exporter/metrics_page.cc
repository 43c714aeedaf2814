#include "watch/exporter/metrics_page.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <map>

#include "base/steady_unix.h"
#include "base/text.h"
#include "base/version.h"
#include "devices/system_files.h"
#include "trace/health.h"

namespace profgpu {
namespace {

constexpr SeriesType kPageGauge = SeriesType::kGauge, kPageCounter = SeriesType::kCounter;
constexpr double kNs = 1e-9;
constexpr size_t kMaxCopies = 64;  // of a device's series

std::string joined_labels(std::initializer_list<std::string> labels) {
  std::string out;
  for (const std::string& l : labels)
    if (!l.empty()) append_listed(out, l, ",");
  return out;
}

std::optional<double> known_if(bool known, double value) { return known ? std::optional(value) : std::nullopt; }

// None for an empty value.
std::string label_if(std::string_view name, std::string_view value) { return value.empty() ? "" : label(name, value); }

std::string text_of(std::optional<int64_t> number) { return number ? std::to_string(*number) : ""; }

// In dcgm-exporter's order. MIG instances have the number of their GPU.
std::string dcgm_labels(const MetricsPageInput& input, const DeviceInfo& i) {
  const std::string number = std::to_string(i.index);
  return joined_labels(
      {label("gpu", number), label("UUID", i.uuid), label("pci_bus_id", upper_case(i.pci_bus_id)),
       label("device", lower_case(i.vendor) + number), label("modelName", i.name),
       label_if("GPU_I_PROFILE", i.mig_profile), label_if("GPU_I_ID", text_of(i.gpu_instance)),
       label_if("Hostname", input.host),
       input.counters->driver_label ? label_if("DCGM_FI_DRIVER_VERSION", i.driver_version) : ""});
}

std::string own_labels(const MetricsPageInput& input, const DeviceInfo& i) {
  return joined_labels({label("gpu", std::to_string(i.index)), label("uuid", i.uuid), label("model", i.name),
                        label_if("mig_profile", i.mig_profile), label_if("mig_instance", text_of(i.gpu_instance)),
                        label_if("host", input.host)});
}

std::string pod_labels(const PodContainer& c, std::string_view share_name) {
  return joined_labels({label("container", c.container), label("namespace", c.name_space), label("pod", c.pod),
                        share_name.empty() ? "" : label_if(share_name, c.share)});
}

// Labels of all series of one device: dcgm-exporter has a copy for each job, and for each container where devices are
// shared, else for one container. Ours is always the first by name.
std::vector<std::string> dcgm_copies(const MetricsPageInput& input, const ShownDevice& d) {
  std::vector<std::string> copies{dcgm_labels(input, *d.info)};
  const auto multiply = [&](const std::vector<std::string>& labels) {
    if (labels.empty()) return;
    std::vector<std::string> more;
    for (const std::string& copy : copies)
      for (const std::string& l : labels)
        if (more.size() < kMaxCopies) more.push_back(joined_labels({copy, l}));
    copies = std::move(more);
  };
  std::vector<std::string> pods, jobs;
  for (const PodContainer& c : d.pods)
    if (input.shared_pods || pods.empty()) pods.push_back(pod_labels(c, input.shared_pods ? "vgpu" : ""));
  for (const std::string& job : d.jobs) jobs.push_back(label("hpc_job", job));
  multiply(pods);
  multiply(jobs);
  return copies;
}

class Page {
 public:
  Page(const MetricsPageInput& input, ExpositionFormat format, size_t room) : input_(input), out_(format, room) {
    for (const ShownDevice& d : input.devices) labels_.push_back(own_labels(input, *d.info));
  }

  void add_dcgm();
  void add_health();
  void add_metrics();
  void add_sums();
  void add_xids();
  void add_self();
  std::string take() { return out_.take(); }

 private:
  enum class Of : uint8_t { kAll, kUp };
  // `number`: of a device; nullopt: it has no such series.
  template <class Number>
  void per_device(std::string_view name, SeriesType type, std::string_view help, Of devices, const Number& number) {
    out_.family(name, type, help);
    for (size_t i = 0; i < input_.devices.size(); ++i)
      if (devices == Of::kAll || input_.devices[i].up)
        if (const std::optional<double> n = number(input_.devices[i])) out_.sample(labels_[i], *n);
  }
  // `each`: calls its second argument with the labels of each series of a device. Their value is 1.
  template <class Each>
  void per_label(std::string_view name, std::string_view help, const Each& each) {
    out_.family(name, kPageGauge, help);
    for (size_t i = 0; i < input_.devices.size(); ++i)
      each(input_.devices[i], [&](const std::string& more) { out_.sample(joined_labels({labels_[i], more}), 1); });
  }

  const MetricsPageInput& input_;
  Exposition out_;
  std::vector<std::string> labels_;  // by device
};

void Page::add_dcgm() {
  if (input_.names == DcgmNames::kOff) return;
  std::vector<std::vector<std::string>> labels;  // by device
  for (const ShownDevice& d : input_.devices) labels.push_back(dcgm_copies(input_, d));
  for (const DcgmCounter& c : input_.counters->counters) {
    out_.family(c.field->name_in(input_.names), c.type, c.help);
    for (size_t i = 0; i < input_.devices.size(); ++i) {
      const ShownDevice& d = input_.devices[i];
      const bool xid = c.field->form == DcgmField::Form::kXid;
      if ((!d.up && !xid) || (d.info->parent && of_whole_gpu(c.field->metric))) continue;
      const auto text = dcgm_text(*c.field, d.tally, input_.now_ns);
      if (!text) continue;
      std::string more;
      if (xid) {
        const XidMeaning* known = find_xid(std::atoi(text->c_str()));
        more = "," + label("err_code", *text) + "," +
               label("err_msg", *text == "0" ? "No Error"
                                : known      ? known->what
                                             : "unknown");
      }
      for (const std::string& l : labels[i]) out_.sample(l + more, *text);
    }
  }
}

void Page::add_health() {
  per_device("profgpu_device_up", kPageGauge, "1: the device answers; 0: it is lost or hangs, and its values are left out",
             Of::kAll, [](const ShownDevice& d) {
               return known_if(d.health.good_at_ns || !d.health.trouble.empty(), d.up ? 1.0 : 0.0);
             });
  per_device("profgpu_device_last_success_timestamp_seconds", kPageGauge, "when the device last answered", Of::kAll,
             [](const ShownDevice& d) {
               return known_if(d.health.good_at_ns != 0,
                               static_cast<double>(d.health.good_at_ns + clock_set_by_ns()) * kNs);
             });
  per_device("profgpu_device_errors_total", kPageCounter, "failed readings, and times that the device stopped answering",
             Of::kAll, [](const ShownDevice& d) { return static_cast<double>(d.health.errors); });
  per_label("profgpu_device_info", "constant properties of a device; always 1", [](const ShownDevice& d, const auto& add) {
    const DeviceInfo& i = *d.info;
    add(joined_labels({label("vendor", i.vendor), label("pci_bus_id", i.pci_bus_id),
                       label("driver_version", i.driver_version), label_if("numa_node", text_of(i.numa_node))}));
  });
  per_label("profgpu_device_job_info", "jobs of a batch system on the device; always 1",
            [](const ShownDevice& d, const auto& add) {
              for (const std::string& job : d.jobs) add(label("hpc_job", job));
            });
  per_label("profgpu_device_pod_info", "containers with the device, according to the kubelet; always 1",
            [](const ShownDevice& d, const auto& add) {
              for (const PodContainer& c : d.pods) add(pod_labels(c, "share"));
            });
  per_device("profgpu_device_processes", kPageGauge, "processes on the device", Of::kUp,
             [](const ShownDevice& d) { return static_cast<double>(d.tally.processes().size()); });
}

void Page::add_metrics() {
  for (const MetricInfo& m : metrics()) {
    if (m.metric == Metric::kXidErrors || m.metric == Metric::kXidLast) continue;  // add_xids() has more detail
    const SeriesType type = m.kind == MetricKind::kCounter ? kPageCounter : kPageGauge;
    per_device(m.prometheus, type, m.help, Of::kUp, [&](const ShownDevice& d) -> std::optional<double> {
      if (d.info->parent && of_whole_gpu(m.metric)) return std::nullopt;
      const auto value = d.tally.value(m.metric, input_.now_ns);
      if (value) return *value * m.prometheus_scale;
      return d.tally.reported(m.metric) ? std::nullopt : d.tally.integrated(m.metric);
    });
  }
}

void Page::add_sums() {
  per_device("profgpu_busy_seconds_total", kPageCounter,
             "time that at least one kernel ran, summed over all of the driver's samples", Of::kUp,
             [](const ShownDevice& d) { return known_if(d.tally.busy().last_ns != 0, d.tally.busy().sum * 0.01); });
  per_device("profgpu_watched_seconds_total", kPageCounter, "time that profgpu_busy_seconds_total covers", Of::kUp,
             [](const ShownDevice& d) { return known_if(d.tally.busy().last_ns != 0, d.tally.busy().seconds); });
  out_.family("profgpu_clock_reason_seconds_total", kPageCounter,
              "time with lowered clocks, by reason, from samples of the active reasons");
  for (size_t i = 0; i < input_.devices.size(); ++i) {
    const auto& reasons = input_.devices[i].tally.reasons();
    for (size_t r = 0; r < reasons.size() && input_.devices[i].up; ++r)
      if (reasons[r].last_ns != 0)
        out_.sample(labels_[i] + "," + label("reason", clock_reasons()[r].name), reasons[r].sum);
  }
}

// Known codes begin at 0, so that increase() sees the first error. Includes lost devices: the error may be why.
void Page::add_xids() {
  out_.family("profgpu_xid_errors_total", kPageCounter,
              "errors that the driver reported (Xid) since the exporter started, by code");
  std::map<int64_t, int64_t> none;   // of each known code
  for (const XidMeaning& x : known_xids()) none.try_emplace(x.code, 0);
  for (size_t i = 0; i < input_.devices.size(); ++i) {
    const auto& counted = input_.devices[i].tally.xids();
    if (!counted) continue;
    std::map<int64_t, int64_t> counts = *counted;
    counts.merge(std::map(none));
    for (const auto& [code, count] : counts)
      out_.sample(labels_[i] + "," + label("xid", code < 0 ? "unknown" : std::to_string(code)),
                  static_cast<double>(count));
  }
}

double own_cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// The second number of /proc/self/statm, in pages.
std::optional<double> own_resident_bytes() {
  const std::string text = file_text("/proc/self/statm", 256).value_or("");
  const size_t blank = text.find(' ');
  if (blank == text.npos) return std::nullopt;
  return std::strtod(text.c_str() + blank, nullptr) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

void Page::add_self() {
  const auto one = [&](std::string_view name, SeriesType type, std::string_view help, auto value,
                       std::string_view labels = {}) {
    out_.family(name, type, help);
    out_.sample(labels, static_cast<double>(value));
  };
  const SamplerStatistics& s = input_.sampler;
  one("profgpu_exporter_build_info", kPageGauge, "the exporter's version; always 1", 1, label("version", kVersion));
  one("profgpu_exporter_readings_total", kPageCounter, "readings taken, over all devices", s.ticks);
  one("profgpu_exporter_late_readings_total", kPageCounter, "readings that began over half an interval late",
      s.late_ticks);
  one("profgpu_exporter_missed_readings_total", kPageCounter, "readings that were due but never taken", s.missed_ticks);
  one("profgpu_exporter_driver_calls_total", kPageCounter, "driver calls, or files read", s.calls);
  one("profgpu_exporter_scrapes_total", kPageCounter, "requests for this page", input_.scrapes);
  one("profgpu_exporter_connections", kPageGauge, "open connections", input_.http.connections);
  one("profgpu_exporter_refused_connections_total", kPageCounter,
      "connections closed for lack of space or for being idle", input_.http.refused);
  one("process_cpu_seconds_total", kPageCounter, "CPU time of the exporter", own_cpu_seconds());
  if (input_.kubelet) {
    one("profgpu_kubelet_up", kPageGauge, "1: the kubelet reports which pods have devices; 0: it does not, or has no socket",
        input_.kubelet->up());
    if (const int64_t good_at_ns = input_.kubelet->good_at_ns())
      one("profgpu_kubelet_last_success_timestamp_seconds", kPageGauge, "when the kubelet last answered",
          static_cast<double>(good_at_ns + clock_set_by_ns()) * kNs);
  }
  if (const auto bytes = own_resident_bytes())
    one("process_resident_memory_bytes", kPageGauge, "memory of the exporter", *bytes);
  one("process_start_time_seconds", kPageGauge, "when the exporter started", static_cast<double>(input_.start_ns) * kNs);
}

}  // namespace

std::string metrics_page(const MetricsPageInput& input, ExpositionFormat format, size_t room) {
  Page page(input, format, room);
  page.add_dcgm();
  page.add_health();
  page.add_metrics();
  page.add_sums();
  page.add_xids();
  page.add_self();
  return page.take();
}

namespace {

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fff}table{border-collapse:collapse}"
    "th,td{padding:.25rem .9rem .25rem 0;text-align:right;border-bottom:1px solid #ddd}th:first-child,td:first-child,"
    "th:nth-child(2),td:nth-child(2),td:last-child,th:last-child{text-align:left}.down{color:#b00020}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}.down{color:#ff8a80}"
    "a{color:#8ab4f8}}";

std::string html(std::string_view text) {
  std::string valid(text);
  replace_invalid_utf8(valid);
  return html_escaped(valid);
}

std::string cell(std::optional<double> value, double scale, std::string_view unit) {
  return value ? fmt::format("<td>{:.0f}{}</td>", *value * scale, unit) : "<td>–</td>";
}

std::string row(const ShownDevice& d, int64_t now_ns) {
  const auto value = [&](Metric m) { return d.up ? d.tally.value(m, now_ns) : std::nullopt; };
  std::string jobs = joined(d.jobs);
  for (const PodContainer& c : d.pods) append_listed(jobs, c.name_space + "/" + c.pod);
  const std::string& trouble = d.health.trouble;
  const std::string condition = d.up ? "answers" : trouble.empty() ? "has not answered yet" : trouble;
  constexpr double kGiB = 1.0 / (1 << 30);
  return fmt::format("<tr><td>{}</td><td>{}</td>{}{}{}{}{}<td>{}</td><td{}>{}</td></tr>\n", html(d.info->label()),
                     html(d.info->name), cell(value(Metric::kUtilization), 1, " %"),
                     cell(value(Metric::kMemoryUsed), kGiB, " GiB"), cell(value(Metric::kMemoryTotal), kGiB, " GiB"),
                     cell(value(Metric::kPower), 1, " W"), cell(value(Metric::kTemperature), 1, " °C"), html(jobs),
                     d.up ? "" : " class=down", html(condition));
}

}  // namespace

std::string status_page(const MetricsPageInput& input) {
  std::string rows;
  for (const ShownDevice& d : input.devices) rows += row(d, input.now_ns);
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>profgpu exporter</title><style>{}</style></head><body>\n<h1>profgpu exporter</h1>\n"
      "<p>{}version {} · <a href=/metrics>/metrics</a> · <a href=/health>/health</a> · <a "
      "href=/-/ready>/-/ready</a></p>\n"
      "<table><tr><th>GPU</th><th>model</th><th>busy</th><th>memory</th><th>of</th><th>power</th><th>temperature</th>"
      "<th>jobs, pods</th><th>state</th></tr>\n{}</table>\n</body></html>\n",
      kStyle, input.host.empty() ? "" : html(input.host) + " · ", kVersion, rows);
}

}  // namespace profgpu
