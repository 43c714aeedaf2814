#include "trace/import/recording_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "trace/import/recording_payloads.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

constexpr std::string_view kPhaseDomain = "profgpu";
constexpr std::string_view kLibraryDomain = "profgpu.library";   // calls of cuBLAS, cuDNN, MPI
constexpr std::string_view kMpiProtocol = "MPI";   // of a call's row; its algorithm is the function's own name
constexpr std::string_view kStackDomain = "profgpu.stack";   // frames of a thread's sampled Python stack

/// Adds ranges, cut to the windows in which the device was recorded.
class RangeWriter {
 public:
  RangeWriter(const RecordingFile& file, const std::vector<Interval>& windows, Shard& shard)
      : windows_(windows), shard_(shard), threads_(file, shard) {}

  /// True if a row was added; it is the shard's last. `arguments`: members of a JSON object.
  bool add(std::string_view name, Interval range, uint32_t thread, std::string_view arguments = {},
           HostKind kind = HostKind::kAnnotation) {
    if (!windows_.empty()) {
      const size_t w = first_ending_after(windows_, range.start);
      if (w == windows_.size() || (windows_[w].start > range.start && windows_[w].start >= range.end)) return false;
      range = {std::max(range.start, windows_[w].start), std::min(range.end, windows_[w].end)};
    }
    if (!add_whole(name, range, threads_(thread), kind)) return false;
    if (!arguments.empty())
      shard_.host_arguments.emplace_back(shard_.host.size() - 1,
                                         shard_.strings.intern("{" + std::string(arguments) + "}"));
    return true;
  }
  /// The row that was added last is a call of NCCL.
  void describe_last(const NcclCall& call) {
    shard_.host_collectives.emplace_back(shard_.host.size() - 1, static_cast<uint32_t>(shard_.collectives.size()));
    shard_.collectives.push_back(collective_of(call, shard_.strings));
  }
  /// Keeps a step if it was recorded except for the time that opening the window took.
  void add_step(uint64_t number, Interval range, uint32_t thread) {
    constexpr int64_t kRecordedPct = 90;
    if (!windows_.empty() && overlap_length(windows_, range) * 100 < range.length() * kRecordedPct) return;
    add_whole("ProfilerStep#" + std::to_string(number), range, threads_(thread));
  }
  void add_frame(std::string_view name, Interval range, uint32_t thread) {
    add_whole(name, range, threads_.sampled_stack(thread), HostKind::kPython);
  }

 private:
  bool add_whole(std::string_view name, Interval range, uint32_t thread, HostKind kind = HostKind::kAnnotation) {
    if (range.end < range.start || range.length() >= kLongestNs) return false;
    HostRow row;
    row.start_ns = range.start;
    row.duration_ns = range.length();
    row.name = shard_.strings.intern(name);
    row.kind = kind;
    row.thread = static_cast<uint16_t>(thread);
    shard_.host.push_back(row);
    return true;
  }

  const std::vector<Interval>& windows_;
  Shard& shard_;
  ThreadsOfShard threads_;
};

/// The open ranges of a process's threads. Takes events in order of time.
class OpenRanges {
 public:
  OpenRanges(const RecordingFile& file, RangeWriter& writer) : file_(file), writer_(writer), payloads_(file) {}

  /// The event must stay in place until finish().
  void take(const wire::RangeEvent& e, int64_t time) {
    last_ = std::max(last_, time);
    OfThread& thread = threads_[e.thread];
    if (!thread.step_known && file_.strings[e.domain] == kPhaseDomain && e.op != wire::RangeOp::kStep)
      thread.step_start = time, thread.step_known = true;
    switch (e.op) {
      case wire::RangeOp::kPush: thread.stacks[e.domain].push_back({&e, time}); break;
      case wire::RangeOp::kPop: pop(thread, e, time); break;
      case wire::RangeOp::kStart: started_[e.range] = {&e, time}; break;
      case wire::RangeOp::kEnd:
        if (const auto it = started_.find(e.range); it != started_.end()) {
          close(it->second, time, &e);
          started_.erase(it);
        }
        break;
      case wire::RangeOp::kMark: close({&e, time}, time); break;
      case wire::RangeOp::kStep:
        if (thread.step_known) writer_.add_step(e.payload, {thread.step_start, time}, e.thread);
        thread.step_start = time, thread.step_known = true;
        break;
    }
  }
  /// Ends the open ranges with the recording.
  void finish(int64_t end) {
    end = std::max(end, last_);
    for (const auto& [id, thread] : threads_)
      for (const auto& [domain, stack] : thread.stacks)
        for (const Open& open : stack) close(open, end);
    for (const auto& [id, started] : started_) close(started, end);
  }
  /// Fields of payloads that could not be shown.
  [[nodiscard]] int64_t left_out() const { return payloads_.left_out(); }

