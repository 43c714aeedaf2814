// What analyses found: the sections of the report as tables, with the same names and numbers, and what they are made
// of.
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

Datum activity_name(const From& f, ActivityId id) { return id.valid() ? Datum(f.trace().name(id)) : Datum(); }

std::vector<Stretch> devices_of_gaps(const From& f) {
  std::vector<Stretch> all;
  size_t begin = 0;
  for (const DeviceIdle& d : f.rank->idle().devices) {
    all.push_back({begin, begin + d.gaps.size(), d.device});
    begin += d.gaps.size();
  }
  return all;
}

const Gap& gap(const From& f, size_t i) { return *f.rank->gaps()[i]; }

}  // namespace

extern const DataTable kDeviceData, kStepData, kPhaseData, kPhaseSegmentData, kIdleData, kGapData, kKernelNameData,
    kOpNameData, kLaunchData, kCollectiveData, kMemoryData, kThreadTimeData;

const DataTable kDeviceData{
    .name = "devices",
    .summary = "time on each device: busy, idle, by kind of work; what `analyze` shows",
    .columns = of_rank(
        {{"id", Kind::kInteger, "device id as recorded"},
         {"name", Kind::kText, "name of the device"},
         {"span_ns", Kind::kInteger, "first activity's start to last one's end"},
         {"busy_ns", Kind::kInteger, "time with at least one activity"},
         {"idle_ns", Kind::kInteger, "span less busy"},
         {"compute_ns", Kind::kInteger, "time with compute"},
         {"communication_ns", Kind::kInteger, "time with communication"},
         {"memory_ns", Kind::kInteger, "time with copies or sets"},
         {"exposed_communication_ns", Kind::kInteger, "communication while no compute runs"},
         {"exposed_memory_ns", Kind::kInteger, "copies and sets while nothing else runs"},
         {"overlap_pct", Kind::kReal, "share of communication that compute hides"},
         {"utilization_pct", Kind::kReal, "busy of span"},
         {"window_ns", Kind::kInteger, "first step's start or activity to the last one's end"},
         {"window_idle_ns", Kind::kInteger, "window less busy"},
         {"window_utilization_pct", Kind::kReal, "busy of window"}}),
    .rows = section_rows,
    .section = "devices",
};

const DataTable kStepData{
    .name = "steps",
    .summary = "every step of the training loop",
    .columns = of_rank(
        {{"name", Kind::kText, "name of the step's range"},
         {"number", Kind::kInteger, "the number in its name, else its place",   // `index` is a word of SQL's
          [](const From& f, size_t i, size_t) -> Datum { return *f.section->at(i, "index").integer(); }},
         {"start_ns", Kind::kInteger, "start, on the trace's clock"},
         {"duration_ns", Kind::kInteger, "wall time"},
         {"device", Kind::kInteger, "the rank's busiest device"},
         {"device_busy_ns", Kind::kInteger, "its busy time within the step"},
         {"device_idle_ns", Kind::kInteger, "its idle time within the step"},
         {"warmup", Kind::kInteger, "1: left out of averages"}}),
    .rows = section_rows,
    .section = "steps",
};

const DataTable kPhaseData{
    .name = "phases",
    .summary = "wall time of all steps by phase of training",
    .columns = of_rank(
        {{"name", Kind::kText, "data_loading, forward, backward, optimizer, communication, checkpoint or other"},
         {"wall_ns", Kind::kInteger, "wall time"},
         {"wall_pct", Kind::kReal, "of all steps' wall time"},
         {"device_busy_ns", Kind::kInteger, "busy time of what was launched from it"}}),
    .rows = section_rows,
    .section = "phases",
};

