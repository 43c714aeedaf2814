#include "watch/exporter/metrics_page.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>

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

// In dcgm-exporter's order.
std::string dcgm_labels(const MetricsPageInput& input, const ShownDevice& d) {
  const DeviceInfo& i = *d.info;
  return joined_labels(
      {label("gpu", device_number(i)), label("UUID", i.uuid), label("pci_bus_id", upper_case(i.pci_bus_id)),
       label("device", lower_case(i.vendor) + device_number(i)), label("modelName", i.name),
       i.mig_profile.empty() ? "" : label("GPU_I_PROFILE", i.mig_profile),
       i.gpu_instance ? label("GPU_I_ID", std::to_string(*i.gpu_instance)) : "",
       input.host.empty() ? "" : label("Hostname", input.host),
       input.counters->driver_label && !i.driver_version.empty() ? label("DCGM_FI_DRIVER_VERSION", i.driver_version)
                                                                 : ""});
}

std::string own_labels(const MetricsPageInput& input, const ShownDevice& d) {
  const DeviceInfo& i = *d.info;
  return joined_labels({label("gpu", device_number(i)), label("uuid", i.uuid), label("model", i.name),
                        i.mig_profile.empty() ? "" : label("mig_profile", i.mig_profile),
                        i.gpu_instance ? label("mig_instance", std::to_string(*i.gpu_instance)) : "",
                        input.host.empty() ? "" : label("host", input.host)});
}

std::string pod_labels(const PodContainer& c) {
  return joined_labels({label("container", c.container), label("namespace", c.name_space), label("pod", c.pod)});
}

// Of all the series of one device: dcgm-exporter has a copy for each job, and for each container where devices are
// shared, else one container's. Which one is the same every time: the first by name.
std::vector<std::string> dcgm_copies(const MetricsPageInput& input, const ShownDevice& d) {
  std::vector<std::string> copies{dcgm_labels(input, d)};
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
    if (input.shared_pods || pods.empty())
      pods.push_back(
          joined_labels({pod_labels(c), input.shared_pods && !c.share.empty() ? label("vgpu", c.share) : ""}));
  for (const std::string& job : d.jobs) jobs.push_back(label("hpc_job", job));
  multiply(pods);
  multiply(jobs);
  return copies;
}

class Page {
 public:
  Page(const MetricsPageInput& input, ExpositionFormat format, size_t room) : input_(input), out_(format, room) {
    for (const ShownDevice& d : input.devices) labels_.push_back(own_labels(input, d));
  }

  void add_dcgm();
  void add_health();
  void add_metrics();
  void add_sums();
  void add_xids();
  void add_self();
  std::string take() { return out_.take(); }

 private:
  using Number = std::function<std::optional<double>(const ShownDevice&)>;
  void per_device(std::string_view name, SeriesType type, std::string_view help, const Number& number,
                  bool only_up = true);
  void reasons();

  const MetricsPageInput& input_;
  Exposition out_;
  std::vector<std::string> labels_;  // by device
};

