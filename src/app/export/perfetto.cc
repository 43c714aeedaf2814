// Perfetto's protobuf: host threads and when they were blocked, streams with arrows from their launches, steps, phases,
// idle time by cause, memory, samples.
#include <algorithm>
#include <map>

#include "analyse/rank/collectives.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/threads.h"
#include "app/export/perfetto_packets.h"
#include "app/export/run.h"
#include "app/export/timeline_ids.h"

namespace profgpu {
namespace {

using Track = PerfettoPackets::Track;
using Slice = PerfettoPackets::Slice;

class PerfettoRank {
 public:
  PerfettoRank(const RunRows& run, const RankRows& rank, const CollectiveArrows& arrows, PerfettoPackets& packets)
      : rank_(rank), trace_(rank.trace()), ids_(run, rank), arrows_(arrows), packets_(packets), at_(run.clock(rank)),
        clock_(run.job_clock(rank)),
        // A flow is a launch or a forward op, by its row; those below are arrows between ranks.
        flow_base_((static_cast<uint64_t>(rank.rank()) + 1) << 34) {
    for (const BackwardLink& link : trace_.backward_links) {
      forward_of_.emplace(link.backward.value, link.forward.value);
      forward_of_.emplace(link.forward.value, link.forward.value);
    }
    for (const CollectiveCall& c : rank.facts().get<CollectiveCalls>().calls)
      if (c.activity.valid()) collective_of_.emplace(c.activity.value, &c);
  }

  void write() {
    if (ids_.among_several()) group_ = rank_group();
    steps_and_phases();
    for (const Trace::DeviceRows& rows : trace_.device_rows) device(rows);
    threads();
    memory();
    counters();
  }

 private:
  // Of several ranks each has all that is its own below its first process, which viewers show as one group.
  Track rank_group() {
    for (size_t t = 0; t < trace_.threads.size(); ++t)
      if (trace_.threads[t].begin != trace_.threads[t].end) return process(t);
    return packets_.track(ids_.rank_name());
  }
  Track process(size_t thread) {
    const int64_t pid = ids_.process(thread);
    auto known = processes_.find(pid);
    if (known == processes_.end())
      known = processes_.emplace(pid, packets_.process(pid, ids_.process_name(thread))).first;
    return known->second;
  }

  void add(PerfettoLanes& lanes, Interval range, const Slice& slice) {
    if (const auto shown = rank_.shown(range)) lanes.add(at_(shown->start), at_(shown->end), slice);
  }

  void steps_and_phases() {
    const Steps& steps = rank_.facts().get<Steps>();
    PerfettoLanes step_lanes(packets_, packets_.track(ids_.name_of("steps"), group_, 0));
    for (const Step& s : steps.steps) {
      Slice slice{"step", s.name, {{"device_busy_ns", s.device_busy_ns}, {"warmup", s.warmup ? 1 : 0}}, {}};
      if (clock_ != nullptr) add_clock(slice);
      add(step_lanes, s.interval(), slice);
    }
    PerfettoLanes phase_lanes(packets_, packets_.track(ids_.name_of("phases"), group_, 1));
    for (const PhaseSegment& s : rank_.phases().segments)
      add(phase_lanes, {s.start_ns, s.end_ns}, {"phase", rank_.phases().name(s.phase), {}, {}});
  }
  void add_clock(Slice& slice) const {
    const std::string_view note = clock_note(*clock_);
    slice.arguments.push_back({"clock", note.empty() ? std::string_view(clock_->method) : note});
    slice.arguments.push_back({"clock_error_ns", clock_->error_ns});
  }

