// Chrome's JSON as PyTorch's profiler writes it: read back by us and by what reads the profiler's traces. A rank with
// one profiler window comes back as it was, for what a trace holds, with times that begin at its first event; samples
// of devices, samples and waits of threads are left out. Several ranks are for viewers: what reads the profiler's
// traces takes a file for one rank.
#include <charconv>

#include "app/export/run.h"
#include "app/export/timeline_ids.h"
#include "base/json_quoted.h"
#include "base/json_reader.h"

namespace profgpu {
namespace {

std::string_view category(HostKind kind) {
  switch (kind) {
    case HostKind::kAnnotation: return "user_annotation";
    case HostKind::kOp: return "cpu_op";
    case HostKind::kPython: return "python_function";
    case HostKind::kRuntime: return "cuda_runtime";
    case HostKind::kDriver: return "cuda_driver";
    case HostKind::kLibrary: return "library_call";
    case HostKind::kSystem: return "system_call";
    case HostKind::kOverhead: break;
  }
  return "overhead";
}
std::string_view category(ActivityKind kind) {
  return kind == ActivityKind::kKernel ? "kernel" : kind == ActivityKind::kMemcpy ? "gpu_memcpy" : "gpu_memset";
}

// Text that was a JSON value in the file, as such if it is one, else as a string.
std::string json_of(std::string_view raw) {
  if (!raw.starts_with('"') && is_json(raw)) return std::string(raw);
  std::string string = '"' + std::string(raw) + '"';
  return is_json(string) ? string : json_quoted(raw);
}

/// One event, member by member.
class EventText {
 public:
  EventText(char phase, std::string_view name) {
    text_ = ",\n{\"ph\": \"";
    text_ += phase;
    text_ += "\", \"name\": ";
    append_json_quoted(text_, name);
  }
  EventText& raw(std::string_view key, std::string_view json) {
    text_ += ", \"";
    text_ += key;
    text_ += "\": ";
    text_ += json;
    return *this;
  }
  EventText& text(std::string_view key, std::string_view value) {
    raw(key, {});
    append_json_quoted(text_, value);
    return *this;
  }
  template <class T>
  EventText& number(std::string_view key, T value) {
    char digits[32];
    return raw(key, {digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
  }
  /// Microseconds, to the nanosecond.
  EventText& micros(std::string_view key, int64_t ns) {
    char digits[32];
    char* at = digits;
    uint64_t n = static_cast<uint64_t>(ns);
    if (ns < 0) *at++ = '-', n = 0 - n;
    at = std::to_chars(at, digits + sizeof digits, n / 1000).ptr;
    *at++ = '.';
    for (uint64_t unit = 100; unit > 0; unit /= 10) *at++ = static_cast<char>('0' + n % 1000 / unit % 10);
    return raw(key, {digits, at});
  }
  EventText& triple(std::string_view key, const int32_t (&n)[3]) {
    if (n[0] == 0 && n[1] == 0 && n[2] == 0) return *this;
    return raw(key, '[' + std::to_string(n[0]) + ", " + std::to_string(n[1]) + ", " + std::to_string(n[2]) + ']');
  }
  /// What follows are members of "args".
  EventText& arguments() {
    text_ += ", \"args\": {";
    fresh_ = text_.size();
    return *this;
  }
  void end(ByteWriter& out) {
    if (fresh_ > 0) {
      if (text_.size() > fresh_) text_.erase(fresh_, 2);   // the comma and blank before the first argument
      text_ += '}';
    }
    out.put(text_ += '}');
  }

 private:
  std::string text_;
  size_t fresh_ = 0;
};

class ChromeRank {
 public:
  ChromeRank(const RunRows& run, const RankRows& rank, int64_t base_ns, const CollectiveArrows& arrows, ByteWriter& out)
      : rank_(rank), trace_(rank.trace()), ids_(run, rank), arrows_(arrows), out_(out), clock_(run.clock(rank)),
        base_ns_(base_ns), flow_base_(static_cast<uint64_t>(rank.rank()) << 32) {
    for (const Collective& c : trace_.collectives) {
      if (c.host.valid()) of_host_.emplace(c.host.value, &c);
      if (c.activity.valid()) of_activity_.emplace(c.activity.value, &c);
    }
    // Windows number their launches from one on, each by itself.
    renumbered_ = trace_.windows.size() > 1;
    if (renumbered_)
      for (size_t i = 0; i < trace_.launching.size(); ++i) number_of_.emplace(trace_.launching[i].value, i + 1);
  }

  void write() {
    names();
    for (uint32_t i = 0; i < trace_.host.size() && out_.error() == 0; ++i) host(HostId(i));
    for (uint32_t i = 0; i < trace_.activity.size() && out_.error() == 0; ++i)
      if (rank_.shows(ActivityId(i))) activity(ActivityId(i));
    for (const SyncRow& s : trace_.syncs) sync(s);
    for (const DeviceRange& r : trace_.device_ranges) device_range(r);
    for (const MemoryEvent& m : trace_.memory)
      if (rank_.shows(m.time_ns)) memory(m);
    for (const CounterValue& c : trace_.counters)
      if (rank_.shows(c.time_ns))
        EventText('C', trace_.strings[c.name]).number("pid", c.device).micros("ts", at(c.time_ns)).arguments()
            .number("value", c.value).end(out_);
    uint64_t id = 0;
    for (const BackwardLink& link : trace_.backward_links) {
      ++id;
      if (!shows_all(link.forward) || !shows_all(link.backward)) continue;
      backward_flow('s', id, link.forward);
      backward_flow('f', id, link.backward);
    }
  }

 private:
  void place(EventText& e, size_t thread) {
    const Thread& t = trace_.threads[thread];
    if (!ids_.among_several()) e.raw("pid", json_of(t.process)).raw("tid", json_of(t.id));
    else e.number("pid", ids_.process(thread)).number("tid", ids_.thread(thread));
  }
  // Times of the file: on the job's clock, from the file's base on.
  [[nodiscard]] int64_t at(int64_t time_ns) const { return saturated_sub(clock_(time_ns), base_ns_); }
  EventText& span(EventText& e, Interval shown) {
    return e.micros("ts", at(shown.start)).micros("dur", saturated_sub(at(shown.end), at(shown.start)));
  }
  [[nodiscard]] bool shows_all(HostId h) const {
    return rank_.shown(trace_.host.interval(h)) == trace_.host.interval(h);
  }

  void names() {
    for (size_t t = 0; t < trace_.threads.size(); ++t) {
      if (t == 0 || trace_.threads[t].process != trace_.threads[t - 1].process) {
        named("process_name", t, ids_.process_name(t));
        if (ids_.among_several()) sorted(ids_.process(t));
      }
      if (!trace_.threads[t].name.empty()) named("thread_name", t, trace_.threads[t].name);
    }
    for (const Trace::DeviceRows& d : trace_.device_rows) {
      EventText('M', "process_name").number("pid", ids_.device(d.device)).number("tid", 0).arguments()
          .text("name", ids_.device_name(d.device)).end(out_);
      if (ids_.among_several()) sorted(ids_.device(d.device));
    }
    for (const Queue& q : trace_.queues)
      EventText('M', "thread_name").number("pid", ids_.device(q.device)).number("tid", q.stream).arguments()
          .text("name", ids_.stream_name(static_cast<uint16_t>(&q - trace_.queues.data()))).end(out_);
  }
  // Ranks one below the other, each with its devices first.
  void sorted(int64_t process) {
    EventText('M', "process_sort_index")
        .number("pid", process)
        .number("tid", 0)
        .arguments()
        .number("sort_index", process)
        .end(out_);
  }
  void named(std::string_view what, size_t thread, std::string_view name) {
    EventText e('M', what);
    place(e, thread);
    e.arguments().text("name", name).end(out_);
  }

  [[nodiscard]] uint32_t correlation(HostId call) const {
    if (!renumbered_) return trace_.host.link[call.value];
    const auto it = number_of_.find(call.value);
    return it != number_of_.end() ? static_cast<uint32_t>(it->second) : 0;
  }
  [[nodiscard]] uint32_t correlation(ActivityId a) const {
    const HostId launch = trace_.activity.launch[a.value];
    if (!renumbered_) return trace_.activity.correlation[a.value];
    return launch.valid() ? correlation(launch) : 0;
  }

  void host(HostId h) {
    const HostTable& all = trace_.host;
    const auto shown = rank_.shown(all.interval(h));
    if (!shown) return;
    EventText e('X', trace_.name(h));
    e.text("cat", category(all.kind[h.value]));
    place(e, all.thread[h.value].value);
    span(e, *shown).arguments();
    if (all.is_call(h)) {
      if (const uint32_t id = correlation(h)) e.number("correlation", id);
    } else if (all.link[h.value] != 0) {
      e.number("External id", all.link[h.value]);
    }
    if (all.args[h.value].valid()) operator_arguments(e, trace_.op_args[all.args[h.value].value]);
    if (const StringId text = trace_.arguments(h); text.valid()) e.raw("arguments", trace_.strings[text]);
    if (const auto c = of_host_.find(h.value); c != of_host_.end()) collective(e, *c->second);
    e.end(out_);
  }
  void operator_arguments(EventText& e, const OpArgs& a) {
    if (a.sequence >= 0) e.number("Sequence number", a.sequence);
    if (a.forward_thread != 0) e.number("Fwd thread id", a.forward_thread);
    if (a.flops > 0) e.number("flops", a.flops);
    if (a.shapes.valid()) e.raw("Input Dims", json_of(trace_.strings[a.shapes]));
    if (a.types.valid()) e.raw("Input type", json_of(trace_.strings[a.types]));
    if (a.values.valid()) e.raw("Concrete Inputs", json_of(trace_.strings[a.values]));
    if (a.strides.valid()) e.raw("Input Strides", json_of(trace_.strings[a.strides]));
  }
  void collective(EventText& e, const Collective& c) {
    e.text("Collective name", trace_.strings[c.name]);
    if (c.dtype.valid()) e.text("dtype", trace_.strings[c.dtype]);
    if (c.group.valid()) e.text("Process Group Name", trace_.strings[c.group]);
    if (c.group_description.valid()) e.text("Process Group Description", trace_.strings[c.group_description]);
    if (c.ranks.valid()) e.text("Process Group Ranks", trace_.strings[c.ranks]);
    if (c.in_elements >= 0) e.number("In msg nelems", c.in_elements);
    if (c.out_elements >= 0) e.number("Out msg nelems", c.out_elements);
    if (c.group_size > 0) e.number("Group size", c.group_size);
    if (c.source >= 0) e.number("Src Rank", c.source);
    if (c.destination >= 0) e.number("Dst Rank", c.destination);
    if (c.sequence >= 0) e.number("Seq", c.sequence);
  }

  void activity(ActivityId a) {
    const ActivityTable& all = trace_.activity;
    const Queue& queue = trace_.queues[all.queue[a.value]];
    const int64_t device = ids_.device(queue.device), start = at(all.start_ns[a.value]);
    const uint32_t id = correlation(a);
    EventText e('X', trace_.name(a));
    e.text("cat", category(all.kind[a.value])).number("pid", device).number("tid", queue.stream);
    span(e, all.interval(a)).arguments().number("device", queue.device).number("context", queue.context)
        .number("stream", queue.stream);
    if (id != 0) e.number("correlation", id);
    const HostId op = rank_.ops().of_activity[a.value];
    if (op.valid() && trace_.host.link[op.value] != 0) e.number("External id", trace_.host.link[op.value]);
    if (all.args[a.value].valid()) launch_arguments(e, trace_.activity_args[all.args[a.value].value]);
    if (const auto c = of_activity_.find(a.value); c != of_activity_.end()) collective(e, *c->second);
    const CollectiveEnd* end = arrows_.find(rank_, a);
    if (end != nullptr)
      e.number("wait_ns", end->call->wait_ns).number("transfer_ns", end->call->transfer_ns)
          .number("latest_rank", end->call->latest_rank);
    e.end(out_);
    if (end != nullptr) collective_arrows(*end, device, queue.stream, start);
    const HostId launch = all.launch[a.value];
    if (!launch.valid() || id == 0 || !rank_.shows(launch)) return;
    EventText from('s', "ac2g");
    place(from.text("cat", "ac2g").number("id", flow_base_ + id), trace_.host.thread[launch.value].value);
    from.micros("ts", at(rank_.shown(trace_.host.interval(launch))->start)).end(out_);
    EventText('f', "ac2g").text("cat", "ac2g").text("bp", "e").number("id", flow_base_ + id).number("pid", device)
        .number("tid", queue.stream).micros("ts", start).end(out_);
  }
  void collective_arrows(const CollectiveEnd& end, int64_t device, int64_t stream, int64_t start) {
    for (uint64_t i = 0; i < end.arrows; ++i)
      EventText(end.latest ? 'f' : 's', "collective")
          .text("cat", "collective")
          .text("bp", "e")
          .number("id", end.first + i)
          .number("pid", device)
          .number("tid", stream)
          .micros("ts", start)
          .end(out_);
  }
  void launch_arguments(EventText& e, const ActivityArgs& args) {
    e.triple("grid", args.grid).triple("block", args.block);
    if (args.registers != 0) e.number("registers per thread", args.registers);
    if (args.shared_bytes != 0) e.number("shared memory", args.shared_bytes);
    if (args.bytes >= 0) e.number("bytes", args.bytes);
    if (args.graph != 0) e.number("graph id", args.graph);
    if (args.graph_node != 0) e.number("graph node id", args.graph_node);
  }

  void sync(const SyncRow& s) {
    const auto shown = rank_.shown({s.start_ns, s.start_ns + s.duration_ns});
    if (!shown) return;
    EventText e('X', trace_.strings[s.name]);
    e.text("cat", "cuda_sync").number("pid", ids_.device(s.device)).number("tid", s.stream);
    span(e, *shown).arguments().number("device", s.device).number("stream", s.stream);
    if (s.correlation != 0 && !renumbered_) e.number("correlation", s.correlation);
    e.end(out_);
  }
  // The stream is not known by its number: each has a row of its own.
  void device_range(const DeviceRange& r) {
    const auto shown = rank_.shown({r.start_ns, r.start_ns + r.duration_ns});
    if (!shown || trace_.device_rows.empty()) return;
    EventText e('X', trace_.strings[r.name]);
    e.text("cat", "gpu_user_annotation").number("pid", ids_.device(trace_.device_rows.front().device));
    span(e.text("tid", "ranges " + std::to_string(r.lane)), *shown).arguments();
    if (r.id != 0) e.number("External id", r.id);
    e.end(out_);
  }
  void memory(const MemoryEvent& m) {
    EventText e('i', "[memory]");
    e.text("cat", "cpu_instant_event").text("s", "t");
    if (m.thread.valid()) place(e, m.thread.value);
    e.micros("ts", at(m.time_ns)).arguments().number("Bytes", m.bytes).number("Addr", m.address)
        .number("Device Type", m.device_type).number("Device Id", m.device);
    if (m.total_allocated >= 0) e.number("Total Allocated", m.total_allocated);
    if (m.total_reserved >= 0) e.number("Total Reserved", m.total_reserved);
    e.end(out_);
  }

  // A flow belongs to the innermost operator that is open at its time.
  void backward_flow(char phase, uint64_t id, HostId op) {
    const HostTable& h = trace_.host;
    const size_t next = op.value + size_t{1};
    const bool hidden =
        next < h.size() && h.thread[next] == h.thread[op.value] && h.start_ns[next] == h.start_ns[op.value];
    EventText e(phase, "fwdbwd");
    e.text("cat", "fwdbwd").text("bp", "e").number("id", flow_base_ + id);
    place(e, h.thread[op.value].value);
    e.micros("ts", at(hidden ? h.end_ns(op) : h.start_ns[op.value])).end(out_);
  }

  const RankRows& rank_;
  const Trace& trace_;
  TimelineIds ids_;
  const CollectiveArrows& arrows_;
  ByteWriter& out_;
  RunClock clock_;
  int64_t base_ns_;
  bool renumbered_ = false;
  uint64_t flow_base_;
  std::unordered_map<uint32_t, const Collective*> of_host_, of_activity_;
  std::unordered_map<uint32_t, size_t> number_of_;
};

void write_device_properties(const Trace& trace, ByteWriter& out) {
  out.put(",\n\"deviceProperties\": [");
  for (const DeviceProperties& d : trace.devices) {
    std::string text = &d == trace.devices.data() ? "\n {" : ",\n {";
    text += "\"id\": " + std::to_string(d.id) + ", \"name\": " + json_quoted(d.name);
    if (d.memory_bytes != 0) text += ", \"totalGlobalMem\": " + std::to_string(d.memory_bytes);
    if (d.compute_major != 0 || d.compute_minor != 0)
      text += ", \"computeMajor\": " + std::to_string(d.compute_major) +
              ", \"computeMinor\": " + std::to_string(d.compute_minor);
    if (d.multiprocessors != 0) text += ", \"numSms\": " + std::to_string(d.multiprocessors);
    out.put(text + "}");
  }
  out.put("]");
}

// A rank out of a job says which one it is, whatever told it to us.
void write_distributed(const RankRows& rank, bool of_job, ByteWriter& out) {
  Distributed d = rank.trace().distributed;
  if (of_job) d.rank = rank.rank();
  if (!d.rank && !d.world_size && d.backend.empty()) return;
  std::string text;
  if (d.rank) text += ", \"rank\": " + std::to_string(*d.rank);
  if (d.world_size) text += ", \"world_size\": " + std::to_string(*d.world_size);
  if (!d.backend.empty()) text += ", \"backend\": " + json_quoted(d.backend);
  out.put(",\n\"distributedInfo\": {").put(std::string_view(text).substr(2)).put("}");
}

// Of several ranks: that they are, so that nobody takes the file for one rank's, and what is known of their clocks.
void write_ranks(const RunRows& run, ByteWriter& out) {
  out.put("\n\"schemaVersion\": 1,\n\"profgpu_merged_ranks\": ").put_number(static_cast<int64_t>(run.ranks.size()));
  out.put(",\n\"profgpu_clocks\": [");
  for (const RankRows& rank : run.ranks) {
    const RankClock* clock = run.job_clock(rank);
    if (clock == nullptr) continue;
    out.put(&rank == &run.ranks.front() ? "\n" : ",\n").put(" {\"rank\": ").put_number(rank.rank());
    out.put(", \"method\": ").put(json_quoted(clock->method));
    if (const std::string_view note = clock_note(*clock); !note.empty()) out.put(", \"note\": ").put(json_quoted(note));
    else out.put(", \"offset_ns\": ").put_number(clock->offset_ns);
    if (clock->error_ns) out.put(", \"error_ns\": ").put_number(*clock->error_ns);
    out.put("}");
  }
  out.put("]");
}

// What a rank's trace says of itself.
void write_origin(const RankRows& rank, bool of_job, ByteWriter& out) {
  const Trace& trace = rank.trace();
  std::string text;
  bool version = false, host = trace.host_name.empty();
  for (const auto& [key, value] : trace.metadata) {
    if (key == "traceEvents" || key == kHardwareCountersField) continue;
    version |= key == "schemaVersion";
    host |= key == "host_name" || key == "hostname";
    text += (text.empty() ? "\n" : ",\n") + json_quoted(key) + ": " + json_of(value);
  }
  if (!version) text += std::string(text.empty() ? "\n" : ",\n") + "\"schemaVersion\": 1";
  if (!host) text += ",\n\"host_name\": " + json_quoted(trace.host_name);
  if (trace.hardware_counters) text += ",\n" + json_quoted(kHardwareCountersField) + ": true";
  out.put(text);
  if (!trace.devices.empty()) write_device_properties(trace, out);
  write_distributed(rank, of_job, out);
}

// Where times begin. Viewers hold them as doubles of microseconds: with what a Unix time, or a base of months ago,
// leaves of those, nanoseconds are lost, ranges do not nest any more, and Perfetto drops them. So a base is that of
// this run's first event. Where a trace has none, its times are all that is known.
int64_t base_of(const RunRows& run) {
  return run.ranks.front().outline().base_time_ns > 0 ? std::max<int64_t>(span_of(run).start, 0) : 0;
}

void write_head(const RunRows& run, int64_t base_ns, ByteWriter& out) {
  out.put("{");
  if (run.ranks.size() == 1) write_origin(run.ranks.front(), run.job != nullptr, out);
  else write_ranks(run, out);
  if (base_ns > 0) out.put(",\n\"baseTimeNanoseconds\": ").put_number(base_ns);
}

Status write_chrome(const RunRows& run, const ExportOptions&, ByteWriter& out) {
  if (run.ranks.empty()) return only_samples("chrome");
  // A rank alone says more of itself.
  if (run.ranks.size() == 1)
    if (Status status = run.ranks.front().load(); !status) return status;
  const int64_t base_ns = base_of(run);
  write_head(run, base_ns, out);
  // An event that says nothing, so that a comma stands before every other.
  out.put(",\n\"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"profgpu\", \"pid\": 0, \"tid\": 0, \"args\": {}}");
  const CollectiveArrows arrows(run);
  Status status = run.each_rank([&](const RankRows& rank) { ChromeRank(run, rank, base_ns, arrows, out).write(); });
  if (!status) return status;
  out.put("\n]}\n");
  return ok();
}

}  // namespace

extern const Exporter kChromeExport{
    .name = "chrome",
    .summary = "a timeline as JSON, as PyTorch's profiler writes it",
    .reader = "Perfetto (ui.perfetto.dev), chrome://tracing, HolisticTraceAnalysis, profgpu",
    .extension = ".chrome.json",
    .write = write_chrome,
};

}  // namespace profgpu
