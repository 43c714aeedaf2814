// Perfetto's protobuf: host threads, streams with arrows from their launches, steps, phases, idle time by cause, memory, samples.
#include <algorithm>
#include <map>

#include "analyse/steps.h"
#include "export/exporter.h"
#include "export/perfetto_packets.h"
#include "export/timeline_ids.h"

namespace profgpu {
namespace {

using Track = PerfettoPackets::Track;
using Slice = PerfettoPackets::Slice;

Datum above_zero(int64_t n) { return n > 0 ? Datum(n) : Datum(); }

class PerfettoRank {
 public:
  PerfettoRank(const RunRows& run, const RankRows& rank, PerfettoPackets& packets)
      : rank_(rank), trace_(rank.trace()), ids_(run, rank), packets_(packets), shift_ns_(run.unix_shift_ns(rank)),
        prefix_(run.ranks.size() > 1 ? "rank " + std::to_string(rank.rank()) + ", " : ""),
        // A flow is a launch or a forward op, by its row.
        flow_base_(static_cast<uint64_t>(rank.rank() + 1) << 34) {
    for (const BackwardLink& link : trace_.backward_links) {
      forward_of_.emplace(link.backward.value, link.forward.value);
      forward_of_.emplace(link.forward.value, link.forward.value);
    }
  }

  void write() {
    steps_and_phases();
    for (const Trace::DeviceRows& rows : trace_.device_rows) device(rows);
    threads();
    memory();
    counters();
  }

 private:
  void steps_and_phases() {
    const Steps& steps = rank_.facts().get<Steps>();
    PerfettoLanes step_lanes(packets_, packets_.track(prefix_ + "steps", 0, 0));
    for (const Step& s : steps.steps)
      step_lanes.add(s.start_ns + shift_ns_, s.start_ns + s.duration_ns + shift_ns_,
                     {"step", s.name, {{"device_busy_ns", s.device_busy_ns}, {"warmup", s.warmup ? 1 : 0}}, {}});
    PerfettoLanes phase_lanes(packets_, packets_.track(prefix_ + "phases", 0, 1));
    for (const PhaseSegment& s : rank_.phases().segments)
      phase_lanes.add(s.start_ns + shift_ns_, s.end_ns + shift_ns_, {"phase", phase_name(s.phase), {}, {}});
  }

  void device(const Trace::DeviceRows& rows) {
    const Track group = packets_.track(ids_.device_name(rows.device), 0, 2);
    std::map<uint16_t, PerfettoLanes> streams;
    for (uint32_t i = rows.begin.value; i < rows.end.value && !packets_.failed(); ++i) {
      const uint16_t queue = trace_.activity.queue[i];
      auto at = streams.find(queue);
      if (at == streams.end()) {
        const Queue& q = trace_.queues[queue];
        const Track track = packets_.track("stream " + std::to_string(q.stream), group, 1 + queue);
        at = streams.emplace(queue, PerfettoLanes(packets_, track)).first;
      }
      activity(ActivityId(i), at->second);
    }
    streams.clear();
    idle(rows.device, group);
    waits(rows.device, group);
  }

  void activity(ActivityId a, PerfettoLanes& lanes) {
    static const ActivityArgs kNone;
    const ActivityTable& all = trace_.activity;
    const ActivityArgs& args = all.args[a.value].valid() ? trace_.activity_args[all.args[a.value].value] : kNone;
    Slice slice{activity_kind_name(all.kind[a.value]), trace_.name(a), {}, {}};
    slice.arguments = {{"correlation", above_zero(all.correlation[a.value])}, {"category", kernel_category(a)},
                       {"phase", phase_name(rank_.phases().of_activity[a.value])},
                       {"bytes", args.bytes >= 0 ? Datum(args.bytes) : Datum()}};
    if (args.block[0] > 0)
      for (const auto& [name, value] : {std::pair{"grid_x", args.grid[0]}, {"grid_y", args.grid[1]}, {"grid_z", args.grid[2]},
                                        {"block_x", args.block[0]}, {"block_y", args.block[1]}, {"block_z", args.block[2]},
                                        {"registers", args.registers}, {"shared_bytes", args.shared_bytes}})
        slice.arguments.push_back({name, value});
    if (args.graph != 0) slice.arguments.push_back({"graph", args.graph});
    if (all.launch[a.value].valid()) slice.flows.push_back(flow_base_ + all.launch[a.value].value);
    lanes.add(all.start_ns[a.value] + shift_ns_, all.end_ns(a) + shift_ns_, slice);
  }
  [[nodiscard]] std::string_view kernel_category(ActivityId a) const {
    return kernel_category_name(rank_.kernels().category[trace_.activity.name[a.value].value]);
  }

