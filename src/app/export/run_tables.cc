// Tables about the run itself: ranks, clocks, what files say of themselves, and samples of devices.
#include <algorithm>

#include "analyse/rank/rank_report.h"
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;
using Metadata = std::pair<std::string, std::string>;

const SampleLog& samples(const From& f) {
  static const SampleLog kNone;
  return f.run.samples != nullptr ? *f.run.samples : kNone;
}

// Samples of all series one after the other.
struct SamplePlace {
  const SampleSeries* series;
  size_t at;
};
SamplePlace sample_at(const From& f, size_t row) {
  const std::vector<size_t>& ends = f.run.sample_ends();
  const auto series = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
  return {&samples(f).series[series], row - (series > 0 ? ends[series - 1] : 0)};
}

std::vector<Stretch> series_of_samples(const From& f) {
  std::vector<Stretch> all;
  size_t begin = 0;
  for (size_t s = 0; s < samples(f).series.size(); ++s) {
    const size_t end = f.run.sample_ends()[s];
    all.push_back({begin, end, samples(f).series[s].device});
    begin = end;
  }
  return all;
}

Datum constant(const From& f, size_t i, Metric metric) { return samples(f).devices[i].constant(metric); }

const RankClock* clock_of(const From& f) {
  if (f.run.job != nullptr)
    for (const RankClock& c : f.run.job->clocks)
      if (c.rank == f.rank->rank()) return &c;
  return nullptr;
}

template <auto Member>
Datum clock_cell(const From& f, size_t, size_t) {
  const RankClock* c = clock_of(f);
  return c != nullptr ? Datum(c->*Member) : Datum();
}

const std::vector<TraceIssue>& issues(const From& f) { return f.rank->facts().get<Quality>().issues; }

// Rows, for cell().
const Trace& trace_of(const From& f, size_t) { return f.trace(); }
const Distributed& distributed(const From& f, size_t) { return f.trace().distributed; }
const TraceIssue& issue(const From& f, size_t i) { return issues(f)[i]; }
const Straggler& straggler(const From& f, size_t i) { return f.run.job->stragglers[i]; }
const DeviceInfo& sample_device(const From& f, size_t i) { return samples(f).devices[i]; }
const SampleLog::ProcessRow& process_row(const From& f, size_t i) { return samples(f).processes[i]; }
const ProcessSample& sample_process(const From& f, size_t i) { return samples(f).processes[i].process; }
const SampleLog::Mark& mark(const From& f, size_t i) { return samples(f).marks[i]; }

}  // namespace

extern const DataTable kRankData, kWindowData, kMetadataData, kDevicePropertyData, kIssueData, kStragglerData,
    kSampleData, kSampleDeviceData, kSampleProcessData, kMarkData;

const DataTable kRankData{
    .name = "ranks",
    .summary = "the ranks of the job, and their clocks",
    .columns = of_rank(
        {{"world_size", Kind::kInteger, "ranks that the job says it has", cell<distributed, &Distributed::world_size>},
         {"host", Kind::kText, "name of the machine", cell<trace_of, &Trace::host_name, kTextIfAny>},
         {"backend", Kind::kText, "of torch.distributed", cell<distributed, &Distributed::backend, kTextIfAny>},
         {"base_time_ns", Kind::kInteger, "added to the trace's times gives Unix time",
          cell<trace_of, &Trace::base_time_ns>},
         {"clock_offset_ns", Kind::kInteger, "added to that gives the first rank's clock",
          clock_cell<&RankClock::offset_ns>},
         {"clock_error_ns", Kind::kInteger, "how wrong that may be", clock_cell<&RankClock::error_ns>},
         {"clock_method", Kind::kText, "how it was found", clock_cell<&RankClock::method>},
         {"events", Kind::kInteger, "records in the input", cell<trace_of, &Trace::events>}}),
    .rows = [](const From&) { return size_t{1}; },
};

