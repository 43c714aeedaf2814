#include "record/inject/recorder.h"

#include <string.h>

#include "record/inject/core.h"

namespace profgpu::inject {
namespace {

// The caller's number, tagged with the recorder's generation: in a forked child it is another thread.
// Zero-initialized and at a fixed place (initial-exec), so that a signal handler may use it.
__thread uint64_t this_thread;

template <class Row, uint32_t kRows>
void put(Ring<Row, kRows>& ring, const Row& row, wire::ChunkKind of) {
  bool wake = false;
  if (!ring.put(row, wake)) drop(of, wire::DropReason::kRecorderFull, 1);
  if (wake) wake_recorder();
}

void remark(wire::ChunkKind kind, uint8_t detail, const char* text) {
  if (Core* const core = recording_core(); core != nullptr)
    put(core->remarks, Remark{host_now(), kind, detail, intern(text)}, kind);
}

}  // namespace

bool recording() { return recording_core() != nullptr; }

const Options& options() { return the_core.load(std::memory_order_acquire)->options; }

uint32_t recorder_generation() {
  Core* const core = recording_core();
  return core != nullptr ? core->generation : 0;
}

int64_t host_now() { return clock_ns(CLOCK_MONOTONIC); }

uint32_t intern(const char* text, size_t length) {
  Core* const core = the_core.load(std::memory_order_acquire);
  const bool is_started = core != nullptr && core->phase.load(std::memory_order_acquire) != Phase::kOff;
  return is_started ? core->names.intern(text, length) : 0;
}

uint32_t intern(const char* text) { return text != nullptr ? intern(text, strnlen(text, kMaxNameBytes)) : 0; }

// Also while the recorder ends: the last device rows come then.
uint32_t thread_id(uint32_t tid) {
  Core* const core = the_core.load(std::memory_order_acquire);
  const Phase phase = core != nullptr ? core->phase.load(std::memory_order_acquire) : Phase::kOff;
  return phase == Phase::kRecording || phase == Phase::kEnding ? core->threads.id(core->pid, tid, core->names) : 0;
}

uint32_t thread_id() {
  Core* const core = recording_core();
  if (core == nullptr) return 0;
  const uint64_t known = this_thread;
  if (known >> 32 == core->generation) return static_cast<uint32_t>(known);
  const uint32_t id = core->threads.own_id(core->pid, core->names);
  this_thread = uint64_t{core->generation} << 32 | id;
  return id;
}

void name_thread(uint32_t tid, uint32_t name) {
  if (Core* const core = recording_core(); core != nullptr) core->threads.rename(core->pid, tid, name, core->names);
}

void post(const wire::RangeEvent& row) {
  Core* const core = recording_core();
  if (core == nullptr) return;
  put(core->ranges, row, wire::ChunkKind::kRangeEvents);
  if (core->options.window == WindowKind::kRange || row.op == wire::RangeOp::kStep) follow_range(*core, row);
}

void post(const wire::CollectiveRow& row) {
  if (Core* const core = recording_core(); core != nullptr)
    put(core->collectives, row, wire::ChunkKind::kCollectives);
}

void post(const wire::PayloadRef& row) {
  Core* const core = recording_core();
  if (core == nullptr) return;
  Payload kept;
  kept.event = row.event;
  kept.schema = row.schema;
  kept.size = row.size;
  kept.domain = row.domain;
  kept.length = row.length < kMaxPayloadBytes ? row.length : kMaxPayloadBytes;
  memcpy(kept.text, row.text, kept.length);
  put(core->payloads, kept, wire::ChunkKind::kPayloads);
}

void add_schema(const wire::PayloadSchema& schema, const wire::PayloadField* fields, uint32_t count) {
  Core* const core = recording_core();
  if (core == nullptr) return;
  if (!core->schemas.add(schema)) drop(wire::ChunkKind::kPayloadSchemas, wire::DropReason::kRecorderFull, 1);
  for (uint32_t i = 0; i < count; ++i)
    if (!core->schema_fields.add(fields[i])) drop(wire::ChunkKind::kPayloadFields, wire::DropReason::kRecorderFull, 1);
}

void note(wire::Severity severity, const char* text) {
  remark(wire::ChunkKind::kNotes, static_cast<uint8_t>(severity), text);
}

void window(wire::WindowEvent event, const char* reason) {
  remark(wire::ChunkKind::kWindows, static_cast<uint8_t>(event), reason);
}

void drop(wire::ChunkKind of, wire::DropReason reason, uint64_t count) {
  Core* const core = the_core.load(std::memory_order_acquire);
  if (core == nullptr) return;
  core->drops[static_cast<uint16_t>(of) % 64][static_cast<uint8_t>(reason) % 8].fetch_add(count,
                                                                                          std::memory_order_relaxed);
}

void property(const char* key, const char* value) {
  Core* const core = the_core.load(std::memory_order_acquire);
  if (core == nullptr) return;
  const wire::Property row{intern(key), intern(value)};
  if (row.key != 0 && !core->properties.add(row))
    drop(wire::ChunkKind::kProperties, wire::DropReason::kRecorderFull, 1);
}

void set_state(wire::RecorderState state, const char* reason) {
  Core* const core = the_core.load(std::memory_order_acquire);
  if (core == nullptr) return;
  core->state_reason.store(intern(reason), std::memory_order_release);
  core->state.store(static_cast<uint32_t>(state), std::memory_order_relaxed);
}

// Records come only after the recorder was started, and its memory stays.
Collecting::Collecting() : tables_(the_core.load(std::memory_order_acquire)->device) { tables_.lock.lock(); }

namespace {

struct Piece {
  const char* begin;
  const char* end;