  void idle(int32_t device, Track group) {
    for (const DeviceIdle& d : rank_.idle().devices) {
      if (d.device != device || d.gaps.empty()) continue;
      PerfettoLanes lanes(packets_, packets_.track("idle, by cause", group, 0));
      for (const Gap& g : d.gaps) {
        const Datum host = g.host.valid() ? Datum(trace_.name(g.host)) : Datum();
        lanes.add(g.start_ns + shift_ns_, g.end_ns + shift_ns_, {"idle", idle_cause_name(g.cause), {{"host", host}}, {}});
      }
    }
  }

  void waits(int32_t device, Track group) {
    std::optional<PerfettoLanes> lanes;
    for (const SyncRow& s : trace_.syncs) {
      if (s.device != device) continue;
      if (!lanes) lanes.emplace(packets_, packets_.track("waits", group, 1 << 20));
      lanes->add(s.start_ns + shift_ns_, s.start_ns + s.duration_ns + shift_ns_,
                 {"wait", trace_.strings[s.name], {{"stream", s.stream}, {"correlation", above_zero(s.correlation)}}, {}});
    }
  }

  void threads() {
    std::map<int64_t, Track> processes;
    for (size_t t = 0; t < trace_.threads.size(); ++t) {
      const Thread& thread = trace_.threads[t];
      if (thread.begin == thread.end) continue;
      const int64_t pid = ids_.process(t);
      auto process = processes.find(pid);
      if (process == processes.end()) process = processes.emplace(pid, packets_.process(pid, ids_.process_name(t))).first;
      const std::string name = thread.name.empty() ? "thread " + thread.id : thread.name;
      PerfettoLanes lanes(packets_, packets_.thread(process->second, pid, ids_.thread(t), name));
      for (uint32_t h = thread.begin.value; h < thread.end.value && !packets_.failed(); ++h) host(HostId(h), lanes);
    }
  }

  void host(HostId h, PerfettoLanes& lanes) {
    const HostTable& all = trace_.host;
    Slice slice{host_kind_name(all.kind[h.value]), trace_.name(h), {}, {}};
    slice.arguments.push_back({all.is_call(h) ? "correlation" : "external_id", above_zero(all.link[h.value])});
    if (all.args[h.value].valid()) {
      const OpArgs& args = trace_.op_args[all.args[h.value].value];
      slice.arguments.push_back({"shapes", args.shapes.valid() ? Datum(trace_.strings[args.shapes]) : Datum()});
      slice.arguments.push_back({"types", args.types.valid() ? Datum(trace_.strings[args.types]) : Datum()});
      slice.arguments.push_back({"sequence", args.sequence >= 0 ? Datum(args.sequence) : Datum()});
      slice.arguments.push_back({"flops", above_zero(static_cast<int64_t>(args.flops))});
    }
    if (std::binary_search(trace_.launching.begin(), trace_.launching.end(), h)) slice.flows.push_back(flow_base_ + h.value);
    if (const auto link = forward_of_.find(h.value); link != forward_of_.end())
      slice.flows.push_back(flow_base_ + (uint64_t{1} << 33) + link->second);
    lanes.add(all.start_ns[h.value] + shift_ns_, all.end_ns(h) + shift_ns_, slice);
  }

