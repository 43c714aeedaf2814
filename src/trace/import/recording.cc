#include "trace/import/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "trace/import/recording_file.h"
#include "trace/import/recording_ranges.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

constexpr int64_t kLatest = RecordingClock::kLatest;
// With fewer chunks, a thread is not worth it.
constexpr size_t kBlocksForThreads = 4;

// The earliest time in the file, on the host's clock.
int64_t first_host_time(const TraceProcess& p) {
  int64_t first = INT64_MAX;
  const auto see = [&](int64_t host_ns) {
    if (host_ns > -kLatest && host_ns < kLatest) first = std::min(first, host_ns);
  };
  for (const RecordingFile::Block& block : p.file.blocks) {
    wire::BodyHeader header;
    __builtin_memcpy(&header, block.chunk.body, sizeof header);
    if (header.first_ns > -kLatest && header.first_ns < kLatest && header.rows > 0)
      see(p.clock.host_ns(header.first_ns, block.syncs_before));
  }
  for (const wire::RangeEvent& e : p.file.range_events) see(e.time_ns);
  for (const wire::CollectiveRow& c : p.file.collectives) see(c.start_ns);
  for (const wire::ThreadSample& s : p.file.thread_samples) see(s.time_ns);
  for (const wire::ThreadWait& w : p.file.thread_waits) see(w.start_ns);
  return first;
}

// When device activity was recorded, on the trace's clock.
Intervals windows_of(const TraceProcess& p) {
  std::vector<wire::Window> rows = p.file.windows;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  Intervals all;
  bool open = false;
  for (const wire::Window& row : rows) {
    const int64_t time = p.time(row.time_ns);
    if (time == INT64_MIN || open == (row.event == wire::WindowEvent::kOpen)) continue;
    open = !open;
    if (open) all.push_back({time, kLatest});
    else all.back().end = time;
  }
  return all;
}

// The same GPU may be 0 in one process and 1 in another.
void number_devices(std::deque<TraceProcess>& processes, Trace& trace) {
  std::map<std::string, int32_t> by_uuid;
  std::set<int32_t> taken;
  for (TraceProcess& p : processes) {
    for (const wire::DeviceRow& row : p.file.devices) {
      const std::string uuid(p.file.strings[row.uuid]);
      int32_t id = p.device(row.id);
      const auto known = by_uuid.find(uuid);
      if (!uuid.empty() && known != by_uuid.end()) id = known->second;
      else if (taken.contains(id) && !uuid.empty()) id = *taken.rbegin() == INT32_MAX ? id : *taken.rbegin() + 1;
      p.devices[row.id] = id;
      if (!taken.insert(id).second) continue;
      if (!uuid.empty()) by_uuid[uuid] = id;
      DeviceProperties d;
      d.id = id;
      d.name = p.file.strings[row.name];
      d.memory_bytes = static_cast<int64_t>(std::min<uint64_t>(row.memory_bytes, INT64_MAX));
      d.compute_major = static_cast<int32_t>(row.compute_major);
      d.compute_minor = static_cast<int32_t>(row.compute_minor);
      d.multiprocessors = static_cast<int32_t>(row.multiprocessors);
      d.uuid = uuid.empty() || uuid.starts_with("GPU-") || uuid.starts_with("MIG-") ? uuid : "GPU-" + uuid;
      trace.devices.push_back(std::move(d));
    }
  }
}

void describe(const std::deque<TraceProcess>& processes, Trace& trace) {
  const auto number = [](const RecordingFile& file, const char* key) {
    const int64_t n = file.number(key);
    return n >= 0 && n <= INT32_MAX ? std::optional<int>(static_cast<int>(n)) : std::nullopt;
  };
  for (const TraceProcess& p : processes) {
    if (!trace.distributed.rank) trace.distributed.rank = number(p.file, "rank");
    if (!trace.distributed.world_size) trace.distributed.world_size = number(p.file, "world_size");
    if (trace.host_name.empty()) trace.host_name = p.file.property("host");
  }
  for (const auto& [key, value] : processes.front().file.properties) trace.metadata.emplace_back(key, value);
}

// The process's own names of threads come last: thread samples may have the names from before exec().
void name_threads(const RankRecording& recording, Shard& shard) {
  const auto name = [&](const RecordingFile* file) {
    for (const wire::ThreadRow& row : file->threads)
      if (row.name != 0)
        shard.name_thread(row.pid != 0 ? std::to_string(row.pid) : file->pid(), std::to_string(row.tid),
                          file->strings[row.name]);
  };
  std::for_each(recording.host_files.begin(), recording.host_files.end(), name);
  std::for_each(recording.processes.begin(), recording.processes.end(), name);
}

