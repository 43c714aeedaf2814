// Kineto's JSON is one object with a long array of events, or that array alone. It is read in windows of a
// quarter megabyte, each cut where an event seems to start, so that windows are parsed side by side while the next one
// is read or inflated. Where a cut turns out to be wrong the file is read again in order, each window carrying over
// what it could not finish.
//
// Budget: the text is looked at once; resident memory is the rows plus a few windows.
#include "trace/import/kineto.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/text.h"
#include "base/text_source.h"
#include "trace/import/kineto_event.h"
#include "trace/import/kineto_merged.h"
#include "trace/import/kineto_window.h"
#include "trace/import/said_issues.h"

namespace profgpu {
namespace {

// Our own documents are JSON as well.
Error without_events(const std::string& path, std::string_view head) {
  const size_t at = head.substr(0, 400).find("\"profgpu.");
  if (at == head.npos || !contains(head.substr(0, at), "\"schema\""))
    return {path + ": JSON, but without an array \"traceEvents\" that can be read",
            "`profgpu formats` lists what it reads"};
  const std::string_view schema = head.substr(at + 1, head.find('"', at + 1) - at - 1);
  const bool bench = schema.starts_with("profgpu.bench."), report = schema.starts_with("profgpu.analysis.");
  return {fmt::format("{}: no trace, but {} ({})", path,
                      bench    ? "a result of profgpu bench"
                      : report ? "a report that profgpu wrote"
                               : "a document that profgpu wrote",
                      schema.substr(0, 40)),
          bench    ? "profgpu bench --saved " + path
          : report ? "profgpu diff " + path + " AFTER compares it with another run"
                   : "name the trace, or the folder of the recording"};
}

constexpr size_t kLongestHeader = 64 << 20;
// The field that our own export puts into a file of several ranks.
constexpr std::string_view kMergedRanks = "profgpu_merged_ranks";

/// How far the events could be read.
struct ReadState {
  bool wrong_cut = false;
  bool array_closed = false;   // the `]` after the events was there
  bool closed = false;         // and so was the end of the whole text
  int64_t damaged = 0;
  int64_t text_bytes = 0;
};

// Reads fields from `reader` into the trace until the array of events begins. True if it was found.
bool read_header(JsonReader& reader, Trace& trace) {
  if (reader.take('[')) return true;
  if (!reader.take('{') || reader.peek() == '}') return false;
  for (;;) {
    JsonString key;
    if (!reader.string(key) || !reader.take(':')) return false;
    if (key.raw == "traceEvents" && reader.take('[')) return true;
    std::string_view raw;
    if (!reader.raw_value(raw)) return false;
    read_kineto_field(key.raw, raw, trace);
    if (!reader.take(',')) return false;
  }
}

// Fields after the events: `, "traceName": ... }`. Reads what is whole; true if the object is closed.
bool read_tail(std::string& text, bool object, Trace& trace) {
  JsonReader reader = JsonReader::over(text);
  if (!object) return true;
  for (;;) {
    if (reader.take('}')) return true;
    if (!reader.take(',')) return false;
    JsonString key;
    std::string_view raw;
    if (!reader.string(key) || !reader.take(':') || !reader.raw_value(raw)) return false;
    read_kineto_field(key.raw, raw, trace);
  }
}

bool is_object(std::string_view head) {
  const size_t i = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return i != head.npos && head[i] == '{';
}

/// Reads one file: header, windows of events, tail.
class KinetoReader {
 public:
  KinetoReader(const std::string& path, const ImportOptions& options) : path_(path), options_(options) {}

  Result<Trace> read() {
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const int threads = std::clamp(options_.threads > 0 ? options_.threads : cores, 1, 8);
    auto builder = std::make_unique<TraceBuilder>();
    Status status = read_file(*builder, threads);
    if (status && reading_.wrong_cut) {
      builder = std::make_unique<TraceBuilder>();
      reading_ = {};
      status = read_file(*builder, 0);
    }
    if (!status) return status.error();
    return finish(*builder, threads);
  }