  void memory() {
    std::map<std::pair<int32_t, int32_t>, std::pair<Track, Track>> tracks;
    for (const MemoryEvent& m : trace_.memory) {
      if (m.total_allocated < 0 && m.total_reserved < 0) continue;
      const auto [at, fresh] = tracks.try_emplace({m.device_type, m.device});
      if (fresh) {
        const std::string of = prefix_ + (m.device_type == 0 ? "CPU" : "GPU " + std::to_string(m.device));
        at->second = {packets_.counter(of + " memory allocated", "bytes"), packets_.counter(of + " memory reserved", "bytes")};
      }
      const int64_t time = m.time_ns + shift_ns_;
      if (m.total_allocated >= 0) packets_.value(at->second.first, time, static_cast<double>(m.total_allocated));
      if (m.total_reserved >= 0) packets_.value(at->second.second, time, static_cast<double>(m.total_reserved));
    }
  }

  void counters() {
    std::map<std::pair<uint32_t, int32_t>, Track> tracks;
    for (const CounterValue& c : trace_.counters) {
      const auto [at, fresh] = tracks.try_emplace({c.name.value, c.device}, 0);
      if (fresh) at->second = packets_.counter(prefix_ + std::string(trace_.strings[c.name]), "");
      packets_.value(at->second, c.time_ns + shift_ns_, c.value);
    }
  }

  const RankRows& rank_;
  const Trace& trace_;
  TimelineIds ids_;
  PerfettoPackets& packets_;
  int64_t shift_ns_;
  std::string prefix_;
  uint64_t flow_base_;
  std::unordered_map<uint32_t, uint32_t> forward_of_;
};

// The first and last time of anything that is shown, in Unix time.
Interval span_of(const RunRows& run) {
  Interval all{INT64_MAX, INT64_MIN};
  const auto add = [&](int64_t time) { all = {std::min(all.start, time), std::max(all.end, time)}; };
  for (const RankRows& rank : run.ranks) {
    const int64_t shift = run.unix_shift_ns(rank);
    const Trace& t = rank.trace();
    for (const Interval& w : t.windows) add(w.start + shift), add(w.end + shift);
    if (!t.memory.empty()) add(t.memory.front().time_ns + shift);
    if (!t.counters.empty()) add(t.counters.front().time_ns + shift);
    if (!t.syncs.empty()) add(t.syncs.front().start_ns + shift);
  }
  if (run.ranks.empty()) add(run.samples->first_ns), add(run.samples->last_ns);
  return all.start <= all.end ? all : Interval{};
}

// Beside traces, those of their time.
void write_samples(const RunRows& run, Interval span, PerfettoPackets& packets) {
  std::map<uint32_t, Track> groups;
  for (const SampleSeries& s : run.samples->series) {
    const auto first = std::lower_bound(s.time_ns.begin(), s.time_ns.end(), span.start) - s.time_ns.begin();
    const auto end = std::upper_bound(s.time_ns.begin(), s.time_ns.end(), span.end) - s.time_ns.begin();
    if (first >= end) continue;
    const auto [at, fresh] = groups.try_emplace(s.device, 0);
    const DeviceInfo& device = run.samples->devices[s.device];
    if (fresh) at->second = packets.track("samples of GPU " + device.label() + " " + device.name, 0, 3);
    const MetricInfo& metric = metric_info(s.metric);
    const Track counter = packets.counter(metric.name, metric.unit, at->second);
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end) && !packets.failed(); ++i)
      packets.value(counter, s.time_ns[i], s.value[i]);
  }
}

Status write(const RunRows& run, const ExportOptions&, ByteWriter& out) {
  const Interval span = span_of(run);
  PerfettoPackets packets(span.start, out);
  for (const RankRows& rank : run.ranks) PerfettoRank(run, rank, packets).write();
  if (run.samples != nullptr) write_samples(run, span, packets);
  return ok();
}

}  // namespace

extern const Exporter kPerfettoExport;
const Exporter kPerfettoExport{
    .name = "perfetto",
    .summary = "a timeline as Perfetto's protobuf, with steps, phases, idle causes and device samples",
    .reader = "Perfetto (ui.perfetto.dev)",
    .extension = ".pftrace",
    .write = write,
};

}  // namespace profgpu