 private:
  struct Open {
    const wire::RangeEvent* event;
    int64_t start;
  };
  struct OfThread {
    std::map<uint32_t, std::vector<Open>> stacks;   // by domain: each has its own
    int64_t step_start = 0;
    bool step_known = false;   // a step, or the first phase of the first one, has begun
  };

  void pop(OfThread& thread, const wire::RangeEvent& e, int64_t time) {
    const auto at = thread.stacks.find(e.domain);
    if (at == thread.stacks.end() || at->second.empty()) return;
    close(at->second.back(), time, &e);
    at->second.pop_back();
  }
  // `closed_by`: may be null.
  void close(const Open& open, int64_t end, const wire::RangeEvent* closed_by = nullptr) {
    const wire::RangeEvent& e = *open.event;
    const std::string_view domain = file_.strings[e.domain], name = file_.strings[e.name];
    const Interval range{open.start, end};
    if (domain == kStackDomain) return writer_.add_frame(name, range, e.thread);
    if (domain == kPhaseDomain) {   // "checkpoint" alone would also be activation checkpointing
      writer_.add(name == "checkpoint" ? "save_checkpoint" : name, range, e.thread);
      return;
    }
    if (domain == kLibraryDomain) {
      writer_.add(name, range, e.thread, {}, HostKind::kLibrary);
      return;
    }
    PayloadText said = payloads_.of(e);
    if (closed_by != nullptr) {
      const PayloadText more = payloads_.of(*closed_by);
      said.members += (said.members.empty() || more.members.empty() ? "" : ", ") + more.members;
      if (!more.message.empty()) said.message = more.message;
    }
    const std::string shown = said.message.empty() ? std::string(name) : said.message;
    const bool added =
        writer_.add(domain.empty() ? shown : std::string(domain) + ": " + shown, range, e.thread, said.members);
    // NCCL's profiler plugin has more details of each call.
    if (domain != kNcclDomain || !file_.collectives.empty()) return;
    if (const auto call = nccl_.call_of(name, said.members); call && added) writer_.describe_last(*call);
  }

  const RecordingFile& file_;
  RangeWriter& writer_;
  PayloadDecoder payloads_;
  NcclRanges nccl_;
  std::unordered_map<uint32_t, OfThread> threads_;
  std::unordered_map<uint64_t, Open> started_;
  int64_t last_ = INT64_MIN;
};

int64_t last_host_time(const TraceProcess& process) {
  int64_t last = INT64_MIN;
  for (const RecordingFile::Block& block : process.file.blocks) {
    wire::BodyHeader header;
    __builtin_memcpy(&header, block.chunk.body, sizeof header);
    if (header.last_ns > -RecordingClock::kLatest && header.last_ns < RecordingClock::kLatest)
      last = std::max(last, process.time(process.clock.host_ns(header.last_ns, block.syncs_before)));
  }
  for (const wire::ClockSync& s : process.file.syncs) last = std::max(last, process.time(s.host_ns));
  return last;
}

// Counts rows with an invalid time.
bool is_valid(int64_t start, int64_t duration_ns, Shard& shard) {
  if (start == INT64_MIN) return ++shard.issues[TraceIssueKind::kOutOfRange], false;
  if (duration_ns < 0 || duration_ns >= kLongestNs) return ++shard.issues[TraceIssueKind::kNegativeDuration], false;
  return true;
}

bool may_be(std::string_view kernel, std::string_view function) {
  if (kernel.find("Generic") != kernel.npos) return true;
  if (function == "Send" || function == "Recv") return kernel.find("SendRecv") != kernel.npos;
  return !function.empty() && kernel.find(function) != kernel.npos;
}

}  // namespace

