// Writes recorded rows to the file. Names and other rows that rows refer to come before them: they are taken after the
// rows, and written first.
#include "record/inject/core.h"
#include "record/wire/chunk_writer.h"

namespace profgpu::inject {
namespace {

constexpr int64_t kSyncNs = 10'000'000'000;
constexpr size_t kKeptBytes = 4 << 20;  // of a buffer; memory beyond is returned to the kernel after a burst

bool is_dictionary(uint16_t kind) { return kind < static_cast<uint16_t>(wire::ChunkKind::kKernels); }

// Calls f(kind, rows) for each chunk that we encoded ourselves.
template <class F>
void each_chunk(const uint8_t* at, const uint8_t* end, F f) {
  while (at < end) {
    wire::ChunkHeader header;
    wire::BodyHeader body;
    memcpy(&header, at, sizeof header);
    memcpy(&body, at + sizeof header, sizeof body);
    f(header.kind, body.rows);
    at += sizeof header + header.length;
  }
}

bool write_out(Core& core, const uint8_t* data, size_t size) {
  const Written written = core.file.append(data, size);
  if (written == Written::kGone && core.phase.exchange(Phase::kFailed) != Phase::kFailed)
    set_state(wire::RecorderState::kFailed, "the recording's file or folder was removed");
  each_chunk(data, data + size, [&](uint16_t kind, uint32_t rows) {
    if (written == Written::kAll)
      core.rows_written += rows;
    else if (!is_dictionary(kind) && kind != static_cast<uint16_t>(wire::ChunkKind::kDrops))
      drop(static_cast<wire::ChunkKind>(kind), wire::DropReason::kDiskFull, rows);
  });
  return written == Written::kAll;
}

template <class Row>
bool write_rows(Core& core, const Row* rows, uint32_t count) {
  return write_out(core, core.scratch, wire::put_chunk(rows, count, core.scratch));
}

void write_names(Core& core) {
  constexpr uint32_t kMost = 1024;
  wire::StringRef strings[kMost];
  Names& names = core.names;
  for (uint32_t taken = kMost; taken == kMost;) {
    taken = names.log.take(core.taken_names, kMost);
    bool all_written = true;
    for (uint32_t i = 0; i < taken;) {
      uint32_t count = 0;
      size_t bytes = 0;
      for (; i < taken && wire::max_chunk_bytes<wire::StringRef>(count + 1, bytes + kMaxNameBytes) <= kScratchBytes;
           ++i) {
        const Name& name = core.taken_names[i];
        strings[count++] = {name.id, name.length, names.text_of(name)};
        bytes += name.length;
      }
      all_written &= write_rows(core, strings, count);
    }
    names.log.settle(all_written);
    if (!all_written) return;
  }
}

template <class Row, uint32_t kRows>
void write_log(Core& core, Log<Row, kRows>& log) {
  constexpr uint32_t kMost = 512;
  Row rows[kMost];
  for (uint32_t taken = kMost; taken == kMost;) {
    taken = log.take(rows, kMost);
    if (taken == 0) return;
    write_names(core);
    const bool written = write_rows(core, rows, taken);
    log.settle(written);
    if (!written) return;
  }
}

void write_dictionaries(Core& core) {
  write_log(core, core.properties);
  write_log(core, core.threads.log);
  write_log(core, core.device.queues.log);
  write_log(core, core.device.shapes.log);
  write_log(core, core.device.devices);
  write_log(core, core.schemas);
  write_log(core, core.schema_fields);
  write_names(core);
}

void write_device_rows(Core& core) {
  DeviceTables::Encoded encoded{};
  {
    const Locked held(core.device.lock);
    encoded = core.device.take();
  }
  write_dictionaries(core);
  if (encoded.size == 0) return;
  write_out(core, encoded.data, encoded.size);
  if (encoded.size > kKeptBytes)
    system_call(SYS_madvise, as_word(encoded.data), static_cast<long>(encoded.size & ~size_t{4095}), MADV_DONTNEED);
}

// At most a ring's length at a time: writers may be faster than the disk.
template <class Row, uint32_t kRows, uint32_t kMost>
void write_ring(Core& core, Ring<Row, kRows>& ring, Row (&rows)[kMost]) {
  for (uint32_t done = 0; done < kRows;) {
    const uint32_t taken = ring.take(rows, kMost);
    if (taken == 0) return;
    write_dictionaries(core);
    write_rows(core, rows, taken);
    done += taken;
  }
}

void write_remarks(Core& core) {
  const uint32_t taken = core.remarks.take(core.taken.remarks, 512);
  if (taken == 0) return;
  write_names(core);
  for (uint32_t i = 0; i < taken; ++i) {
    const Remark& remark = core.taken.remarks[i];
    if (remark.kind == wire::ChunkKind::kNotes) {
      const wire::Note row{remark.time_ns, static_cast<wire::Severity>(remark.detail), remark.text};
      write_rows(core, &row, 1);
    } else {
      const wire::Window row{remark.time_ns, static_cast<wire::WindowEvent>(remark.detail), remark.text};
      write_rows(core, &row, 1);
    }
  }
}

void write_drops(Core& core) {
  if (const uint64_t names = core.names.take_refused(); names > 0)
    drop(wire::ChunkKind::kStrings, wire::DropReason::kNamesFull, names);
  for (uint16_t of = 0; of < 64; ++of)
    for (uint8_t reason = 0; reason < 8; ++reason) {
      const uint64_t count = core.drops[of][reason].exchange(0, std::memory_order_relaxed);
      if (count == 0) continue;
      const wire::Drop row{host_now(), of, static_cast<wire::DropReason>(reason), count};
      if (write_rows(core, &row, 1))
        core.rows_dropped += count;
      else
        core.drops[of][reason].fetch_add(count, std::memory_order_relaxed);
    }
}

bool has_unwritten_drops(const Core& core) {
  for (const auto& reasons : core.drops)
    for (const auto& count : reasons)
      if (count.load(std::memory_order_relaxed) > 0) return true;
  return false;
}

// The device's clock is read between two readings of the host's, so that the error is at most half of their distance:
// the quickest of several, as any may be interrupted, and the first touches cold code and pages.
void write_sync(Core& core) {
  constexpr int kTries = 5;
  const Source* const source = core.windows.source.load(std::memory_order_acquire);
  wire::ClockSync row;
  int64_t least = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    wire::ClockSync seen;
    const int64_t before = host_now();
    seen.unix_ns = clock_ns(CLOCK_REALTIME);
    seen.device_ns = source != nullptr ? source->device_clock() : 0;
    const int64_t took = host_now() - before;
    seen.host_ns = before + took / 2;
    if (took < least) least = took, row = seen;
  }
  if (write_rows(core, &row, 1)) core.synced_ns = row.host_ns;
}

void copy_reason(Core& core, wire::ControlPage& page) {
  const uint32_t id = core.state_reason.load(std::memory_order_acquire);
  uint32_t length = 0;
  const char* const text = id != 0 ? core.names.text_of(id, length) : "";
  if (length > sizeof page.reason - 1) length = sizeof page.reason - 1;
  memcpy(page.reason, text, length);
  memset(page.reason + length, 0, sizeof page.reason - length);
}

void show_state(Core& core) {
  wire::ControlPage* const page = core.control;
  if (page == nullptr) return;
  copy_reason(core, *page);
  set_word(page->state, core.state.load(std::memory_order_relaxed));
  set_word(page->rows_written, core.rows_written);
  set_word(page->bytes_written, static_cast<uint64_t>(core.file.size()));
  set_word(page->rows_dropped, core.rows_dropped);
  set_word(page->steps, core.steps.load(std::memory_order_relaxed));
  set_word(page->flushed_host_ns, host_now());
}

}  // namespace

void flush(Core& core, bool at_end) {
  const Locked held(core.flushing);
  if (core.phase.load(std::memory_order_relaxed) == Phase::kFailed) return show_state(core);
  if (const Source* source = core.windows.source.load(std::memory_order_acquire); source != nullptr)
    source->flush(at_end);
  const uint64_t before = core.rows_written;
  write_device_rows(core);
  write_ring(core, core.ranges, core.taken.ranges);
  write_ring(core, core.collectives, core.taken.collectives);
  write_ring(core, core.payloads, core.taken.payloads);
  write_remarks(core);
  write_drops(core);
  if (core.rows_written != before || host_now() - core.synced_ns > kSyncNs) write_sync(core);
  show_state(core);
}

void write_end(Core& core) {
  const Locked held(core.flushing);
  if (core.phase.load(std::memory_order_relaxed) == Phase::kFailed) return;
  // An end row asserts that nothing is missing except what the file reports.
  if (!has_unwritten_drops(core))
    core.file.append(core.scratch, wire::seal_chunk(core.scratch, wire::ChunkKind::kEnd, 0));
  core.state.store(static_cast<uint32_t>(wire::RecorderState::kEnded), std::memory_order_relaxed);
  show_state(core);
}

}  // namespace profgpu::inject