 private:
  [[nodiscard]] const MergedRank* merged() const { return options_.merged ? &*options_.merged : nullptr; }
  Status read_file(TraceBuilder& builder, int threads);
  Status find_events(Window& window, Trace& header);
  void fill(Window& window, size_t room);
  bool next_window(Window& rest, Window& window);
  void read_beside(TraceBuilder& builder, int threads, Window& rest);
  void read_in_order(TraceBuilder& builder, Window& window);
  void end_of_events(const WindowResult& result, const Window& window, Trace& header);
  void report_progress();
  Result<Trace> finish(TraceBuilder& builder, int threads);
  void add_issues(Trace& trace, const IssueCounts& counts) const;
  void add_unknown_rows(Trace& trace, const IssueCounts& counts) const;

  const std::string& path_;
  const ImportOptions& options_;
  std::unique_ptr<TextSource> source_;
  ReadState reading_;
  bool object_ = false;
  int64_t unknown_ns_ = 0;   // of rows of kinds that are not known
  std::vector<std::pair<std::string, int64_t>> unknown_kinds_;
};

Status KinetoReader::read_file(TraceBuilder& builder, int threads) {
  auto opened = open_text(path_);
  if (!opened) return opened.error();
  source_ = *std::move(opened);
  Window window;
  if (Status found = find_events(window, builder.header()); !found) return found;
  // One window is not worth a thread.
  if (threads == 0 || source_->end() != TextSource::End::kOpen) {
    read_in_order(builder, window);
  } else {
    read_beside(builder, threads, window);
  }
  return ok();
}

// Fills `window` until the array of events begins, and drops what came before.
Status KinetoReader::find_events(Window& window, Trace& header) {
  for (size_t room = kWindowBytes;; room *= 2) {
    window.fill(*source_, room);
    object_ = is_object({window.begin(), window.size()});
    JsonReader reader(window.begin(), window.end());
    if (std::string_view(window.begin(), window.size()).starts_with("\xEF\xBB\xBF")) reader.seek(window.begin() + 3);
    header = Trace();
    if (read_header(reader, header)) {
      reading_.text_bytes = static_cast<int64_t>(window.size());
      window.drop_front(static_cast<size_t>(reader.position() - window.begin()));
      return ok();
    }
    const bool open = source_->end() == TextSource::End::kOpen;
    if (reader.at_end() && open && room < kLongestHeader) continue;
    if (reader.at_end() && !open)
      return Error{path_ + ": ends before its first event, after " + std::to_string(window.size()) + " bytes of text",
                   "the profiled process was probably stopped while it wrote; record again"};
    return without_events(path_, {window.begin(), window.size()});
  }
}

void KinetoReader::report_progress() {
  if (options_.progress) options_.progress(source_->file_bytes_read(), source_->file_bytes());
}

void KinetoReader::fill(Window& window, size_t room) {
  const size_t before = window.size();
  window.fill(*source_, room);
  reading_.text_bytes += static_cast<int64_t>(window.size() - before);
}

// Moves the next whole events into `window`, and what follows them into `rest`. True if no text follows.
bool KinetoReader::next_window(Window& rest, Window& window) {
  report_progress();
  std::swap(rest, window);
  for (size_t room = kWindowBytes;; room *= 2) {
    fill(window, room);
    const bool last = source_->end() != TextSource::End::kOpen;
    size_t cut = last ? window.size() : window.last_event();
    if (cut == 0 && !last) {
      if (room < kLongestEvent) continue;
      cut = window.size();   // not whole: the file will be read again in order
    }
    rest.assign(window.begin() + cut, window.end());
    window.truncate(cut);
    return last;
  }
}

// Threads take turns to read the next window, and parse it outside their turn: its text is still in their core's cache.
void KinetoReader::read_beside(TraceBuilder& builder, int threads, Window& rest) {
  std::mutex turn;   // guards the rest and all of this reader
  uint32_t order = 0;
  bool over = false;
  const auto work = [&](Shard& shard) {
    KinetoEvents events(shard, merged());
    Window window;
    std::unique_lock lock(turn);
    while (!over) {
      const bool last = over = next_window(rest, window);
      const uint32_t piece = order++;
      lock.unlock();
      shard.begin_piece(piece);
      const WindowResult result = parse_window(events, window, last);
      lock.lock();
      reading_.damaged += result.damaged;
      if (last) {
        end_of_events(result, window, builder.header());
      } else if (result.end != WindowResult::End::kAllRead) {
        reading_.wrong_cut = over = true;
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, std::ref(builder.shard()));
  work(builder.shard());
  for (std::thread& t : others) t.join();
}

void KinetoReader::read_in_order(TraceBuilder& builder, Window& window) {
  KinetoEvents events(builder.shard(), merged());
  size_t room = kWindowBytes;
  for (;;) {
    report_progress();
    fill(window, room);
    // An event that does not end within the longest allowed is damage; parsing as if the text ended finds the next.
    const bool last = source_->end() != TextSource::End::kOpen || window.size() >= kLongestEvent;
    const WindowResult result = parse_window(events, window, last);
    reading_.damaged += result.damaged;
    if (result.end == WindowResult::End::kArrayEnd || source_->end() != TextSource::End::kOpen)
      return end_of_events(result, window, builder.header());
    room = result.offset == 0 ? std::min(window.size() * 2, kLongestEvent) : kWindowBytes;
    if (result.offset == 0 && last) {
      window.truncate(0);
      ++reading_.damaged;
      continue;
    }
    window.drop_front(result.offset);
  }
}

void KinetoReader::end_of_events(const WindowResult& result, const Window& window, Trace& header) {
  if (result.end != WindowResult::End::kArrayEnd) return;
  reading_.array_closed = true;
  std::string tail(window.begin() + result.offset + 1, window.end());
  while (source_->end() == TextSource::End::kOpen && tail.size() < kLongestHeader) {
    const size_t size = tail.size();
    tail.resize(size + kWindowBytes);
    tail.resize(size + source_->read(tail.data() + size, kWindowBytes));
  }
  reading_.closed = read_tail(tail, object_, header);
}

void KinetoReader::add_issues(Trace& trace, const IssueCounts& counts) const {
  const bool small = reading_.text_bytes < 1'000'000;
  const std::string extent = fmt::format("after {:.1f} {} of text ({} events)",
                                         static_cast<double>(reading_.text_bytes) / (small ? 1e3 : 1e6),
                                         small ? "kB" : "MB", format_count(trace.events));
  using End = TextSource::End;
  const End end = source_->end();
  if (end == End::kTruncated || end == End::kDamaged || end == End::kUnreadable) {
    const auto kind = end == End::kTruncated ? TraceIssueKind::kTruncated : TraceIssueKind::kDamaged;
    trace.issues.push_back({kind, 1, path_ + " " + (end == End::kUnreadable ? "cannot be read further: " : "") +
                                         source_->problem() + ", " + extent});
  } else if (!reading_.closed) {
    trace.issues.push_back({TraceIssueKind::kTruncated, 1,
                            path_ + (reading_.array_closed ? " ends in the fields that follow its events, "
                                                           : " ends in the middle of its events, ") + extent});
  }
  add_count(trace, TraceIssueKind::kDamaged, reading_.damaged,
            "damaged places in the text, skipped with the events around them: {}");
  add_counts(trace, counts,
             {{TraceIssueKind::kNegativeDuration, "records left out because their duration is negative: {}"},
              {TraceIssueKind::kOutOfRange, "records left out because a time or device number is out of range: {}"},
              {TraceIssueKind::kInvalidText,
               "names that are not valid UTF-8: {}; the bytes that are not are shown as \uFFFD"},
              {TraceIssueKind::kHardwareCounters, "rows of hardware counters, which are not read: {}"},
              {TraceIssueKind::kOther, "rows left out because their process has no rank's label: {}"}});
  add_unknown_rows(trace, counts);
}

// How much is missing: of the rows, and of the time that they add up to, as far as they state it.
void KinetoReader::add_unknown_rows(Trace& trace, const IssueCounts& counts) const {
  const auto unknown = counts.find(TraceIssueKind::kUnknownRows);
  if (unknown == counts.end() || unknown->second == 0) return;
  const double rows = static_cast<double>(trace.host.size() + trace.activity.size());
  double known_ns = 0;
  for (const auto* durations : {&trace.host.duration_ns, &trace.activity.duration_ns})
    for (const int64_t ns : *durations) known_ns += static_cast<double>(ns);
  const auto count = static_cast<double>(unknown->second), ns = static_cast<double>(unknown_ns_);
  std::string share = fmt::format("{:.3g} % of all", 100 * count / (rows + count));
  if (ns > 0) share += fmt::format(", and {:.3g} % of the time that all add up to", 100 * ns / (known_ns + ns));
  trace.unread_pct = std::max(100 * count / (rows + count), ns > 0 ? 100 * ns / (known_ns + ns) : 0);
  constexpr size_t kNamed = 3;
  std::string kinds;
  for (size_t i = 0; i < std::min(unknown_kinds_.size(), kNamed); ++i)
    append_listed(kinds, unknown_kinds_[i].first.empty() ? "(no category)" : unknown_kinds_[i].first);
  if (unknown_kinds_.size() > kNamed) append_listed(kinds, "…");
  trace.issues.push_back({TraceIssueKind::kUnknownRows, unknown->second,
                          fmt::format("rows left out because profgpu does not know their kind: {} ({}){}",
                                      format_count(unknown->second), share, kinds.empty() ? "" : ": " + kinds)});
}

// Another tool's timeline: nothing of it is PyTorch's but the format.
bool is_of_another_tool(const Trace& trace, const IssueCounts& counts) {
  constexpr double kMuch_pct = 25;
  constexpr std::string_view kFields[] = {"schemaVersion", "baseTimeNanoseconds", "record_shapes", "trace_id"};
  const auto is_kinetos = [&](const auto& field) { return std::ranges::count(kFields, field.first) > 0; };
  const bool of_kineto = !trace.devices.empty() || trace.base_time_ns != 0 ||
                         std::ranges::any_of(trace.metadata, is_kinetos);
  const bool unread = counts.contains(TraceIssueKind::kUnknownRows);
  return !of_kineto && unread && (trace.activity.size() == 0 || trace.unread_pct >= kMuch_pct);
}

Result<Trace> KinetoReader::finish(TraceBuilder& builder, int threads) {
  IssueCounts counts = builder.issue_counts();
  unknown_ns_ = builder.unknown_ns();
  unknown_kinds_ = builder.unknown_kinds();
  Trace trace = builder.finish(threads);
  if (options_.merged) {   // what the file says beside its events is of one of its ranks
    trace.distributed.rank = options_.merged->rank;
    trace.distributed.world_size = std::max(trace.distributed.world_size.value_or(0), options_.merged->ranks);
    trace.metadata.emplace_back("rank_label", options_.merged->label);
  }
  const auto merged = std::find_if(trace.metadata.begin(), trace.metadata.end(),
                                   [](const auto& m) { return m.first == kMergedRanks; });
  if (merged != trace.metadata.end())
    return Error{path_ + ": a timeline of " + merged->second + " ranks in one file, made for viewers",
                 "give the traces that it was made of"};
  if (trace.events == 0 && trace.issues.empty() && reading_.damaged == 0)
    return Error{path_ + ": a trace without any events", "record for longer, or check the profiler's schedule"};
  if (trace.host.size() + trace.activity.size() == 0)
    return Error{path_ + ": none of its events could be used" +
                     (reading_.damaged > 0 ? " (the text is damaged)" : ""),
                 "`profgpu formats` lists what it reads"};
  add_issues(trace, counts);
  if (is_of_another_tool(trace, counts)) trace.recorder = Recorder::kOther;
  return trace;
}

bool sniff_kineto(std::string_view head) {
  const size_t i = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (i == head.npos || (head[i] != '{' && head[i] != '[')) return false;
  // Lines of logs begin so as well, with a time or a Python dict.
  const size_t next = head.find_first_not_of(" \t\r\n", i + 1);
  return next == head.npos || (head[i] == '{' ? head[next] == '"' || head[next] == '}'
                                              : head[next] == '{' || head[next] == ']');
}

Peek peek_kineto(std::string_view head) {
  if (!labels_in(head).empty()) return {{}, true};
  const size_t info = head.find("\"distributedInfo\"");
  if (info == head.npos) return {};
  const size_t key = head.find("\"rank\"", info);
  if (key == head.npos || key - info > 512) return {};
  size_t i = head.find_first_not_of(": \"", key + 6);
  int rank = 0;
  size_t digits = 0;
  for (; i < head.size() && is_digit(head[i]) && digits < 7; ++i, ++digits) rank = rank * 10 + (head[i] - '0');
  return {digits > 0 ? std::optional(rank) : std::nullopt, false};
}

Result<Trace> read_kineto(const std::string& path, const ImportOptions& options) {
  return KinetoReader(path, options).read();
}

}  // namespace

const Importer kKineto = {
    "kineto", "PyTorch trace", "PyTorch profiler trace (Kineto's Chrome JSON), plain, gzip or zstd",
    "worker0.pt.trace.json, trace.json.gz, trace.json.zst", sniff_kineto, read_kineto, peek_kineto,
    merged_kineto_ranks};

}  // namespace profgpu