void add_ranges(const TraceProcess& process, const std::vector<Interval>& windows, Shard& shard) {
  std::vector<wire::RangeEvent> events = process.file.range_events;
  std::stable_sort(events.begin(), events.end(),
                   [](const wire::RangeEvent& a, const wire::RangeEvent& b) { return a.time_ns < b.time_ns; });
  RangeWriter writer(process.file, windows, shard);
  OpenRanges ranges(process.file, writer);
  for (const wire::RangeEvent& e : events) {
    const int64_t time = process.time(e.time_ns);
    if (time == INT64_MIN) ++shard.issues[TraceIssueKind::kOutOfRange];
    else ranges.take(e, time);
  }
  ranges.finish(last_host_time(process));
  shard.issues[TraceIssueKind::kUnknownRows] += ranges.left_out();
  shard.events += static_cast<int64_t>(events.size());
}

void add_collectives(const TraceProcess& process, const std::vector<Interval>& windows, Shard& shard) {
  RangeWriter writer(process.file, windows, shard);
  for (const wire::CollectiveRow& row : process.file.collectives) {
    ++shard.events;
    const int64_t start = process.time(row.start_ns);
    if (!is_valid(start, row.duration_ns, shard)) continue;
    const bool is_mpi = process.file.strings[row.protocol] == kMpiProtocol;
    const std::string name = is_mpi ? std::string(process.file.strings[row.algorithm])
                                    : "nccl:" + std::string(process.file.strings[row.function]);
    const HostKind kind = is_mpi ? HostKind::kLibrary : HostKind::kAnnotation;
    if (!writer.add(name, {start, start + row.duration_ns}, row.thread, {}, kind)) continue;
    writer.describe_last(nccl_call(row, process.file));
  }
}

void add_thread_samples(const TraceProcess& process, const std::set<std::string>& pids, Shard& shard) {
  ThreadsOfShard threads(process.file, shard);
  for (const wire::ThreadSample& s : process.file.thread_samples) {
    if (!pids.empty() && !pids.contains(std::to_string(process.file.threads[s.thread].pid))) continue;
    ++shard.events;
    const int64_t time = process.time(s.time_ns);
    if (time == INT64_MIN) {
      ++shard.issues[TraceIssueKind::kOutOfRange];
      continue;
    }
    shard.thread_samples.push_back({time, ThreadId(threads(s.thread)), static_cast<char>(s.state), s.system_call,
                                    s.user_ns, s.system_ns, s.waited_ns, s.blocked_ns, s.preempted_ns, s.waits});
  }
}

void add_thread_waits(const TraceProcess& process, const std::set<std::string>& pids, Shard& shard) {
  ThreadsOfShard threads(process.file, shard);
  for (const wire::ThreadWait& w : process.file.thread_waits) {
    if (!pids.empty() && !pids.contains(std::to_string(process.file.threads[w.thread].pid))) continue;
    ++shard.events;
    const int64_t start = process.time(w.start_ns);
    if (!is_valid(start, w.duration_ns, shard)) continue;
    shard.thread_waits.push_back({start, w.duration_ns, ThreadId(threads(w.thread))});
  }
}

void match_collectives_in_order(Trace& trace) {
  std::vector<Collective*> calls;
  for (Collective& c : trace.collectives) {
    if (c.activity.valid()) return;
    if (c.host.valid()) calls.push_back(&c);
  }
  std::sort(calls.begin(), calls.end(), [&](const Collective* a, const Collective* b) {
    const auto time = [&](const Collective* c) { return std::pair(trace.host.start_ns[c->host.value], c->host); };
    return time(a) < time(b);
  });
  std::vector<uint32_t> kernels;
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    if (trace.name(ActivityId(i)).starts_with("nccl")) kernels.push_back(i);
  std::vector<bool> taken(kernels.size());
  // Kernel to examine next, by operation: those before it are taken, or began too early for any later call.
  std::map<StringId, size_t> next;
  for (Collective* c : calls) {
    const std::string_view function = trace.strings[c->name];
    const int64_t enqueued = trace.host.start_ns[c->host.value];
    size_t& at = next[c->name];
    const auto fits = [&](size_t i) {
      return !taken[i] && trace.activity.start_ns[kernels[i]] >= enqueued &&
             may_be(trace.name(ActivityId(kernels[i])), function);
    };
    while (at < kernels.size() && !fits(at)) ++at;
    if (at == kernels.size()) continue;
    taken[at] = true;
    c->activity = ActivityId(kernels[at]);
  }
}

