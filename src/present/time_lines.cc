#include "present/bars.h"
#include "present/first_screen.h"
#include "present/overview.h"
#include "present/wording.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr size_t kMostDevices = 8;

Panel step_panel(const Report& report, const RankReport& rank) {
  const StepOverview step = step_overview(rank);
  Panel panel{step.title, {}, {}};
  if (report.ranks.size() > 1) panel.title += ", rank " + std::to_string(rank.rank);
  for (const Share& phase : step.phases) {
    const std::string pct = padded_left(format_percent(phase.pct), 6);
    const std::string ns = phase.ns ? format_duration(*phase.ns) + "  " : "";
    panel.rows.push_back({phase.name, phase.pct, ns + pct, Style::kWall});
  }
  return panel;
}

void add_idle(Panel& panel, const DeviceOverview& device, const std::string& label) {
  if (!device.idle_pct || *device.idle_pct < 0.05) return;
  panel.rows.push_back({label, *device.idle_pct, format_percent(*device.idle_pct), Style::kIdle});
  for (const Share& cause : device.causes)
    panel.rows.push_back({"  " + cause.name, cause.pct, format_percent(cause.pct), Style::kIdle});
}

Panel device_panel(const DeviceOverview& device) {
  Panel panel{device.title, {}, device.notes};
  if (device.busy_pct) panel.rows.push_back({"busy", *device.busy_pct, format_percent(*device.busy_pct), Style::kBusy});
  add_idle(panel, device, "idle");
  return panel;
}

// A line for each device; why it idles for the busiest, which sets the pace.
Panel devices_panel(const RankReport& rank, const std::vector<DeviceOverview>& devices) {
  Panel panel{plural(static_cast<int64_t>(devices.size()), "GPU", "GPUs"), {}, {}};
  for (size_t i = 0; i < devices.size() && i < kMostDevices; ++i)
    if (const auto& pct = devices[i].busy_pct)
      panel.rows.push_back({devices[i].name + " busy", *pct, format_percent(*pct), Style::kBusy});
  const DeviceOverview& busiest = devices[static_cast<size_t>(rank.busiest() - rank.devices.data())];
  add_idle(panel, busiest, busiest.name + " idle");
  panel.notes = busiest.notes;
  if (devices.size() > kMostDevices)
    panel.notes.push_back("and " + format_count(static_cast<int64_t>(devices.size() - kMostDevices)) +
                          " more: --section devices");
  return panel;
}

}  // namespace

Lines time_lines(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank) return {};
  const std::vector<DeviceOverview> devices = device_overviews(*rank);
  std::vector<Panel> panels{step_panel(report, *rank)};
  if (devices.size() == 1) panels.push_back(device_panel(devices.front()));
  if (devices.size() > 1) panels.push_back(devices_panel(*rank, devices));
  return panels_lines(panels, layout_width(options));
}

}  // namespace profgpu
