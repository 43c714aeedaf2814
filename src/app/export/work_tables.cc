// What ran on devices, and what was said of their memory.
#include "analyse/rank/collectives.h"
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

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
    .columns = of_rank(
        {{"id", Kind::kInteger, "number of the row within its rank", row_cell},
         {"device", Kind::kInteger, "device id as recorded", cell<queue, &Queue::device>},
         {"stream", Kind::kInteger, "stream", cell<queue, &Queue::stream>},
         {"context", Kind::kInteger, "context", cell<queue, &Queue::context>},
         {"start_ns", Kind::kInteger, "start, on the trace's clock", cell<&Trace::activity, &ActivityTable::start_ns>},
         {"duration_ns", Kind::kInteger, "how long it ran", cell<&Trace::activity, &ActivityTable::duration_ns>},
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
          [](const From& f, size_t i, size_t) -> Datum { return f.rank->phases().name(f.rank->phases().of_activity[i]); }},
         {"launch_id", Kind::kInteger, "row of host: the call that launched it",
          cell<&Trace::activity, &ActivityTable::launch>},
         {"op_id", Kind::kInteger, "row of host: the innermost operator or annotation around that call",
          [](const From& f, size_t i, size_t) { return id_or_null(f.rank->ops().of_activity[i]); }},
         {"correlation", Kind::kInteger, "id that it shares with its launch",
          cell<&Trace::activity, &ActivityTable::correlation, kAboveZero>},
         {"bytes", Kind::kInteger, "of copies and sets", cell<args, &ActivityArgs::bytes, kFromZero>},
         {"grid_x", Kind::kInteger, "blocks",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).grid, 0); }},
         {"grid_y", Kind::kInteger, "blocks",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).grid, 1); }},
         {"grid_z", Kind::kInteger, "blocks",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).grid, 2); }},
         {"block_x", Kind::kInteger, "threads of a block",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).block, 0); }},
         {"block_y", Kind::kInteger, "threads of a block",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).block, 1); }},
         {"block_z", Kind::kInteger, "threads of a block",
          [](const From& f, size_t i, size_t) { return dimension(args(f, i).block, 2); }},
         {"registers", Kind::kInteger, "registers of a thread", cell<args, &ActivityArgs::registers, kAboveZero>},
         {"shared_bytes", Kind::kInteger, "shared memory of a block",
          [](const From& f, size_t i, size_t) {
            return args(f, i).block[0] > 0 ? Datum(args(f, i).shared_bytes) : Datum();
          }},
         {"graph", Kind::kInteger, "graph that it belongs to", cell<args, &ActivityArgs::graph, kAboveZero>},
         {"graph_node", Kind::kInteger, "its node there", cell<args, &ActivityArgs::graph_node, kAboveZero>}}),
    .rows = rows_of<&Trace::activity>,
    .sorted = "start_ns",
    .key = "device",
    .stretches = devices_of_activity,
};

const DataTable kStreamData{
    .name = "streams",
    .summary = "streams of devices",
    .columns = of_rank(
        {{"device", Kind::kInteger, "device id as recorded", cell<&Trace::queues, &Queue::device>},
         {"stream", Kind::kInteger, "stream", cell<&Trace::queues, &Queue::stream>},
         {"context", Kind::kInteger, "context", cell<&Trace::queues, &Queue::context>}}),
    .rows = rows_of<&Trace::queues>,
};

const DataTable kSyncData{
    .name = "syncs",
    .summary = "waits that the device's side recorded",
    .columns = of_rank(
        {{"start_ns", Kind::kInteger, "start, on the trace's clock", cell<&Trace::syncs, &SyncRow::start_ns>},
         {"duration_ns", Kind::kInteger, "how long it took", cell<&Trace::syncs, &SyncRow::duration_ns>},
         {"name", Kind::kText, "what was waited for",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().strings[f.trace().syncs[i].name]; }},
         {"device", Kind::kInteger, "device id as recorded", cell<&Trace::syncs, &SyncRow::device>},
         {"stream", Kind::kInteger, "stream", cell<&Trace::syncs, &SyncRow::stream, kFromZero>},
         {"correlation", Kind::kInteger, "id that it shares with its call",
          cell<&Trace::syncs, &SyncRow::correlation, kAboveZero>}}),
    .rows = rows_of<&Trace::syncs>,
    .sorted = "start_ns",
};