/// Decodes the chunks of one process after the other, each on several threads.
class Decoder {
 public:
  Decoder(TraceBuilder& builder, int threads) {
    for (int i = 0; i < threads; ++i) shards_.push_back(&builder.shard());
  }
  [[nodiscard]] Shard& first_shard() { return *shards_.front(); }

  void read(TraceProcess& p) {
    p.correlation_base = correlation_base_;
    const auto& blocks = p.file.blocks;
    const size_t threads = blocks.size() < kBlocksForThreads ? 1 : std::min(shards_.size(), blocks.size());
    std::atomic<size_t> next = 0;
    std::atomic<uint32_t> highest = 0;
    const auto work = [&](Shard& shard) {
      RecordingRows rows(p, shard);
      for (size_t i = next++; i < blocks.size(); i = next++) {
        shard.begin_piece(order_ + static_cast<uint32_t>(i));
        if (!rows.read(blocks[i])) ++shard.issues[TraceIssueKind::kDamaged];
      }
      uint32_t seen = highest;
      while (seen < rows.highest_correlation() && !highest.compare_exchange_weak(seen, rows.highest_correlation())) {
      }
    };
    std::vector<std::thread> others;
    for (size_t t = 1; t < threads; ++t) others.emplace_back(work, std::ref(*shards_[t]));
    work(*shards_.front());
    for (std::thread& t : others) t.join();
    order_ += static_cast<uint32_t>(blocks.size());
    correlation_base_ += highest;
  }
  /// Further rows of the first shard come after all rows that were read.
  void begin_rest() { first_shard().begin_piece(order_++); }

 private:
  std::vector<Shard*> shards_;
  uint32_t order_ = 0;
  uint32_t correlation_base_ = 0;
};

// A window for each period in which device activity was recorded, from its first row to its last.
void split_windows(const Intervals& recorded, Trace& trace) {
  if (recorded.size() < 2) return;
  std::vector<Interval> parts(recorded.size(), Interval{INT64_MAX, INT64_MIN});
  const auto see = [&](Interval row) {
    const auto after = std::upper_bound(recorded.begin() + 1, recorded.end(), row.start,
                                        [](int64_t t, const Interval& w) { return t < w.start; });
    Interval& part = parts[static_cast<size_t>(after - recorded.begin()) - 1];
    part = {std::min(part.start, row.start), std::max(part.end, row.end)};
  };
  for (uint32_t i = 0; i < trace.activity.size(); ++i) see(trace.activity.interval(ActivityId(i)));
  for (const Thread& thread : trace.threads)
    for (HostId i = thread.begin; i < thread.end && !thread.is_sampled_stack(); i = HostId(size_t{i.value} + 1))
      see(trace.host.interval(i));
  trace.windows.clear();
  for (const Interval& part : parts)
    if (part.start <= part.end) trace.windows.push_back(part);
  for (size_t i = 0; i + 1 < trace.windows.size(); ++i)
    trace.windows[i].end = std::min(trace.windows[i].end, trace.windows[i + 1].start);
}

// Stacks are sampled as long as Python runs, beyond the windows.
void cut_stacks(Trace& trace) {
  if (trace.windows.empty()) return;
  const Interval all{trace.windows.front().start, trace.windows.back().end};
  for (const Thread& thread : trace.threads)
    for (uint32_t i = thread.begin.value; i < thread.end.value && thread.is_sampled_stack(); ++i) {
      const Interval range = trace.host.interval(HostId(i));
      trace.host.start_ns[i] = std::clamp(range.start, all.start, all.end);
      trace.host.duration_ns[i] = std::clamp(range.end, all.start, all.end) - trace.host.start_ns[i];
    }
}

// A recording of threads alone lasts as long as they were sampled.
void add_window_of_samples(Trace& trace) {
  if (!trace.windows.empty() || trace.thread_samples.empty()) return;
  Interval& window = trace.windows.emplace_back(Interval{INT64_MAX, INT64_MIN});
  for (const ThreadSample& s : trace.thread_samples)
    window = {std::min(window.start, s.time_ns), std::max(window.end, s.time_ns)};
}

void place_in_time(std::deque<TraceProcess>& processes, Trace& trace) {
  int64_t origin = INT64_MAX;
  const RecordingClock* clock = nullptr;
  for (const TraceProcess& p : processes) {
    origin = std::min(origin, first_host_time(p));
    if (clock == nullptr && p.clock.known()) clock = &p.clock;
  }
  if (origin == INT64_MAX) origin = clock != nullptr ? clock->first_host_ns() : 0;
  const int64_t base = clock != nullptr ? clock->unix_less_host_ns() + origin : 0;
  trace.base_time_ns = base >= 0 && base < kLatest ? base : 0;
  for (TraceProcess& p : processes) p.origin_ns = origin;
}

