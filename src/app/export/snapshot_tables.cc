// Memory snapshots: events, segments and blocks of PyTorch's allocator.
#include "analyse/rank/snapshot.h"
#include "app/export/data_table.h"

namespace profgpu {
namespace {

using Kind = Datum::Kind;
using From = RowSource;

const SnapshotHistory& history(const From& f) { return f.rank->facts().get<SnapshotHistory>(); }
const MemorySnapshot& snapshot(const From& f) { return *history(f).snapshot; }
const AllocationEvents& events(const From& f) { return snapshot(f).events; }
const MemorySegment& segment(const From& f, size_t row) { return snapshot(f).segments[row]; }
const MemoryBlock& block(const From& f, size_t row) { return snapshot(f).blocks[row]; }
const MemorySegment& segment_of(const From& f, size_t row) {
  return snapshot(f).segments[history(f).segment_of_block[row]];
}

size_t event_rows(const From& f) { return history(f).snapshot != nullptr ? events(f).size() : 0; }
size_t segment_rows(const From& f) { return history(f).snapshot != nullptr ? snapshot(f).segments.size() : 0; }
size_t block_rows(const From& f) { return history(f).segment_of_block.size(); }

bool allocates(const From& f, size_t row) { return events(f).action(row) == AllocationAction::kAlloc; }

Datum known(int64_t n) { return n >= 0 ? Datum(n) : Datum(); }

Datum pool_number(const MemorySnapshot& of, uint32_t pool) {
  return pool < of.pools.size() ? Datum(of.pools[pool].second) : Datum();
}
Datum text_if_any(const MemorySnapshot& of, StringId text) {
  return text.valid() && !of.strings[text].empty() ? Datum(of.strings[text]) : Datum();
}
Datum pool_words(const MemorySnapshot& of, uint32_t pool) {
  return pool < of.pools.size() ? Datum(pool_kind_name(pool_kind(of.pools[pool]))) : Datum();
}
constexpr std::string_view kPoolNumber = "second number of the memory pool's id; 0: the default one, or a CUDA graph's own";
constexpr std::string_view kPoolKind = "default, cuda_graph (a graph's own), memory_pool (that the program made)";

const MemoryFrame* frame(const From& f, size_t row) {
  const uint32_t place = history(f).frame[row];
  return place == MemoryStacks::kNone ? nullptr : &snapshot(f).stacks.frame(place);
}
Datum frame_text(const From& f, size_t row, StringId MemoryFrame::* member) {
  const MemoryFrame* at = frame(f, row);
  return at != nullptr ? Datum(snapshot(f).strings[at->*member]) : Datum();
}

}  // namespace

extern const DataTable kSnapshotEventData, kSnapshotSegmentData, kSnapshotBlockData;

const DataTable kSnapshotEventData{
    .name = "snapshot_events",
    .summary = "the history of a memory snapshot: what PyTorch's allocator did",
    .columns = of_rank(
        {{"device", Kind::kInteger, "device of the trace that has it",
          [](const From& f, size_t i, size_t) -> Datum { return history(f).device[i]; }},
         {"event", Kind::kInteger, "its place in that trace, from 0",
          [](const From& f, size_t i, size_t) -> Datum { return history(f).event[i]; }},
         {"action", Kind::kText, "alloc, free_requested, free_completed, segment_alloc, oom and so on",
          [](const From& f, size_t i, size_t) -> Datum { return allocation_action_name(events(f).action(i)); }},
         {"address", Kind::kInteger, "address; of oom what the device has free",
          [](const From& f, size_t i, size_t) -> Datum { return static_cast<int64_t>(events(f).address(i)); }},
         {"size_bytes", Kind::kInteger, "bytes as requested; of segments as taken",
          [](const From& f, size_t i, size_t) -> Datum { return events(f).bytes(i); }},
         {"stream", Kind::kInteger, "stream",
          [](const From& f, size_t i, size_t) -> Datum { return events(f).kind_of(i).stream; }},
         {"pool", Kind::kInteger, kPoolNumber,
          [](const From& f, size_t i, size_t) -> Datum {
            return pool_number(snapshot(f), events(f).kind_of(i).pool);
          }},
         {"time_ns", Kind::kInteger, "Unix time",
          [](const From& f, size_t i, size_t) -> Datum {
            const int64_t time_us = events(f).time_us(i);
            return time_us == AllocationEvent::kNoTime ? Datum() : Datum(1000 * time_us);
          }},
         {"allocated_bytes", Kind::kInteger, "allocated after it, as requested",
          [](const From& f, size_t i, size_t) -> Datum { return known(history(f).allocated_bytes[i]); }},
         {"reserved_bytes", Kind::kInteger, "reserved after it",
          [](const From& f, size_t i, size_t) -> Datum { return known(history(f).reserved_bytes[i]); }},
         {"freed_event", Kind::kInteger, "of an allocation: the event that frees it; null: none does",
          [](const From& f, size_t i, size_t) -> Datum { return known(history(f).freed[i]); }},
         {"category", Kind::kText, "of an allocation: parameter, activation and so on",
          [](const From& f, size_t i, size_t) -> Datum {
            return allocates(f, i) ? Datum(memory_category_name(history(f).category[i])) : Datum();
          }},
         {"function", Kind::kText, "of the program's own code, innermost",
          [](const From& f, size_t i, size_t) -> Datum { return frame_text(f, i, &MemoryFrame::name); }},
         {"file", Kind::kText, "its file",
          [](const From& f, size_t i, size_t) -> Datum { return frame_text(f, i, &MemoryFrame::file); }},
         {"line", Kind::kInteger, "its line",
          [](const From& f, size_t i, size_t) -> Datum {
            const MemoryFrame* at = frame(f, i);
            return at != nullptr ? Datum(at->line) : Datum();
          }},
         {"pool_kind", Kind::kText, kPoolKind,
          [](const From& f, size_t i, size_t) -> Datum {
            return pool_words(snapshot(f), events(f).kind_of(i).pool);
          }},
         {"user_metadata", Kind::kText, "what the program set: torch.cuda.memory._set_memory_metadata()",
          [](const From& f, size_t i, size_t) -> Datum {
            return text_if_any(snapshot(f), events(f).kind_of(i).user_metadata);
          }},
         {"compile_context", Kind::kText, "of torch.compile, such as 0/0",
          [](const From& f, size_t i, size_t) -> Datum {
            return text_if_any(snapshot(f), events(f).kind_of(i).compile_context);
          }}}),
    .rows = event_rows,
};

const DataTable kSnapshotSegmentData{
    .name = "snapshot_segments",
    .summary = "what PyTorch's allocator had taken from the device when the snapshot was made",
    .columns = of_rank(
        {{"id", Kind::kInteger, "number of the row within its rank", row_cell},
         {"device", Kind::kInteger, "device", cell<segment, &MemorySegment::device>},
         {"address", Kind::kInteger, "address",
          [](const From& f, size_t i, size_t) -> Datum { return static_cast<int64_t>(segment(f, i).address); }},
         {"total_bytes", Kind::kInteger, "its size", cell<segment, &MemorySegment::total>},
         {"allocated_bytes", Kind::kInteger, "in blocks that tensors have", cell<segment, &MemorySegment::allocated>},
         {"active_bytes", Kind::kInteger, "and in blocks that streams still use",
          cell<segment, &MemorySegment::active>},
         {"requested_bytes", Kind::kInteger, "what was asked of these", cell<segment, &MemorySegment::requested>},
         {"stream", Kind::kInteger, "stream", cell<segment, &MemorySegment::stream>},
         {"pool", Kind::kInteger, kPoolNumber,
          [](const From& f, size_t i, size_t) -> Datum { return pool_number(snapshot(f), segment(f, i).pool); }},
         {"large", Kind::kInteger, "1: of the pool for blocks over 1 MiB", cell<segment, &MemorySegment::large>},
         {"expandable", Kind::kInteger, "1: it grows by mapping pages", cell<segment, &MemorySegment::expandable>},
         {"pool_kind", Kind::kText, kPoolKind,
          [](const From& f, size_t i, size_t) -> Datum { return pool_words(snapshot(f), segment(f, i).pool); }}}),
    .rows = segment_rows,
};

const DataTable kSnapshotBlockData{
    .name = "snapshot_blocks",
    .summary = "the blocks of those segments",
    .columns = of_rank(
        {{"segment", Kind::kInteger, "id in snapshot_segments",
          [](const From& f, size_t i, size_t) -> Datum { return history(f).segment_of_block[i]; }},
         {"device", Kind::kInteger, "device",
          [](const From& f, size_t i, size_t) -> Datum { return segment_of(f, i).device; }},
         {"address", Kind::kInteger, "address",
          [](const From& f, size_t i, size_t) -> Datum { return static_cast<int64_t>(block(f, i).address); }},
         {"size_bytes", Kind::kInteger, "its size", cell<block, &MemoryBlock::size>},
         {"requested_bytes", Kind::kInteger, "what was asked", cell<block, &MemoryBlock::requested>},
         {"state", Kind::kText, "active_allocated, active_pending_free or inactive",
          [](const From& f, size_t i, size_t) -> Datum { return block_state_name(block(f, i).state); }}}),
    .rows = block_rows,
};

}  // namespace profgpu