const DataTable kCollectiveCallData{
    .name = "collective_calls",
    .summary = "every call of a collective",
    .columns = of_rank(
        {{"start_ns", Kind::kInteger, "start of its kernel (of the call on the host, without a kernel)",
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
         {"dtype", Kind::kText, "type of the elements", cell<collective, &Collective::dtype>},
         {"group_size", Kind::kInteger, "ranks of the group", cell<collective, &Collective::group_size, kAboveZero>},
         {"process_group", Kind::kText, "name of the group", cell<collective, &Collective::group>},
         {"group_description", Kind::kText, "what the program calls the group",
          cell<collective, &Collective::group_description>},
         {"group_ranks", Kind::kText, "its ranks, as recorded", cell<collective, &Collective::ranks>},
         {"in_elements", Kind::kInteger, "elements that this rank puts in",
          cell<collective, &Collective::in_elements, kFromZero>},
         {"out_elements", Kind::kInteger, "elements that this rank gets out",
          cell<collective, &Collective::out_elements, kFromZero>},
         {"message_bytes", Kind::kInteger, "size of the message, as nccl-tests defines it",
          [](const From& f, size_t i, size_t) -> Datum {
            const Collective& c = collective(f, i);
            return message_bytes(c, collective_name(f.trace().strings[c.name]), f.trace().strings[c.dtype]);
          }},
         {"sequence", Kind::kInteger, "number of the call within its group",
          cell<collective, &Collective::sequence, kFromZero>},
         {"host_id", Kind::kInteger, "row of host: the call", cell<collective, &Collective::host>},
         {"activity_id", Kind::kInteger, "row of activity: the kernel", cell<collective, &Collective::activity>}}),
    .rows = rows_of<&Trace::collectives>,
};

const DataTable kMemoryEventData{
    .name = "memory_events",
    .summary = "what the framework's allocator did",
    .columns = of_rank(
        {{"time_ns", Kind::kInteger, "when, on the trace's clock", cell<&Trace::memory, &MemoryEvent::time_ns>},
         {"bytes", Kind::kInteger, "allocated (positive) or freed (negative)",
          cell<&Trace::memory, &MemoryEvent::bytes>},
         {"allocated_bytes", Kind::kInteger, "allocated after it",
          cell<&Trace::memory, &MemoryEvent::total_allocated, kFromZero>},
         {"reserved_bytes", Kind::kInteger, "reserved after it",
          cell<&Trace::memory, &MemoryEvent::total_reserved, kFromZero>},
         {"address", Kind::kInteger, "of the block", cell<&Trace::memory, &MemoryEvent::address>},
         {"device_type", Kind::kInteger, "PyTorch's: 0 CPU, 1 CUDA, 6 HIP",
          cell<&Trace::memory, &MemoryEvent::device_type, kFromZero>},
         {"device", Kind::kInteger, "device id as recorded", cell<&Trace::memory, &MemoryEvent::device, kFromZero>},
         {"thread_id", Kind::kInteger, "row of threads", cell<&Trace::memory, &MemoryEvent::thread>}}),
    .rows = rows_of<&Trace::memory>,
    .sorted = "time_ns",
};

const DataTable kCounterData{
    .name = "counters",
    .summary = "values that the profiler counted over time",
    .columns = of_rank(
        {{"time_ns", Kind::kInteger, "when, on the trace's clock", cell<&Trace::counters, &CounterValue::time_ns>},
         {"name", Kind::kText, "what was counted",
          [](const From& f, size_t i, size_t) -> Datum { return f.trace().strings[f.trace().counters[i].name]; }},
         {"device", Kind::kInteger, "device id as recorded", cell<&Trace::counters, &CounterValue::device, kFromZero>},
         {"value", Kind::kReal, "value", cell<&Trace::counters, &CounterValue::value>}}),
    .rows = rows_of<&Trace::counters>,
    .sorted = "time_ns",
};

}  // namespace profgpu