  void device(const Trace::DeviceRows& rows) {
    const Track group = packets_.track(ids_.device_name(rows.device), group_, 2);
    std::map<uint16_t, PerfettoLanes> streams;
    for (uint32_t i = rows.begin.value; i < rows.end.value && !packets_.failed(); ++i) {
      if (!rank_.shows(ActivityId(i))) continue;
      const uint16_t queue = trace_.activity.queue[i];
      auto at = streams.find(queue);
      if (at == streams.end())
        at = streams.emplace(queue, PerfettoLanes(packets_, packets_.track(ids_.stream_name(queue), group, 1 + queue)))
                 .first;
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
    slice.arguments = {{"correlation", kAboveZero(all.correlation[a.value])}, {"category", kernel_category(a)},
                       {"phase", rank_.phases().name(rank_.phases().of_activity[a.value])},
                       {"bytes", args.bytes >= 0 ? Datum(args.bytes) : Datum()}};
    if (args.block[0] > 0)
      for (const auto& [name, value] : {std::pair{"grid_x", args.grid[0]},
                                        {"grid_y", args.grid[1]},
                                        {"grid_z", args.grid[2]},
                                        {"block_x", args.block[0]},
                                        {"block_y", args.block[1]},
                                        {"block_z", args.block[2]},
                                        {"registers", args.registers},
                                        {"shared_bytes", args.shared_bytes}})
        slice.arguments.push_back({name, value});
    if (args.graph != 0) slice.arguments.push_back({"graph", args.graph});
    if (const HostId launch = all.launch[a.value]; launch.valid() && rank_.shows(launch))
      slice.flows.push_back(flow_base_ + launch.value);
    if (const auto c = collective_of_.find(a.value); c != collective_of_.end()) collective(a, *c->second, slice);
    lanes.add(at_(all.start_ns[a.value]), at_(all.end_ns(a)), slice);
  }
  [[nodiscard]] std::string_view kernel_category(ActivityId a) const {
    return kernel_category_name(rank_.kernels().category[trace_.activity.name[a.value].value]);
  }

  void collective(ActivityId a, const CollectiveCall& c, Slice& slice) {
    const CollectiveCalls& calls = rank_.facts().get<CollectiveCalls>();
    const CollectiveKind& kind = calls.kinds[c.kind];
    if (kind.described)
      slice.arguments.insert(slice.arguments.end(),
                             {{"collective", std::string_view(kind.name)},
                              {"process_group", std::string_view(kind.group)},
                              {"group_size", kAboveZero(kind.group_size)},
                              {"dtype", std::string_view(calls.rows[c.row].dtype)},
                              {"message_bytes", c.message_bytes >= 0 ? Datum(c.message_bytes) : Datum()}});
    const CollectiveEnd* end = arrows_.find(rank_, a);
    if (end == nullptr) return;
    slice.arguments.insert(slice.arguments.end(), {{"wait_ns", end->call->wait_ns},
                                                   {"transfer_ns", end->call->transfer_ns},
                                                   {"latest_rank", end->call->latest_rank}});
    for (uint64_t i = 0; i < end->arrows; ++i) slice.flows.push_back(end->first + i);
  }

  void idle(int32_t device, Track group) {
    for (const DeviceIdle& d : rank_.idle().devices) {
      if (d.device != device || d.gaps.empty()) continue;
      PerfettoLanes lanes(packets_, packets_.track("idle, by cause", group, 0));
      for (const Gap& g : d.gaps) {
        const Datum host = g.host.valid() ? Datum(trace_.name(g.host)) : Datum();
        add(lanes, {g.start_ns, g.end_ns}, {"idle", idle_cause_name(g.cause), {{"host", host}}, {}});
      }
    }
  }

  void waits(int32_t device, Track group) {
    std::optional<PerfettoLanes> lanes;
    for (const SyncRow& s : trace_.syncs) {
      if (s.device != device) continue;
      if (!lanes) lanes.emplace(packets_, packets_.track("waits", group, 1 << 20));
      add(*lanes, {s.start_ns, s.start_ns + s.duration_ns},
          {"wait", trace_.strings[s.name], {{"stream", s.stream}, {"correlation", kAboveZero(s.correlation)}}, {}});
    }
  }

  void threads() {
    const std::vector<ThreadWait>& waits = trace_.thread_waits;
    for (size_t t = 0, w = 0; t < trace_.threads.size(); ++t) {
      const Thread& thread = trace_.threads[t];
      const size_t first = w;
      while (w < waits.size() && waits[w].thread == ThreadId(t)) ++w;
      if (thread.begin == thread.end && w == first) continue;
      const std::string name = thread.name.empty() ? "thread " + thread.id : thread.name;
      const Track track = packets_.thread(process(t), ids_.process(t), ids_.thread(t), name);
      PerfettoLanes lanes(packets_, track);
      for (uint32_t h = thread.begin.value; h < thread.end.value && !packets_.failed(); ++h)
        if (rank_.shows(HostId(h))) host(HostId(h), lanes);
      if (w > first) blocked(first, w, packets_.track("blocked", track));
    }
  }

  // Long waits of one thread, by the system call.
  void blocked(size_t first, size_t end, Track track) {
    PerfettoLanes lanes(packets_, track);
    const std::vector<int32_t>& calls = rank_.facts().get<ThreadTimes>().wait_calls;
    for (size_t i = first; i < end && !packets_.failed(); ++i) {
      const ThreadWait& w = trace_.thread_waits[i];
      const std::string name = calls[i] < 0 ? "blocked" : system_call_name(calls[i]);
      add(lanes, {w.start_ns, w.start_ns + w.duration_ns}, {"blocked", name, {}, {}});
    }
  }

  void host(HostId h, PerfettoLanes& lanes) {
    const HostTable& all = trace_.host;
    Slice slice{host_kind_name(all.kind[h.value]), trace_.name(h), {}, {}};
    slice.arguments.push_back({all.is_call(h) ? "correlation" : "external_id", kAboveZero(all.link[h.value])});
    if (all.args[h.value].valid()) {
      const OpArgs& args = trace_.op_args[all.args[h.value].value];
      slice.arguments.push_back({"shapes", args.shapes.valid() ? Datum(trace_.strings[args.shapes]) : Datum()});
      slice.arguments.push_back({"types", args.types.valid() ? Datum(trace_.strings[args.types]) : Datum()});
      slice.arguments.push_back({"sequence", args.sequence >= 0 ? Datum(args.sequence) : Datum()});
      slice.arguments.push_back({"flops", kAboveZero(static_cast<int64_t>(args.flops))});
    }
    if (const StringId text = trace_.arguments(h); text.valid())
      slice.arguments.push_back({"arguments", trace_.strings[text]});
    if (std::binary_search(trace_.launching.begin(), trace_.launching.end(), h))
      slice.flows.push_back(flow_base_ + h.value);
    if (const auto link = forward_of_.find(h.value); link != forward_of_.end())
      slice.flows.push_back(flow_base_ + (uint64_t{1} << 33) + link->second);
    add(lanes, all.interval(h), slice);
  }

  void memory() {
    std::map<std::pair<int32_t, int32_t>, std::pair<Track, Track>> tracks;
    for (const MemoryEvent& m : trace_.memory) {
      if ((m.total_allocated < 0 && m.total_reserved < 0) || !rank_.shows(m.time_ns)) continue;
      const auto [at, fresh] = tracks.try_emplace({m.device_type, m.device});
      if (fresh) {
        const std::string of = ids_.name_of(m.device_type == 0 ? "CPU" : "GPU " + std::to_string(m.device));
        at->second = {packets_.counter(of + " memory allocated", "bytes", group_),
                      packets_.counter(of + " memory reserved", "bytes", group_)};
      }
      if (m.total_allocated >= 0)
        packets_.value(at->second.first, at_(m.time_ns), static_cast<double>(m.total_allocated));
      if (m.total_reserved >= 0)
        packets_.value(at->second.second, at_(m.time_ns), static_cast<double>(m.total_reserved));
    }
  }

  void counters() {
    std::map<std::pair<uint32_t, int32_t>, Track> tracks;
    for (const CounterValue& c : trace_.counters) {
      if (!rank_.shows(c.time_ns)) continue;
      const auto [at, fresh] = tracks.try_emplace({c.name.value, c.device}, 0);
      if (fresh) at->second = packets_.counter(ids_.name_of(trace_.strings[c.name]), "", group_);
      packets_.value(at->second, at_(c.time_ns), c.value);
    }
  }

  const RankRows& rank_;
  const Trace& trace_;
  TimelineIds ids_;
  const CollectiveArrows& arrows_;
  PerfettoPackets& packets_;
  RunClock at_;
  const RankClock* clock_;   // null: a job of one rank
  Track group_ = 0;
  std::map<int64_t, Track> processes_;
  uint64_t flow_base_;
  std::unordered_map<uint32_t, uint32_t> forward_of_;
  std::unordered_map<uint32_t, const CollectiveCall*> collective_of_;
};

// Beside traces, those of their time.
void write_samples(const RunRows& run, Interval span, PerfettoPackets& packets) {
  std::map<uint32_t, Track> groups;
  for (const SampleSeries& s : run.samples->series) {
    const auto first = std::lower_bound(s.time_ns.begin(), s.time_ns.end(), span.start) - s.time_ns.begin();
    const auto end = std::upper_bound(s.time_ns.begin(), s.time_ns.end(), span.end) - s.time_ns.begin();
    if (first >= end) continue;
    const auto [at, fresh] = groups.try_emplace(s.device, 0);
    const DeviceInfo& device = run.samples->devices[s.device];
    if (fresh) at->second = packets.track("samples of GPU " + run.samples->label(s.device) + " " + device.name, 0, 3);
    const MetricInfo& metric = metric_info(s.metric);
    const Track counter = packets.counter(metric.name, metric.unit, at->second);
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end) && !packets.failed(); ++i)
      packets.value(counter, s.time_ns[i], s.value[i]);
  }
}

Status write_perfetto(const RunRows& run, const ExportOptions&, ByteWriter& out) {
  if (run.ranks.empty() && run.samples == nullptr)
    return Error{"there are neither traces nor samples here", "profgpu analyze shows what there is"};
  const Interval span = span_of(run);
  PerfettoPackets packets(span.start, out);
  const CollectiveArrows arrows(run);
  Status status = run.each_rank([&](const RankRows& rank) { PerfettoRank(run, rank, arrows, packets).write(); });
  if (!status) return status;
  if (run.samples != nullptr) write_samples(run, span, packets);
  return ok();
}

}  // namespace

extern const Exporter kPerfettoExport{
    .name = "perfetto",
    .summary = "a timeline as Perfetto's protobuf, with steps, phases, idle causes and device samples",
    .reader = "Perfetto (ui.perfetto.dev)",
    .extension = ".pftrace",
    .write = write_perfetto,
};

}  // namespace profgpu