  [[nodiscard]] bool is(const char* text) const {
    const size_t length = strlen(text);
    return static_cast<size_t>(end - begin) == length && memcmp(begin, text, length) == 0;
  }
  // Removes and returns the part before the separator, which goes too.
  Piece cut(char separator) {
    const auto* at = static_cast<const char*>(memchr(begin, separator, static_cast<size_t>(end - begin)));
    const Piece head{begin, at == nullptr ? end : at};
    begin = at == nullptr ? end : at + 1;
    return head;
  }
  // Removes and returns the part after the last separator, which goes too.
  Piece cut_last(char separator) {
    const char* at = end;
    while (at != begin && at[-1] != separator) --at;
    const Piece tail{at, end};
    end = at == begin ? at : at - 1;
    return tail;
  }
  // Digits only; at most `max`. Nothing: `value` stays as it is.
  bool number(int64_t& value, int64_t max) const {
    if (begin == end) return true;
    if (end - begin > 18) return false;
    int64_t n = 0;
    for (const char* at = begin; at != end; ++at) {
      if (*at < '0' || *at > '9') return false;
      n = n * 10 + (*at - '0');
    }
    if (n > max) return false;
    value = n;
    return true;
  }
};

bool read_bounds(Piece first, Piece end, Options& options) {
  int64_t a = 0, b = INT64_MAX;
  if (!first.number(a, INT64_MAX) || !end.number(b, INT64_MAX) || a >= b) return false;
  options.first = a;
  options.end = b;
  return true;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// %2C means a comma, as in URLs; other bytes mean themselves.
bool read_name(Piece text, Options& options) {
  size_t length = 0;
  for (const char* at = text.begin; at != text.end; ++at) {
    if (length + 1 == sizeof options.range) return false;
    char c = *at;
    if (c == '%' && text.end - at > 2 && hex(at[1]) >= 0 && hex(at[2]) >= 0) {
      c = static_cast<char>(hex(at[1]) * 16 + hex(at[2]));
      at += 2;
    }
    options.range[length++] = c;
  }
  options.range[length] = 0;
  return length > 0;
}

constexpr int64_t kMillion = 1'000'000;

bool read_time(Piece delay, Piece duration, Options& options) {
  int64_t a = 0, b = -1;
  if (!delay.number(a, INT64_MAX / kMillion) || !duration.number(b, INT64_MAX / kMillion)) return false;
  options.delay_ns = a * kMillion;
  options.duration_ns = b < 0 ? INT64_MAX : b * kMillion;
  return true;
}

bool read_window(Piece value, Options& options) {
  WindowKind kind{};
  const Piece type = value.cut(':');
  if (type.is("all")) {
    kind = WindowKind::kAll;
  } else if (type.is("cudaProfilerApi")) {
    kind = WindowKind::kCudaProfilerApi;
  } else if (type.is("manual")) {
    kind = WindowKind::kManual;
  } else if (type.is("steps")) {
    kind = WindowKind::kSteps;
    const Piece first = value.cut(':');
    if (!read_bounds(first, value, options)) return false;
  } else if (type.is("range")) {
    kind = WindowKind::kRange;
    const Piece end = value.cut_last(':');
    const Piece first = value.cut_last(':');
    if (!read_bounds(first, end, options) || !read_name(value, options)) return false;
  } else if (type.is("time")) {
    kind = WindowKind::kTime;
    const Piece delay = value.cut(':');
    if (!read_time(delay, value, options)) return false;
  } else {
    return false;
  }
  options.window = kind;
  return true;
}

bool read_switch(Piece value, bool& on) {
  if (!value.is("0") && !value.is("1")) return false;
  on = value.is("1");
  return true;
}

bool read_option(Piece key, Piece value, Options& options) {
  int64_t n = -1;
  if (key.is("window")) return read_window(value, options);
  if (key.is("nvtx")) return read_switch(value, options.nvtx);
  if (key.is("nccl")) return read_switch(value, options.nccl);
  if (key.is("cuda")) return read_switch(value, options.cuda);
  if (key.is("graphs")) {
    options.graph_nodes = value.is("node");
    return value.is("node") || value.is("graph");
  }
  if (key.is("flush_ms") && value.number(n, 3'600'000) && n >= 0) {
    options.flush_ns = (n < 10 ? 10 : n) * kMillion;
    return true;
  }
  if (key.is("memory_mb") && value.number(n, 1 << 20) && n >= 0) {
    // Below 96 MiB the tables of fixed size do not fit.
    options.memory_bytes = static_cast<size_t>(n < 96 ? 96 : n) << 20;
    return true;
  }
  return false;
}

}  // namespace

void parse_options(const char* text, Options& options, Text<256>& invalid) {
  if (text == nullptr) return;
  Piece rest{text, text + strlen(text)};
  while (rest.begin != rest.end) {
    const Piece whole = rest.cut(',');
    Piece value = whole;
    const Piece key = value.cut('=');
    if (whole.begin == whole.end || read_option(key, value, options)) continue;
    if (invalid.length() > 0) invalid << ", ";
    for (const char* at = whole.begin; at != whole.end; ++at) invalid << *at;
  }
}

}  // namespace profgpu::inject
