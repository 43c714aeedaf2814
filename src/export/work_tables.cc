// What ran on devices, and what was said of their memory.
#include "analyse/collectives.h"
#include "export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

template <class T>
Datum from_zero(T n) {
  return n >= 0 ? Datum(n) : Datum();
}
template <class T>
Datum above_zero(T n) {
  return n > 0 ? Datum(n) : Datum();
}

const Queue& queue(const From& f, size_t row) { return f.trace().queues[f.trace().activity.queue[row]]; }

const ActivityArgs& args(const From& f, size_t row) {
  static const ActivityArgs kNoArgs;
  const ActivityArgsId id = f.trace().activity.args[row];
  return id.valid() ? f.trace().activity_args[id.value] : kNoArgs;
}
// A launch's shape is known if it has one.
Datum dimension(const int32_t (&of)[3], int axis) { return of[0] > 0 ? Datum(of[axis]) : Datum(); }

std::vector<Stretch> devices_of_activity(const From& f) {
  std::vector<Stretch> all;
  for (const Trace::DeviceRows& d : f.trace().device_rows) all.push_back({d.begin.value, d.end.value, d.device});
  return all;
}

const Collective& collective(const From& f, size_t row) { return f.trace().collectives[row]; }

std::optional<Interval> time_of(const Trace& trace, const Collective& c) {
  if (c.activity.valid()) return trace.activity.interval(c.activity);
  if (c.host.valid()) return trace.host.interval(c.host);
  return std::nullopt;
}

}  // namespace

extern const DataTable kActivityData, kStreamData, kSyncData, kCollectiveCallData, kMemoryEventData, kCounterData;

const DataTable kActivityData{
    .name = "activity",
    .summary = "everything that a device ran: kernels, copies, sets",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"id", Kind::kInteger, "number of the row within its rank", row_cell},
         {"device", Kind::kInteger, "device id as recorded",
          [](const From& f, size_t i, size_t) -> Datum { return queue(f, i).device; }},
         {"stream", Kind::kInteger, "stream", [](const From& f, size_t i, size_t) -> Datum { return queue(f, i).stream; }},
         {"context", Kind::kInteger, "context", [](const From& f, size_t i, size_t) -> Datum { return queue(f, i).context; }},
         {"start_ns", Kind::kInteger, "start, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().activity.start_ns[i]; }},
         {"duration_ns", Kind::kInteger, "how long it ran",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().activity.duration_ns[i]; }},
         {"end_ns", Kind::kInteger, "end, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().activity.end_ns(ActivityId(i)); }},
         {"kind", Kind::kText, "kernel, memcpy or memset",
          [](const From& f, size_t i, size_t) -> Datum { return activity_kind_name(f.trace().activity.kind[i]); }},
         {"work", Kind::kText, "compute, communication or memory",
          [](const From& f, size_t i, size_t) -> Datum { return work_kind_name(f.rank->devices().kind[i]); }},
         {"category", Kind::kText, "gemm, attention, elementwise and so on, by the name",
          [](const From& f, size_t i, size_t) -> Datum {
            return kernel_category_name(f.rank->kernels().category[f.trace().activity.name[i].value]);
          }},
         {"name", Kind::kText, "name as recorded",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().name(ActivityId(i)); }},
         {"short_name", Kind::kText, "name without return type, template arguments and parameters",
          [](const From& f, size_t i, size_t) -> Datum { return f.rank->short_name(f.trace().activity.name[i]); }},
         {"phase", Kind::kText, "phase of training that launched it",
          [](const From& f, size_t i, size_t) -> Datum { return phase_name(f.rank->phases().of_activity[i]); }},
         {"launch_id", Kind::kInteger, "row of host: the call that launched it",
          [](const From& f, size_t i, size_t) { return id_or_null(f.trace().activity.launch[i]); }},
         {"op_id", Kind::kInteger, "row of host: the innermost operator or annotation around that call",
          [](const From& f, size_t i, size_t) { return id_or_null(f.rank->ops().of_activity[i]); }},
         {"correlation", Kind::kInteger, "id that it shares with its launch",
          [](const From& f, size_t i, size_t) { return above_zero(f.trace().activity.correlation[i]); }},
         {"bytes", Kind::kInteger, "of copies and sets",
          [](const From& f, size_t i, size_t) { return from_zero(args(f, i).bytes); }},
         {"grid_x", Kind::kInteger, "blocks", [](const From& f, size_t i, size_t) { return dimension(args(f, i).grid, 0); }},
         {"grid_y", Kind::kInteger, "blocks", [](const From& f, size_t i, size_t) { return dimension(args(f, i).grid, 1); }},
         {"grid_z", Kind::kInteger, "blocks", [](const From& f, size_t i, size_t) { return dimension(args(f, i).grid, 2); }},
         {"block_x", Kind::kInteger, "threads of a block",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).block, 0); }},
         {"block_y", Kind::kInteger, "threads of a block",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).block, 1); }},
         {"block_z", Kind::kInteger, "threads of a block",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).block, 2); }},
         {"registers", Kind::kInteger, "registers of a thread",
          [](const From& f, size_t i, size_t) { return above_zero(args(f, i).registers); }},
         {"shared_bytes", Kind::kInteger, "shared memory of a block",
          [](const From& f, size_t i, size_t) { return args(f, i).block[0] > 0 ? Datum(args(f, i).shared_bytes) : Datum(); }},
         {"graph", Kind::kInteger, "graph that it belongs to",
          [](const From& f, size_t i, size_t) { return above_zero(args(f, i).graph); }},
         {"graph_node", Kind::kInteger, "its node there",
          [](const From& f, size_t i, size_t) { return above_zero(args(f, i).graph_node); }}},
    .rows = [](const From& f) { return f.trace().activity.size(); },
    .sorted = "start_ns",
    .key = "device",
    .stretches = devices_of_activity,
};