const DataTable kWindowData{
    .name = "windows",
    .summary = "profiler windows: nothing is measured across the time between two",
    .columns = of_rank(
        {{"start_ns", Kind::kInteger, "start, on the trace's clock", cell<&Trace::windows, &Interval::start>},
         {"duration_ns", Kind::kInteger, "how long", cell<&Trace::windows, &Interval::length>}}),
    .rows = rows_of<&Trace::windows>,
    .sorted = "start_ns",
};

const DataTable kMetadataData{
    .name = "metadata",
    .summary = "what the file says of itself",
    .columns = of_rank(
        {{"key", Kind::kText, "name of the field", cell<&Trace::metadata, &Metadata::first>},
         {"value", Kind::kText, "its text", cell<&Trace::metadata, &Metadata::second>}}),
    .rows = rows_of<&Trace::metadata>,
};

const DataTable kDevicePropertyData{
    .name = "device_properties",
    .summary = "what the file says of devices",
    .columns = of_rank(
        {{"id", Kind::kInteger, "device id", cell<&Trace::devices, &DeviceProperties::id>},
         {"name", Kind::kText, "name of the device", cell<&Trace::devices, &DeviceProperties::name, kTextIfAny>},
         {"memory_bytes", Kind::kInteger, "its memory",
          cell<&Trace::devices, &DeviceProperties::memory_bytes, kAboveZero>},
         {"compute_major", Kind::kInteger, "compute capability, before the point",
          cell<&Trace::devices, &DeviceProperties::compute_major, kAboveZero>},
         {"compute_minor", Kind::kInteger, "and after it",
          [](const From& f, size_t i, size_t) -> Datum {
            const DeviceProperties& d = f.trace().devices[i];
            return d.compute_major > 0 ? Datum(d.compute_minor) : Datum();
          }},
         {"multiprocessors", Kind::kInteger, "multiprocessors or compute units",
          cell<&Trace::devices, &DeviceProperties::multiprocessors, kAboveZero>}}),
    .rows = rows_of<&Trace::devices>,
};

const DataTable kIssueData{
    .name = "issues",
    .summary = "what is missing or wrong in the tables",
    .columns = of_rank(
        {{"kind", Kind::kText, "kind of issue",
          [](const From& f, size_t i, size_t) -> Datum { return trace_issue_name(issues(f)[i].kind); }},
         {"count", Kind::kInteger, "how often", cell<issue, &TraceIssue::count>},
         {"text", Kind::kText, "one sentence", cell<issue, &TraceIssue::text>}}),
    .rows = [](const From& f) { return issues(f).size(); },
};

const DataTable kStragglerData{
    .name = "stragglers",
    .summary = "ranks that make others wait",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", cell<straggler, &Straggler::rank>},
         {"excess_ns_per_step", Kind::kInteger, "waiting for it, per step",
          cell<straggler, &Straggler::excess_ns_per_step>},
         {"excess_pct", Kind::kReal, "of the mean step", cell<straggler, &Straggler::excess_pct>},
         {"kind", Kind::kText, "why it is late, if that is known", cell<straggler, &Straggler::kind, kTextIfAny>}},
    .rows = [](const From& f) { return f.run.job != nullptr ? f.run.job->stragglers.size() : size_t{0}; },
    .of_run = true,
};

const DataTable kSampleData{
    .name = "samples",
    .summary = "what devices said over time: utilization, power, clocks and so on",
    .columns =
        {{"device", Kind::kInteger, "row of sample_devices",
          [](const From& f, size_t i, size_t) -> Datum { return sample_at(f, i).series->device; }},
         {"metric", Kind::kText, "what was measured; its unit is its ending",
          [](const From& f, size_t i, size_t) -> Datum { return metric_info(sample_at(f, i).series->metric).name; }},
         {"time_ns", Kind::kInteger, "Unix time",
          [](const From& f, size_t i, size_t) -> Datum {
            const SamplePlace s = sample_at(f, i);
            return s.series->time_ns[s.at];
          }},
         {"value", Kind::kReal, "value",
          [](const From& f, size_t i, size_t) -> Datum {
            const SamplePlace s = sample_at(f, i);
            return s.series->value[s.at];
          }}},
    .rows = [](const From& f) { return f.run.sample_ends().empty() ? size_t{0} : f.run.sample_ends().back(); },
    .of_run = true,
    .sorted = "time_ns",
    .key = "device",
    .stretches = series_of_samples,
};

