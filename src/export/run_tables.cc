// Tables about the run itself: ranks, clocks, what files say of themselves, and samples of devices.
#include <algorithm>

#include "analyse/quality.h"
#include "export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

Datum text_if_any(const std::string& text) { return text.empty() ? Datum() : Datum(std::string_view(text)); }

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

const std::vector<TraceIssue>& issues(const From& f) { return f.rank->facts().get<Quality>().issues; }

}  // namespace

extern const DataTable kRankData, kWindowData, kMetadataData, kDevicePropertyData, kIssueData, kStragglerData,
    kSampleData, kSampleDeviceData, kSampleProcessData, kMarkData;

const DataTable kRankData{
    .name = "ranks",
    .summary = "the ranks of the job, and their clocks",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"world_size", Kind::kInteger, "ranks that the job says it has",
          [](const From& f, size_t, size_t) -> Datum { return f.trace().distributed.world_size; }},
         {"host", Kind::kText, "name of the machine",
          [](const From& f, size_t, size_t) { return text_if_any(f.trace().host_name); }},
         {"backend", Kind::kText, "of torch.distributed",
          [](const From& f, size_t, size_t) { return text_if_any(f.trace().distributed.backend); }},
         {"base_time_ns", Kind::kInteger, "added to the trace's times gives Unix time",
          [](const From& f, size_t, size_t) -> Datum { return f.trace().base_time_ns; }},
         {"clock_offset_ns", Kind::kInteger, "added to that gives the first rank's clock",
          [](const From& f, size_t, size_t) -> Datum {
            const RankClock* c = clock_of(f);
            return c != nullptr ? Datum(c->offset_ns) : Datum();
          }},
         {"clock_error_ns", Kind::kInteger, "how wrong that may be",
          [](const From& f, size_t, size_t) -> Datum {
            const RankClock* c = clock_of(f);
            return c != nullptr ? Datum(c->error_ns) : Datum();
          }},
         {"clock_method", Kind::kText, "how it was found",
          [](const From& f, size_t, size_t) -> Datum {
            const RankClock* c = clock_of(f);
            return c != nullptr ? Datum(std::string_view(c->method)) : Datum();
          }},
         {"events", Kind::kInteger, "records in the input",
          [](const From& f, size_t, size_t) -> Datum { return f.trace().events; }}},
    .rows = [](const From&) { return size_t{1}; },
};

const DataTable kWindowData{
    .name = "windows",
    .summary = "profiler windows: nothing is measured across the time between two",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"start_ns", Kind::kInteger, "start, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().windows[i].start; }},
         {"duration_ns", Kind::kInteger, "how long",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().windows[i].length(); }}},
    .rows = [](const From& f) { return f.trace().windows.size(); },
    .sorted = "start_ns",
};

const DataTable kMetadataData{
    .name = "metadata",
    .summary = "what the file says of itself",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"key", Kind::kText, "name of the field",
          [](const From& f, size_t i, size_t) -> Datum { return std::string_view(f.trace().metadata[i].first); }},
         {"value", Kind::kText, "its text",
          [](const From& f, size_t i, size_t) -> Datum { return std::string_view(f.trace().metadata[i].second); }}},
    .rows = [](const From& f) { return f.trace().metadata.size(); },
};

const DataTable kDevicePropertyData{
    .name = "device_properties",
    .summary = "what the file says of devices",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"id", Kind::kInteger, "device id",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().devices[i].id; }},
         {"name", Kind::kText, "name of the device",
          [](const From& f, size_t i, size_t) { return text_if_any(f.trace().devices[i].name); }},
         {"memory_bytes", Kind::kInteger, "its memory",
          [](const From& f, size_t i, size_t) -> Datum {
            const int64_t bytes = f.trace().devices[i].memory_bytes;
            return bytes > 0 ? Datum(bytes) : Datum();
          }},
         {"compute_major", Kind::kInteger, "compute capability, before the point",
          [](const From& f, size_t i, size_t) -> Datum {
            const DeviceProperties& d = f.trace().devices[i];
            return d.compute_major > 0 ? Datum(d.compute_major) : Datum();
          }},
         {"compute_minor", Kind::kInteger, "and after it",
          [](const From& f, size_t i, size_t) -> Datum {
            const DeviceProperties& d = f.trace().devices[i];
            return d.compute_major > 0 ? Datum(d.compute_minor) : Datum();
          }},
         {"multiprocessors", Kind::kInteger, "multiprocessors or compute units",
          [](const From& f, size_t i, size_t) -> Datum {
            const int32_t n = f.trace().devices[i].multiprocessors;
            return n > 0 ? Datum(n) : Datum();
          }}},
    .rows = [](const From& f) { return f.trace().devices.size(); },
};