const DataTable kStreamData{
    .name = "streams",
    .summary = "streams of devices",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"device", Kind::kInteger, "device id as recorded",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().queues[i].device; }},
         {"stream", Kind::kInteger, "stream", [](const From& f, size_t i, size_t) -> Datum { return f.trace().queues[i].stream; }},
         {"context", Kind::kInteger, "context",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().queues[i].context; }}},
    .rows = [](const From& f) { return f.trace().queues.size(); },
};

const DataTable kSyncData{
    .name = "syncs",
    .summary = "waits that the device's side recorded",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"start_ns", Kind::kInteger, "start, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().syncs[i].start_ns; }},
         {"duration_ns", Kind::kInteger, "how long it took",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().syncs[i].duration_ns; }},
         {"name", Kind::kText, "what was waited for",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().strings[f.trace().syncs[i].name]; }},
         {"device", Kind::kInteger, "device id as recorded",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().syncs[i].device; }},
         {"stream", Kind::kInteger, "stream",
          [](const From& f, size_t i, size_t) -> Datum { return from_zero(f.trace().syncs[i].stream); }},
         {"correlation", Kind::kInteger, "id that it shares with its call",
          [](const From& f, size_t i, size_t) { return above_zero(f.trace().syncs[i].correlation); }}},
    .rows = [](const From& f) { return f.trace().syncs.size(); },
    .sorted = "start_ns",
};