const DataTable kSampleDeviceData{
    .name = "sample_devices",
    .summary = "the devices that were sampled",
    .columns =
        {{"id", Kind::kInteger, "number of the row", row_cell},
         {"device_index", Kind::kInteger, "as the vendor's own tool counts", cell<sample_device, &DeviceInfo::index>},
         {"vendor", Kind::kText, "who made it", cell<sample_device, &DeviceInfo::vendor, kTextIfAny>},
         {"name", Kind::kText, "name of the device", cell<sample_device, &DeviceInfo::name, kTextIfAny>},
         {"uuid", Kind::kText, "its identity", cell<sample_device, &DeviceInfo::uuid, kTextIfAny>},
         {"pci_bus_id", Kind::kText, "its place", cell<sample_device, &DeviceInfo::pci_bus_id, kTextIfAny>},
         {"driver_version", Kind::kText, "version of the driver",
          cell<sample_device, &DeviceInfo::driver_version, kTextIfAny>},
         {"mig_profile", Kind::kText, "of a MIG instance", cell<sample_device, &DeviceInfo::mig_profile, kTextIfAny>},
         {"host", Kind::kText, "name of the machine that it is in", cell<sample_device, &DeviceInfo::host, kTextIfAny>},
         {"memory_bytes", Kind::kInteger, "its memory",
          [](const From& f, size_t i, size_t) -> Datum {
            const Datum bytes = constant(f, i, Metric::kMemoryTotal);
            return bytes.kind() == Kind::kReal ? Datum(static_cast<int64_t>(bytes.real())) : Datum();
          }}},
    .rows = [](const From& f) { return samples(f).devices.size(); },
    .of_run = true,
};

const DataTable kSampleProcessData{
    .name = "sample_processes",
    .summary = "what processes did on the sampled devices",
    .columns = {{"device", Kind::kInteger, "row of sample_devices", cell<process_row, &SampleLog::ProcessRow::device>},
                {"time_ns", Kind::kInteger, "Unix time", cell<process_row, &SampleLog::ProcessRow::time_ns>},
                {"pid", Kind::kInteger, "process id", cell<sample_process, &ProcessSample::pid>},
                {"type", Kind::kText, "C compute, G graphics, M MPS client",
                 [](const From& f, size_t i, size_t) -> Datum {
                   return std::string_view(&samples(f).processes[i].process.type, 1);
                 }},
                {"name", Kind::kText, "its name, where that was said",
                 cell<sample_process, &ProcessSample::name, kTextIfAny>},
                {"memory_bytes", Kind::kInteger, "device memory that it holds",
                 cell<sample_process, &ProcessSample::memory_bytes>},
                {"utilization_pct", Kind::kReal, "time that its kernels ran",
                 cell<sample_process, &ProcessSample::utilization_pct>}},
    .rows = [](const From& f) { return samples(f).processes.size(); },
    .of_run = true,
};

const DataTable kMarkData{
    .name = "marks",
    .summary = "phases that a program named while it was sampled",
    .columns =
        {{"time_ns", Kind::kInteger, "Unix time", cell<mark, &SampleLog::Mark::time_ns>},
         {"name", Kind::kText, "name of the phase that begins", cell<mark, &SampleLog::Mark::name>}},
    .rows = [](const From& f) { return samples(f).marks.size(); },
    .of_run = true,
};

}  // namespace profgpu