const DataTable kIssueData{
    .name = "issues",
    .summary = "what is missing or wrong in the tables",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"kind", Kind::kText, "kind of issue",
          [](const From& f, size_t i, size_t) -> Datum { return trace_issue_name(issues(f)[i].kind); }},
         {"count", Kind::kInteger, "how often", [](const From& f, size_t i, size_t) -> Datum { return issues(f)[i].count; }},
         {"text", Kind::kText, "one sentence",
          [](const From& f, size_t i, size_t) -> Datum { return std::string_view(issues(f)[i].text); }}},
    .rows = [](const From& f) { return issues(f).size(); },
};

const DataTable kStragglerData{
    .name = "stragglers",
    .summary = "ranks that make others wait",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job",
          [](const From& f, size_t i, size_t) -> Datum { return f.run.job->stragglers[i].rank; }},
         {"excess_ns_per_step", Kind::kInteger, "waiting for it, a step",
          [](const From& f, size_t i, size_t) -> Datum { return f.run.job->stragglers[i].excess_ns_per_step; }},
         {"excess_pct", Kind::kReal, "of the mean step",
          [](const From& f, size_t i, size_t) -> Datum { return f.run.job->stragglers[i].excess_pct; }},
         {"kind", Kind::kText, "why it is late, if that is known",
          [](const From& f, size_t i, size_t) { return text_if_any(f.run.job->stragglers[i].kind); }}},
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
         {"device_index", Kind::kInteger, "as the vendor's own tool counts",
          [](const From& f, size_t i, size_t) -> Datum { return samples(f).devices[i].index; }},
         {"vendor", Kind::kText, "who made it", [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].vendor); }},
         {"name", Kind::kText, "name of the device",
          [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].name); }},
         {"uuid", Kind::kText, "its identity", [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].uuid); }},
         {"pci_bus_id", Kind::kText, "its place",
          [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].pci_bus_id); }},
         {"driver_version", Kind::kText, "version of the driver",
          [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].driver_version); }},
         {"mig_profile", Kind::kText, "of a MIG instance",
          [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].mig_profile); }},
         {"host", Kind::kText, "name of the machine that it is in",
          [](const From& f, size_t i, size_t) { return text_if_any(samples(f).devices[i].host); }},
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
    .columns =
        {{"device", Kind::kInteger, "row of sample_devices",
          [](const From& f, size_t i, size_t) -> Datum { return samples(f).processes[i].device; }},
         {"time_ns", Kind::kInteger, "Unix time",
          [](const From& f, size_t i, size_t) -> Datum { return samples(f).processes[i].time_ns; }},
         {"pid", Kind::kInteger, "process id", [](const From& f, size_t i, size_t) -> Datum { return samples(f).processes[i].process.pid; }},
         {"type", Kind::kText, "C compute, G graphics, M MPS client",
          [](const From& f, size_t i, size_t) -> Datum { return std::string_view(&samples(f).processes[i].process.type, 1); }},
         {"name", Kind::kText, "its name, where that was said",
          [](const From& f, size_t i, size_t) { return text_if_any(samples(f).processes[i].process.name); }},
         {"memory_bytes", Kind::kInteger, "device memory that it holds",
          [](const From& f, size_t i, size_t) -> Datum { return samples(f).processes[i].process.memory_bytes; }},
         {"utilization_pct", Kind::kReal, "time that its kernels ran",
          [](const From& f, size_t i, size_t) -> Datum { return samples(f).processes[i].process.utilization_pct; }}},
    .rows = [](const From& f) { return samples(f).processes.size(); },
    .of_run = true,
};

const DataTable kMarkData{
    .name = "marks",
    .summary = "phases that a program named while it was sampled",
    .columns =
        {{"time_ns", Kind::kInteger, "Unix time",
          [](const From& f, size_t i, size_t) -> Datum { return samples(f).marks[i].time_ns; }},
         {"name", Kind::kText, "name of the phase that begins",
          [](const From& f, size_t i, size_t) -> Datum { return std::string_view(samples(f).marks[i].name); }}},
    .rows = [](const From& f) { return samples(f).marks.size(); },
    .of_run = true,
};

}  // namespace profgpu