const DataTable kCollectiveCallData{
    .name = "collective_calls",
    .summary = "every call of a collective",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"start_ns", Kind::kInteger, "start of its kernel (of the call on the host, without a kernel)",
          [](const From& f, size_t i, size_t) -> Datum {
            const auto time = time_of(f.trace(), collective(f, i));
            return time ? Datum(time->start) : Datum();
          }},
         {"duration_ns", Kind::kInteger, "how long that took",
          [](const From& f, size_t i, size_t) -> Datum {
            const auto time = time_of(f.trace(), collective(f, i));
            return time ? Datum(time->length()) : Datum();
          }},
         {"name", Kind::kText, "name as recorded",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().strings[collective(f, i).name]; }},
         {"dtype", Kind::kText, "type of the elements",
          [](const From& f, size_t i, size_t) { return text_or_null(f, collective(f, i).dtype); }},
         {"group_size", Kind::kInteger, "ranks of the group",
          [](const From& f, size_t i, size_t) { return above_zero(collective(f, i).group_size); }},
         {"process_group", Kind::kText, "name of the group",
          [](const From& f, size_t i, size_t) { return text_or_null(f, collective(f, i).group); }},
         {"group_description", Kind::kText, "what the program calls the group",
          [](const From& f, size_t i, size_t) { return text_or_null(f, collective(f, i).group_description); }},
         {"group_ranks", Kind::kText, "its ranks, as recorded",
          [](const From& f, size_t i, size_t) { return text_or_null(f, collective(f, i).ranks); }},
         {"in_elements", Kind::kInteger, "elements that this rank puts in",
          [](const From& f, size_t i, size_t) { return from_zero(collective(f, i).in_elements); }},
         {"out_elements", Kind::kInteger, "elements that this rank gets out",
          [](const From& f, size_t i, size_t) { return from_zero(collective(f, i).out_elements); }},
         {"message_bytes", Kind::kInteger, "size of the message, as nccl-tests defines it",
          [](const From& f, size_t i, size_t) -> Datum {
            const Collective& c = collective(f, i);
            return message_bytes(c, collective_name(f.trace().strings[c.name]), f.trace().strings[c.dtype]);
          }},
         {"sequence", Kind::kInteger, "number of the call within its group",
          [](const From& f, size_t i, size_t) { return from_zero(collective(f, i).sequence); }},
         {"host_id", Kind::kInteger, "row of host: the call",
          [](const From& f, size_t i, size_t) { return id_or_null(collective(f, i).host); }},
         {"activity_id", Kind::kInteger, "row of activity: the kernel",
          [](const From& f, size_t i, size_t) { return id_or_null(collective(f, i).activity); }}},
    .rows = [](const From& f) { return f.trace().collectives.size(); },
};

const DataTable kMemoryEventData{
    .name = "memory_events",
    .summary = "what the framework's allocator did",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"time_ns", Kind::kInteger, "when, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().memory[i].time_ns; }},
         {"bytes", Kind::kInteger, "allocated (positive) or freed (negative)",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().memory[i].bytes; }},
         {"allocated_bytes", Kind::kInteger, "allocated after it",
          [](const From& f, size_t i, size_t) { return from_zero(f.trace().memory[i].total_allocated); }},
         {"reserved_bytes", Kind::kInteger, "reserved after it",
          [](const From& f, size_t i, size_t) { return from_zero(f.trace().memory[i].total_reserved); }},
         {"address", Kind::kInteger, "of the block",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().memory[i].address; }},
         {"device_type", Kind::kInteger, "PyTorch's: 0 CPU, 1 CUDA, 6 HIP",
          [](const From& f, size_t i, size_t) { return from_zero(f.trace().memory[i].device_type); }},
         {"device", Kind::kInteger, "device id as recorded",
          [](const From& f, size_t i, size_t) { return from_zero(f.trace().memory[i].device); }},
         {"thread_id", Kind::kInteger, "row of threads",
          [](const From& f, size_t i, size_t) { return id_or_null(f.trace().memory[i].thread); }}},
    .rows = [](const From& f) { return f.trace().memory.size(); },
    .sorted = "time_ns",
};

const DataTable kCounterData{
    .name = "counters",
    .summary = "values that the profiler counted over time",
    .columns =
        {{"rank", Kind::kInteger, "rank of the job", rank_cell},
         {"time_ns", Kind::kInteger, "when, on the trace's clock",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().counters[i].time_ns; }},
         {"name", Kind::kText, "what was counted",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().strings[f.trace().counters[i].name]; }},
         {"device", Kind::kInteger, "device id as recorded",
          [](const From& f, size_t i, size_t) { return from_zero(f.trace().counters[i].device); }},
         {"value", Kind::kReal, "value", [](const From& f, size_t i, size_t) -> Datum { return f.trace().counters[i].value; }}},
    .rows = [](const From& f) { return f.trace().counters.size(); },
    .sorted = "time_ns",
};

}  // namespace profgpu