Result<Trace> read_recording(const std::string& path, const ImportOptions& options) {
  auto file = open_recording(path);
  if (!file) return file.error();
  if (options.progress) options.progress(file->file_bytes, file->file_bytes);
  if (file->rows == 0) return empty_recording(*file);
  RankRecording one;
  (file->of_host() ? one.host_files : one.processes).push_back(&*file);
  Trace trace = recorded_trace(one, options);
  for (TraceIssue& issue : recording_issues(*file)) trace.issues.push_back(std::move(issue));
  return trace;
}

}  // namespace

Trace recorded_trace(const RankRecording& recording, const ImportOptions& options) {
  std::deque<TraceProcess> processes;
  for (const RecordingFile* file : recording.processes) processes.emplace_back(*file);
  for (const RecordingFile* file : recording.host_files) processes.emplace_back(*file);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = std::clamp(options.threads > 0 ? options.threads : cores, 1, 8);
  TraceBuilder builder;
  Trace& header = builder.header();
  header.recorded = true;
  header.recorder = Recorder::kProfgpu;
  place_in_time(processes, header);
  number_devices(processes, header);
  describe(processes, header);
  Intervals windows;
  bool from_start = false;
  int64_t context_base = 0;
  for (TraceProcess& p : processes) {
    p.context_base = context_base++ << 32;
    if (p.file.device_rows == 0) continue;
    windows = unite(windows, merged(windows_of(p)));
    from_start |= !p.file.windows.empty() && p.file.strings[p.file.windows.front().reason] == "start";
  }
  Decoder decoder(builder, threads);
  name_threads(recording, decoder.first_shard());
  for (TraceProcess& p : processes) decoder.read(p);
  decoder.begin_rest();
  for (const TraceProcess& p : processes) {
    Shard& shard = decoder.first_shard();
    add_ranges(p, windows, shard);
    add_collectives(p, windows, shard);
    const std::set<std::string> pids = p.file.of_host() ? recording.pids : std::set<std::string>{};
    add_thread_samples(p, pids, shard);
    add_thread_waits(p, pids, shard);
  }
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(threads);
  if (from_start && windows.size() == 1) add_memory_totals(trace);   // else earlier calls are unknown
  match_collectives_in_order(trace);
  split_windows(windows, trace);
  cut_stacks(trace);
  add_window_of_samples(trace);
  if (recording.processes.empty())
    trace.issues.push_back(
        {TraceIssueKind::kOther, 1,
         "no process was recorded, so only the activity of threads is known: the command used no CUDA, NVTX or "
         "NCCL and no loader or optimizer of PyTorch, or was killed as soon as it did, or the recorder "
         "was not loaded"});
  add_counts(trace, counts,
             {{TraceIssueKind::kNegativeDuration, "records left out because their duration is negative: {}"},
              {TraceIssueKind::kOutOfRange, "records left out because their time is out of range: {}"},
              {TraceIssueKind::kUnknownRows,
               "fields of NVTX payloads left out because they do not match their schema or are of an unsupported kind: {}"},
              {TraceIssueKind::kDamaged, "chunks of rows left out because their content is damaged: {}"}});
  return trace;
}

const Importer kRecording = {
    "recording", "recording", "profgpu's own recording (profgpu run --trace), a file or a folder",
    "node1-rank0-4711.pgt, node1-rank0-4711.pgt.zst", is_recording, read_recording};

// Issues of a recording.