namespace {

/// Fields of the payloads of NCCL's ranges.
struct RangeFields {
  std::optional<uint64_t> communicator, bytes, rank, ranks, peer;
};

RangeFields fields_of(std::string_view arguments) {
  RangeFields out;
  const std::pair<std::string_view, std::optional<uint64_t>*> known[] = {{"NCCL communicator ID", &out.communicator},
                                                                          {"Message size [bytes]", &out.bytes},
                                                                          {"Rank", &out.rank},
                                                                          {"No. of ranks", &out.ranks},
                                                                          {"Peer rank", &out.peer}};
  std::string text = fmt::format("{{{}}}", arguments);
  JsonReader reader = JsonReader::over(text);
  read_object(reader, [&](std::string_view key) {
    std::string_view value;
    if (!reader.raw_value(value)) return false;
    const auto at = std::find_if(std::begin(known), std::end(known), [&](const auto& k) { return k.first == key; });
    if (at != std::end(known)) *at->second = exact_number<uint64_t>(value);
    return true;
  });
  return out;
}

int32_t small(std::optional<uint64_t> number, int32_t otherwise) {
  return number && *number <= INT32_MAX ? static_cast<int32_t>(*number) : otherwise;
}

}  // namespace

NcclCall nccl_call(const wire::CollectiveRow& row, const RecordingFile& file) {
  NcclCall c;
  c.function = file.strings[row.function];
  c.data_type = file.strings[row.data_type];
  if (c.data_type.starts_with("nccl")) c.data_type.remove_prefix(4);
  // Communicators may share a name; NCCL's hash is unique, and equal on all ranks.
  c.group = file.strings[row.communicator_name];
  if (!c.group.empty()) c.group += ' ';
  c.group += fmt::format("{:x}", row.communicator);
  c.ranks = small(row.ranks, INT32_MAX);
  c.rank = row.rank < row.ranks ? small(row.rank, -1) : -1;
  c.peer = row.root_or_peer;
  c.sequence = row.sequence <= INT64_MAX ? static_cast<int64_t>(row.sequence) : -1;
  c.count = row.count <= INT64_MAX ? static_cast<int64_t>(row.count) : -1;
  return c;
}

Collective collective_of(const NcclCall& call, StringPool& strings) {
  Collective c;
  c.name = strings.intern(call.function);
  c.dtype = strings.intern(call.data_type);
  c.group = strings.intern(call.group);
  c.group_size = call.ranks;
  c.group_rank = call.rank;
  const bool send = call.function == "Send", receive = call.function == "Recv";
  if (send) c.destination = call.peer;
  if (receive) c.source = call.peer;
  if (!send && !receive) c.sequence = call.sequence;
  // NCCL's count is for one rank; the larger side of these operations has it once per rank.
  int64_t all = -1;
  if (call.count < 0 || call.ranks == 0 || __builtin_mul_overflow(call.count, int64_t{call.ranks}, &all)) all = -1;
  const bool takes_all = call.function == "AllGather" || call.function == "AlltoAll" || call.function == "Gather";
  const bool gives_all = call.function == "ReduceScatter" || call.function == "AlltoAll" || call.function == "Scatter";
  c.in_elements = receive ? -1 : gives_all ? all : call.count;
  c.out_elements = send ? -1 : takes_all ? all : call.count;
  return c;
}

std::optional<NcclCall> NcclRanges::call_of(std::string_view name, std::string_view arguments) {
  if (name.starts_with("nccl")) name.remove_prefix(4);
  const RangeFields fields = fields_of(arguments);
  if (fields.communicator && fields.ranks) {   // the communicator's creation
    communicators_[*fields.communicator] = {small(fields.rank, -1), small(fields.ranks, 0)};
    return std::nullopt;
  }
  constexpr std::array kFunctions = {"AllGather", "AllReduce", "AlltoAll", "Bcast",         "Broadcast", "Gather",
                                     "Recv",      "Reduce",    "Scatter",  "ReduceScatter", "Send"};
  const auto function = std::find(kFunctions.begin(), kFunctions.end(), name);
  if (function == kFunctions.end() || !fields.bytes) return std::nullopt;
  NcclCall c;
  c.function = name == "Bcast" ? "Broadcast" : *function;
  c.data_type = "byte";
  c.count = *fields.bytes <= INT64_MAX ? static_cast<int64_t>(*fields.bytes) : -1;
  c.peer = small(fields.peer, -1);
  if (!fields.communicator) return c;
  c.group = fmt::format("{:x}", *fields.communicator);
  if (const auto at = communicators_.find(*fields.communicator); at != communicators_.end())
    c.rank = at->second.rank, c.ranks = at->second.ranks;
  return c;
}

}  // namespace profgpu
