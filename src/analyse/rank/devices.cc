#include "analyse/rank/devices.h"

#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"

namespace profgpu {
namespace {

Intervals spans_by_window(const Trace& trace, const DeviceTime& d) {
  Intervals spans;
  size_t window = 0, current = SIZE_MAX;
  for (uint32_t i = d.begin.value; i < d.end.value; ++i) {
    const Interval part = trace.activity.interval(ActivityId(i));
    while (window + 1 < trace.windows.size() && part.start >= trace.windows[window + 1].start) ++window;
    if (window != current) spans.push_back(part);
    current = window;
    spans.back().end = std::max(spans.back().end, part.end);
  }
  return spans;
}

DeviceTime time_on_device(const Trace& trace, const std::vector<WorkKind>& kind, const Trace::DeviceRows& rows) {
  DeviceTime d;
  d.id = rows.device;
  d.name = trace.properties(rows.device).name;
  d.begin = rows.begin;
  d.end = rows.end;
  for (uint32_t i = rows.begin.value; i < rows.end.value; ++i) {
    const Interval part = trace.activity.interval(ActivityId(i));
    append(d.busy, part);
    append(kind[i] == WorkKind::kCompute ? d.compute : kind[i] == WorkKind::kMemory ? d.memory : d.communication, part);
  }
  d.spans = spans_by_window(trace, d);
  d.exposed_communication = subtract(d.communication, d.compute);
  d.span_ns = total_length(d.spans);
  d.busy_ns = total_length(d.busy);
  d.idle_ns = d.span_ns - d.busy_ns;
  d.compute_ns = total_length(d.compute);
  d.communication_ns = total_length(d.communication);
  d.memory_ns = total_length(d.memory);
  d.exposed_communication_ns = total_length(d.exposed_communication);
  d.exposed_memory = subtract(d.memory, unite(d.compute, d.communication));
  d.exposed_memory_ns = total_length(d.exposed_memory);
  return d;
}

}  // namespace

std::vector<DeviceRow> DeviceRow::rows(const Facts& facts) {
  const std::vector<DeviceTime>& devices = facts.get<Devices>().devices;
  std::vector<DeviceRow> rows(devices.begin(), devices.end());
  for (size_t d = 0; d < rows.size(); ++d) rows[d].window_ns = total_length(facts.get<Idle>().devices[d].window);
  return rows;
}

std::string_view work_kind_name(WorkKind kind) {
  constexpr std::string_view kNames[] = {"compute", "communication", "memory"};
  return kNames[static_cast<size_t>(kind)];
}

Devices Devices::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  Devices all;
  all.kind.resize(trace.activity.size());
  for (size_t i = 0; i < trace.activity.size(); ++i)
    all.kind[i] = trace.activity.kind[i] != ActivityKind::kKernel     ? WorkKind::kMemory
                  : names.communication[trace.activity.name[i].value] ? WorkKind::kCommunication
                                                                      : WorkKind::kCompute;
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    all.devices.push_back(time_on_device(trace, all.kind, rows));
    const int last = static_cast<int>(all.devices.size()) - 1;
    if (all.busiest < 0 || all.devices[last].busy_ns > all.devices[all.busiest].busy_ns) all.busiest = last;
  }
  return all;
}

}  // namespace profgpu