namespace {

constexpr size_t kMaxNotes = 20;

std::string_view rows_name(uint16_t kind) {
  using K = wire::ChunkKind;
  switch (static_cast<K>(kind)) {
    case K::kKernels: return "kernels";
    case K::kCopies: return "copies";
    case K::kSets: return "memory sets";
    case K::kCalls: return "CUDA calls";
    case K::kSyncs: return "waits";
    case K::kOverheads: return "profiler overheads";
    case K::kAllocations: return "allocations";
    case K::kGraphLaunches: return "graph launches";
    case K::kRangeEvents: return "range events";
    case K::kCollectives: return "collectives";
    case K::kThreadSamples: return "thread samples";
    case K::kThreadWaits: return "waits of threads";
    case K::kStrings: return "names";
    case K::kPayloadSchemas: return "layouts of NVTX payloads";
    case K::kPayloadFields: return "fields of layouts of NVTX payloads";
    case K::kPayloads: return "NVTX payloads";
    default: return "device records";
  }
}

std::string_view reason_text(wire::DropReason reason) {
  switch (reason) {
    case wire::DropReason::kRecorderFull: return "they came faster than they could be written (increase memory_mb)";
    case wire::DropReason::kDiskFull: return "they could not be written (is the disk full?)";
    case wire::DropReason::kCupti: return "CUPTI dropped them";
    case wire::DropReason::kNamesFull: return "there were too many different names; their rows have none";
    case wire::DropReason::kRingFull: return "the kernel had no room for them";
  }
  return "unknown reason";
}

void add_drops(const RecordingFile& file, std::vector<TraceIssue>& issues) {
  std::map<std::pair<uint16_t, wire::DropReason>, uint64_t> lost;
  for (const wire::Drop& d : file.drops) {
    uint64_t& sum = lost[{d.of, d.reason}];
    sum = std::min<uint64_t>(sum + std::min<uint64_t>(d.count, INT64_MAX / 2), INT64_MAX / 2);
  }
  size_t said = 0;
  for (const auto& [what, count] : lost)
    if (count > 0 && said++ < kMaxNotes)
      issues.push_back({TraceIssueKind::kDropped, static_cast<int64_t>(count),
                        fmt::format("missing {}: {}; {}", rows_name(what.first), count,
                                    reason_text(what.second))});
}

void add_notes(const RecordingFile& file, std::vector<TraceIssue>& issues) {
  std::set<std::string_view> said;
  for (const wire::Note& n : file.notes) {
    const std::string_view text = file.strings[n.text];
    if (text.empty() || said.size() >= kMaxNotes || !said.insert(text).second) continue;
    issues.push_back({n.severity == wire::Severity::kWarning ? TraceIssueKind::kOther : TraceIssueKind::kNote, 1,
                      std::string(text)});
  }
}

void add_clock(const RecordingFile& file, std::vector<TraceIssue>& issues) {
  if (file.device_rows == 0) return;
  const RecordingClock clock(file.syncs);
  if (!clock.known()) {
    issues.push_back({TraceIssueKind::kOther, 1,
                      "the file has no clock readings: host and device times may not match"});
  } else if (clock.assumed_unix()) {
    issues.push_back({TraceIssueKind::kOther, 1,
                      "CUPTI's clock was never read: assuming Unix time, CUPTI's default"});
  }
  if (clock.splits() > 0)
    issues.push_back({TraceIssueKind::kOther, static_cast<int64_t>(clock.splits()),
                      fmt::format("jumps of the device records' clock: {} (another profiler set it, or the system's "
                                  "clock was stepped); each part was aligned by its own readings",
                                  clock.splits())});
}

}  // namespace

std::vector<TraceIssue> recording_issues(const RecordingFile& file) {
  std::vector<TraceIssue> issues;
  if (!file.cut_off.empty()) issues.push_back({TraceIssueKind::kTruncated, 1, file.path + " " + file.cut_off});
  // If nothing was recorded, nothing is missing.
  if (file.torn_bytes > 0 || (!file.ended && !file.of_host() && file.rows > 0)) {
    std::string text = "the recording has no end: its process was killed or is still running, or its disk was full";
    if (file.torn_bytes > 0) text += fmt::format("; left out {} bytes of an unfinished chunk", file.torn_bytes);
    issues.push_back({TraceIssueKind::kTruncated, 1, text});
  }
  const int64_t damaged = static_cast<int64_t>(file.damaged_places) + file.bad_chunks;
  if (damaged > 0)
    issues.push_back({TraceIssueKind::kDamaged, damaged,
                      fmt::format("damaged spots: {}; skipped {} bytes", damaged, file.damaged_bytes)});
  if (file.unknown_chunks > 0)
    issues.push_back({TraceIssueKind::kUnknownRows, file.unknown_chunks,
                      fmt::format("chunks of kinds unknown to this version: {} (recorded by a newer profgpu)",
                                  file.unknown_chunks)});
  if (const auto mended = static_cast<int64_t>(file.mended.size()); mended > 0)
    issues.push_back({TraceIssueKind::kInvalidText, mended,
                      fmt::format("names that are not valid UTF-8: {}; their invalid bytes are shown as \uFFFD", mended)});
  add_drops(file, issues);
  add_clock(file, issues);
  add_notes(file, issues);
  return issues;
}

Error empty_recording(const RecordingFile& file) {
  std::string why;
  for (const wire::Note& n : file.notes)
    if (const std::string_view text = file.strings[n.text]; !text.empty()) why = text;
  if (why.empty() && file.torn_bytes > 0) why = "it is damaged or unfinished";
  if (why.empty() && file.properties.empty()) why = "the process was killed before anything was written";
  return {file.path + ": a recording without any events" + (why.empty() ? "" : ": " + why),
          "`profgpu doctor` shows what recording needs on this machine"};
}

}  // namespace profgpu