const DataTable kPhaseSegmentData{
    .name = "phase_segments",
    .summary = "which phase each instant of the steps belongs to",
    .columns = of_rank(
        {{"start_ns", Kind::kInteger, "start, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.rank->phases().segments[i].start_ns; }},
         {"duration_ns", Kind::kInteger, "how long",
          [](const From& f, size_t i, size_t) -> Datum {
            const PhaseSegment& s = f.rank->phases().segments[i];
            return s.end_ns - s.start_ns;
          }},
         {"phase", Kind::kText, "name of the phase",
          [](const From& f, size_t i, size_t) -> Datum { return f.rank->phases().name(f.rank->phases().segments[i].phase); }},
         {"step", Kind::kInteger, "place of the step in steps, from 0",
          [](const From& f, size_t i, size_t) -> Datum { return f.rank->phases().segments[i].step; }}}),
    .rows = [](const From& f) { return f.rank->phases().segments.size(); },
    .sorted = "start_ns",
};

const DataTable kIdleData{
    .name = "idle",
    .summary = "idle time of devices by cause",
    .columns = of_rank(
        {{"device", Kind::kInteger, "device id as recorded"},
         {"cause", Kind::kText, "why the device waited; `profgpu rules` has more"},
         {"total_ns", Kind::kInteger, "sum of the gaps"},
         {"span_pct", Kind::kReal, "of the device's span"},
         {"count", Kind::kInteger, "gaps"}}),
    .rows = section_rows,
    .section = "idle",
};

const DataTable kGapData{
    .name = "gaps",
    .summary = "every gap of every device, with its cause",
    .columns = of_rank(
        {{"device", Kind::kInteger, "device id as recorded",
          [](const From& f, size_t i, size_t) -> Datum {
            const ActivityId after = f.rank->gaps()[i]->after;
            return after.valid() ? Datum(f.trace().device_of(after)) : Datum();
          }},
         {"start_ns", Kind::kInteger, "start, on the trace's clock", cell<gap, &Gap::start_ns>},
         {"duration_ns", Kind::kInteger, "how long the device was idle",
          [](const From& f, size_t i, size_t) -> Datum { return f.rank->gaps()[i]->length(); }},
         {"end_ns", Kind::kInteger, "end, on the trace's clock", cell<gap, &Gap::end_ns>},
         {"cause", Kind::kText, "why the device waited",
          [](const From& f, size_t i, size_t) -> Datum { return idle_cause_name(f.rank->gaps()[i]->cause); }},
         {"after", Kind::kText, "name of the activity that it comes after",
          [](const From& f, size_t i, size_t) { return activity_name(f, f.rank->gaps()[i]->before); }},
         {"before", Kind::kText, "name of the activity that it comes before",
          [](const From& f, size_t i, size_t) { return activity_name(f, f.rank->gaps()[i]->after); }},
         {"host", Kind::kText, "name of the range that the launching thread spent most of the gap in",
          [](const From& f, size_t i, size_t) -> Datum {
            const HostId host = f.rank->gaps()[i]->host;
            return host.valid() ? Datum(f.trace().name(host)) : Datum();
          }},
         {"after_id", Kind::kInteger, "row of activity", cell<gap, &Gap::before>},
         {"before_id", Kind::kInteger, "row of activity", cell<gap, &Gap::after>},
         {"launch_id", Kind::kInteger, "row of host: the call that launched what ends it", cell<gap, &Gap::launch>},
         {"host_id", Kind::kInteger, "row of host", cell<gap, &Gap::host>}}),
    .rows = [](const From& f) { return f.rank->gaps().size(); },
    .sorted = "start_ns",
    .key = "device",
    .stretches = devices_of_gaps,
};

const DataTable kKernelNameData{
    .name = "kernels_by_name",
    .summary = "kernels, copies and sets by device and name",
    .columns = of_rank(
        {{"device", Kind::kInteger, "device id as recorded"},
         {"name", Kind::kText, "name as recorded"},
         {"short_name", Kind::kText, "name without return type, template arguments and parameters"},
         {"kind", Kind::kText, "compute, communication or memory"},
         {"category", Kind::kText, "gemm, attention, elementwise and so on"},
         {"count", Kind::kInteger, "how often it ran"},
         {"total_ns", Kind::kInteger, "sum of durations"},
         {"mean_ns", Kind::kInteger, "mean duration"},
         {"min_ns", Kind::kInteger, "shortest"},
         {"median_ns", Kind::kInteger, "median duration"},
         {"p95_ns", Kind::kInteger, "95th percentile"},
         {"max_ns", Kind::kInteger, "longest"},
         {"stddev_ns", Kind::kInteger, "standard deviation"},
         {"kernel_pct", Kind::kReal, "of the sum of all kernels' durations on the device"},
         {"tensor_cores", Kind::kInteger, "1: its name says that it uses tensor cores"}}),
    .rows = section_rows,
    .section = "kernels",
};

const DataTable kOpNameData{
    .name = "ops_by_name",
    .summary = "operators by name, as PyTorch's key_averages counts them, with device time",
    .columns = of_rank(
        {{"name", Kind::kText, "name of the operator"},
         {"calls", Kind::kInteger, "how often it was called"},
         {"cpu_total_ns", Kind::kInteger, "sum of durations on the host"},
         {"cpu_self_ns", Kind::kInteger, "less what ranges directly inside took"},
         {"device_total_ns", Kind::kInteger, "sum of durations of what was launched from inside"},
         {"device_self_ns", Kind::kInteger, "of what it launched itself"},
         {"flops", Kind::kInteger, "floating-point operations, as torch.utils.flop_counter counts them"},
         {"flops_is_lower_bound", Kind::kInteger, "1: some calls have at least so many"},
         {"bytes", Kind::kInteger, "the least that they must move: inputs and outputs once"}}),
    .rows = section_rows,
    .section = "ops",
};

const DataTable kLaunchData{
    .name = "launch_summary",
    .summary = "cost and latency of launches",
    .columns = of_rank(
        {{"launches", Kind::kInteger, "calls that launched something that is in the file"},
         {"median_latency_ns", Kind::kInteger, "from the call's start to the kernel's"},
         {"p95_latency_ns", Kind::kInteger, "95th percentile"},
         {"short_kernels", Kind::kInteger, "kernels shorter than their own launch call"},
         {"short_kernel_pct", Kind::kReal, "of kernels with a launch, outside graphs"},
         {"median_queue_depth", Kind::kReal, "activities launched and not yet ended, at a launch"}}),
    .rows = section_rows,
    .section = "launch",
};

const DataTable kCollectiveData{
    .name = "collectives",
    .summary = "collectives by name, type, group and size",
    .columns = of_rank(
        {{"name", Kind::kText, "all_reduce, all_gather and so on"},
         {"dtype", Kind::kText, "type of the elements"},
         {"group_size", Kind::kInteger, "ranks of the group"},
         {"process_group", Kind::kText, "name of the group"},
         {"calls", Kind::kInteger, "how often"},
         {"message_bytes", Kind::kInteger, "size of one message, as nccl-tests defines it"},
         {"total_ns", Kind::kInteger, "time with at least one of them"},
         {"exposed_ns", Kind::kInteger, "of it, where no compute runs"},
         {"algbw_gbps", Kind::kReal, "bytes over time of transfer"},
         {"busbw_gbps", Kind::kReal, "the same times nccl-tests' factor"},
         {"wait_ns", Kind::kInteger, "waiting for later ranks"},
         {"wait_is_lower_bound", Kind::kInteger, "1: not all ranks are in the input"}}),
    .rows = section_rows,
    .section = "collectives",
};

const DataTable kMemoryData{
    .name = "memory",
    .summary = "device memory as the framework's allocator saw it",
    .columns = of_rank(
        {{"peak_allocated_bytes", Kind::kInteger, "most that was allocated"},
         {"peak_reserved_bytes", Kind::kInteger, "most that was reserved"},
         {"capacity_bytes", Kind::kInteger, "what the device has"},
         {"growth_bytes_per_step", Kind::kReal, "slope of the lowest allocation in each step"},
         {"fragmentation_pct", Kind::kReal, "reserved, but not allocated, at the peak"},
         {"allocator_calls", Kind::kInteger, "cudaMalloc, cudaFree and the like"}}),
    .rows = section_rows,
    .section = "memory",
};

const DataTable kThreadTimeData{
    .name = "thread_times",
    .summary = "what threads did on the processor while profgpu recorded",
    .columns = of_rank(
        {{"process", Kind::kText, "process id as recorded"},
         {"thread", Kind::kText, "thread id as recorded"},
         {"name", Kind::kText, "name, if one was recorded"},
         {"samples", Kind::kInteger, "number of samples"},
         {"observed_ns", Kind::kInteger, "from the first sample to the last"},
         {"cpu_ns", Kind::kInteger, "CPU time within"},
         {"cpu_pct", Kind::kReal, "of the time observed"},
         {"waited_ns", Kind::kInteger, "ready to run, but without a CPU"},
         {"blocked_ns", Kind::kInteger, "neither running nor ready to run"},
         {"blocked_pct", Kind::kReal, "of the time observed"},
         {"blocked_source", Kind::kText,
          "switches: from context switches; proc: the observed time minus the times above"},
         {"waits", Kind::kInteger, "how often it blocked, if context switches were recorded"},
         {"longest_wait_ns", Kind::kInteger, "the longest of its rows of thread_waits"}}),
    .rows = section_rows,
    .section = "threads",
};

}  // namespace profgpu