void Page::add_dcgm() {
  if (input_.names == DcgmNames::kOff) return;
  std::vector<std::vector<std::string>> labels;  // by device
  for (const ShownDevice& d : input_.devices) labels.push_back(dcgm_copies(input_, d));
  for (const DcgmCounter& c : input_.counters->counters) {
    out_.family(input_.names == DcgmNames::kClassic ? c.field->name : c.field->new_name, c.type, c.help);
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

void Page::per_device(std::string_view name, SeriesType type, std::string_view help, const Number& number,
                      bool only_up) {
  out_.family(name, type, help);
  for (size_t i = 0; i < input_.devices.size(); ++i) {
    if (only_up && !input_.devices[i].up) continue;
    if (const auto n = number(input_.devices[i])) out_.sample(labels_[i], *n);
  }
}

void Page::add_health() {
  per_device(
      "profgpu_device_up", kPageGauge, "1: the device answers; 0: it is lost or hangs, and its values are left out",
      [](const ShownDevice& d) {
        return d.good_at_ns || !d.trouble.empty() ? std::optional(d.up ? 1.0 : 0.0) : std::nullopt;
      },
      false);
  per_device(
      "profgpu_device_last_success_timestamp_seconds", kPageGauge, "when the device last answered",
      [](const ShownDevice& d) {
        return d.good_at_ns ? std::optional(static_cast<double>(d.good_at_ns) * kNs) : std::nullopt;
      },
      false);
  per_device(
      "profgpu_device_errors_total", kPageCounter, "readings that failed, and times that the device fell silent",
      [](const ShownDevice& d) { return static_cast<double>(d.errors); }, false);
  out_.family("profgpu_device_info", kPageGauge, "what does not change of a device; always 1");
  for (size_t i = 0; i < input_.devices.size(); ++i) {
    const DeviceInfo& info = *input_.devices[i].info;
    out_.sample(joined_labels({labels_[i], label("vendor", info.vendor), label("pci_bus_id", info.pci_bus_id),
                        label("driver_version", info.driver_version),
                        info.numa_node ? label("numa_node", std::to_string(*info.numa_node)) : ""}),
                1);
  }
  out_.family("profgpu_device_job_info", kPageGauge, "jobs of a batch system that are on the device; always 1");
  for (size_t i = 0; i < input_.devices.size(); ++i)
    for (const std::string& job : input_.devices[i].jobs)
      out_.sample(joined_labels({labels_[i], label("hpc_job", job)}), 1);
  out_.family("profgpu_device_pod_info", kPageGauge,
              "containers that were given the device, as the kubelet says; always 1");
  for (size_t i = 0; i < input_.devices.size(); ++i)
    for (const PodContainer& c : input_.devices[i].pods)
      out_.sample(joined_labels({labels_[i], pod_labels(c), c.share.empty() ? "" : label("share", c.share)}), 1);
  per_device("profgpu_device_processes", kPageGauge, "processes on the device",
             [](const ShownDevice& d) { return static_cast<double>(d.tally.processes().size()); });
}

void Page::add_metrics() {
  for (const MetricInfo& m : metrics()) {
    if (m.metric == Metric::kXidErrors || m.metric == Metric::kXidLast) continue;  // add_xids() tells more
    const auto number = [&](const ShownDevice& d) -> std::optional<double> {
      if (d.info->parent && of_whole_gpu(m.metric)) return std::nullopt;
      const auto value = d.tally.value(m.metric, input_.now_ns);
      if (value) return *value * m.prometheus_scale;
      if (d.tally.said(m.metric)) return std::nullopt;
      const Integral* sum = m.metric == Metric::kEnergy   ? &d.tally.power()
                            : m.metric == Metric::kPcieTx ? &d.tally.pcie_tx()
                            : m.metric == Metric::kPcieRx ? &d.tally.pcie_rx()
                                                          : nullptr;
      return sum && sum->last_ns != 0 ? std::optional(sum->sum) : std::nullopt;
    };
    per_device(m.prometheus, m.kind == MetricKind::kCounter ? kPageCounter : kPageGauge, m.help, number);
  }
}

void Page::reasons() {
  out_.family("profgpu_clock_reason_seconds_total", kPageCounter,
              "time in which clocks were lowered, by reason, from samples of the reasons in force");
  for (size_t i = 0; i < input_.devices.size(); ++i) {
    const ShownDevice& d = input_.devices[i];
    if (!d.up) continue;
    for (size_t r = 0; r < d.tally.reasons().size(); ++r)
      if (d.tally.reasons()[r].last_ns != 0)
        out_.sample(labels_[i], label("reason", clock_reasons()[r].name), d.tally.reasons()[r].sum);
  }
}

void Page::add_sums() {
  const auto known = [](const Integral& sum, double scale) {
    return sum.last_ns ? std::optional(sum.sum * scale) : std::nullopt;
  };
  per_device("profgpu_busy_seconds_total", kPageCounter,
             "time that at least one kernel ran, added up from all the driver's samples",
             [&](const ShownDevice& d) { return known(d.tally.busy(), 0.01); });
  per_device("profgpu_watched_seconds_total", kPageCounter, "time that profgpu_busy_seconds_total covers",
             [](const ShownDevice& d) {
               return d.tally.busy().last_ns ? std::optional(d.tally.busy().seconds) : std::nullopt;
             });
  reasons();
}

// Codes that are known begin at 0, so that increase() sees the first. Also of lost devices: that is what they are
// about.
void Page::add_xids() {
  out_.family("profgpu_xid_errors_total", kPageCounter,
              "errors that the driver reported (Xid) since the exporter began, by code");
  std::map<int64_t, std::string> known;
  for (const XidMeaning& x : known_xids()) known.try_emplace(x.code, label("xid", std::to_string(x.code)));
  for (size_t i = 0; i < input_.devices.size(); ++i) {
    const auto& counts = input_.devices[i].tally.xids();
    if (!counts) continue;
    for (const auto& [code, text] : known) {
      const auto counted = counts->find(code);
      out_.sample(labels_[i], text, counted == counts->end() ? 0 : static_cast<double>(counted->second));
    }
    for (const auto& [code, count] : *counts)
      if (!known.contains(code))
        out_.sample(labels_[i], label("xid", code < 0 ? "unknown" : std::to_string(code)), static_cast<double>(count));
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
  const ServiceFigures& f = input_.figures;
  const auto one = [&](std::string_view name, SeriesType type, std::string_view help, double value,
                       std::string_view labels = {}) {
    out_.family(name, type, help);
    out_.sample(labels, value);
  };
  one("profgpu_exporter_build_info", kPageGauge, "the exporter's version; always 1", 1, label("version", kVersion));
  one("profgpu_exporter_readings_total", kPageCounter, "readings taken, over all devices",
      static_cast<double>(f.ticks));
  one("profgpu_exporter_late_readings_total", kPageCounter, "readings that began over half an interval late",
      static_cast<double>(f.late_ticks));
  one("profgpu_exporter_missed_readings_total", kPageCounter, "readings that were due and never taken",
      static_cast<double>(f.missed_ticks));
  one("profgpu_exporter_driver_calls_total", kPageCounter, "calls of the driver, or files read",
      static_cast<double>(f.driver_calls));
  one("profgpu_exporter_scrapes_total", kPageCounter, "requests for this page", static_cast<double>(f.scrapes));
  one("profgpu_exporter_connections", kPageGauge, "connections that are open", static_cast<double>(f.connections));
  one("profgpu_exporter_refused_connections_total", kPageCounter,
      "connections that were closed for want of room or time", static_cast<double>(f.refused));
  one("process_cpu_seconds_total", kPageCounter, "processor time of the exporter", own_cpu_seconds());
  if (input_.kubelet) {
    one("profgpu_kubelet_up", kPageGauge,
        "1: the kubelet says which pods are on devices; 0: it does not, or has no socket", input_.kubelet->up ? 1 : 0);
    if (input_.kubelet->good_at_ns)
      one("profgpu_kubelet_last_success_timestamp_seconds", kPageGauge, "when the kubelet last answered",
          static_cast<double>(input_.kubelet->good_at_ns) * kNs);
  }
  if (const auto bytes = own_resident_bytes())
    one("process_resident_memory_bytes", kPageGauge, "memory of the exporter", *bytes);
  one("process_start_time_seconds", kPageGauge, "when the exporter began", static_cast<double>(f.start_ns) * kNs);
}

}  // namespace

std::string device_number(const DeviceInfo& info) { return std::to_string(info.index); }

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
  std::string valid(text), out;
  replace_invalid_utf8(valid);
  for (const char c : valid) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string cell(std::optional<double> value, double scale, std::string_view unit) {
  return value ? fmt::format("<td>{:.0f}{}</td>", *value * scale, unit) : "<td>–</td>";
}

std::string row(const ShownDevice& d, int64_t now_ns) {
  const auto value = [&](Metric m) { return d.up ? d.tally.value(m, now_ns) : std::nullopt; };
  std::string jobs = joined(d.jobs);
  for (const PodContainer& c : d.pods) append_listed(jobs, c.name_space + "/" + c.pod);
  const std::string condition = d.up ? "answers" : d.trouble.empty() ? "has not answered yet" : d.trouble;
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
