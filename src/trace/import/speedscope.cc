// speedscope's JSON (speedscope.app/file-format-schema.json), as py-spy and other samplers write it: a profile for each
// thread, with a stack and a weight for each sample, or with frames that open and close.
//
// Times of py-spy count from where it began, which the file does not say: beside a trace, it is taken to have ended
// when the file was written.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/host_profile.h"
#include "trace/import/importer.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr size_t kMaxSpeedscopeDepth = 4096;

/// One profile of the file, as its text has it.
struct SpeedscopeProfile {
  std::string name, unit;
  string_view start, samples, weights, events;
  bool evented = false;
};

/// "26531" and "MainThread" of 'Thread 26531 "MainThread"'; the number may be hexadecimal, "0x7F01".
std::pair<std::string, std::string> thread_in(string_view name, size_t place) {
  constexpr string_view kThread = "hread ";
  const string_view head = name.substr(0, name.find('"'));
  const size_t at = head.rfind(kThread);
  std::string id;
  if (at != head.npos && at + kThread.size() < head.size() && is_digit(head[at + kThread.size()]))
    for (const char c : head.substr(at + kThread.size())) {
      if (!is_digit(c) && !is_letter(c)) break;
      id += c;
    }
  const size_t open = name.find('"'), close = name.rfind('"');
  std::string shown(open != name.npos && close > open ? name.substr(open + 1, close - open - 1) : name);
  return {id.empty() ? std::to_string(place) : id, shown};
}

class SpeedscopeReader {
 public:
  explicit SpeedscopeReader(Shard& shard) : shard_(shard) {}

  /// False: the text is cut, or no JSON.
  bool read(std::string& text) {
    JsonReader reader = JsonReader::over(text);
    std::vector<string_view> profiles;
    const bool whole = read_object(reader, [&](string_view key) {
      if (key == "shared") return read_shared(reader);
      if (key == "exporter" && reader.peek() == '"') return string(reader, exporter);
      if (key != "profiles") return reader.skip_value();
      return read_array(reader, [&] {
        string_view raw;
        if (!reader.raw_value(raw)) return false;
        profiles.push_back(raw);
        return true;
      });
    });
    for (const string_view raw : profiles) read_profile(raw);   // frames come before them or after
    return whole;
  }

  std::string exporter;
  int64_t other_units = 0, beyond = 0;

 private:
  bool string(JsonReader& reader, std::string& out) {
    JsonString token;
    if (!reader.string(token)) return reader.skip_value();
    out = unescaped(token, shard_.issues[TraceIssueKind::kInvalidText]);
    return true;
  }
  bool read_shared(JsonReader& reader) {
    return read_object(reader, [&](string_view key) {
      if (key != "frames") return reader.skip_value();
      return read_array(reader, [&] {
        std::string name, file;
        int64_t line = 0;
        const bool good = read_object(reader, [&](string_view field) {
          if (field == "name") return string(reader, name);
          if (field == "file") return string(reader, file);
          string_view raw;
          if (!reader.raw_value(raw)) return false;
          if (field == "line") line = whole_number(raw).value_or(0);
          return true;
        });
        frames_.push_back(shard_.strings.intern(name.empty() ? "(no name)" : frame_name(name, file, line)));
        return good;
      });
    });
  }

  void read_profile(string_view raw) {
    SpeedscopeProfile p;
    JsonReader reader(raw.data(), raw.data() + raw.size());
    read_object(reader, [&](string_view key) {
      if (key == "name") return string(reader, p.name);
      if (key == "unit") return string(reader, p.unit);
      string_view value;
      if (!reader.raw_value(value)) return false;
      if (key == "startValue") p.start = value;
      if (key == "samples") p.samples = value;
      if (key == "weights") p.weights = value;
      if (key == "events") p.events = value, p.evented = true;
      return true;
    });
    constexpr std::pair<string_view, int> kUnits[] = {{"seconds", 9}, {"milliseconds", 6}, {"microseconds", 3},
                                                      {"nanoseconds", 0}};
    const auto unit = std::ranges::find(kUnits, p.unit, &std::pair<string_view, int>::first);
    if (unit == std::end(kUnits)) return void(++other_units);   // bytes, or none
    scale_ = unit->second;
    const auto [id, shown] = thread_in(p.name, next_++);
    thread_ = static_cast<uint16_t>(shard_.thread("0", id));
    shard_.name_thread("0", id, shown);
    open_.clear();
    if (p.evented) read_events(p.events);
    else read_samples(p);
  }

  [[nodiscard]] std::optional<int64_t> time(string_view text) const {
    const auto ns = scaled_decimal(text, scale_);
    return ns && *ns >= 0 && *ns < INT64_MAX / 4 ? ns : std::nullopt;
  }

  // Frames stay open while successive samples have them; the innermost one is a range for each sample.
  void read_samples(const SpeedscopeProfile& p) {
    std::vector<int64_t> weights;
    JsonReader weight_reader(p.weights.data(), p.weights.data() + p.weights.size());
    read_array(weight_reader, [&] {
      string_view raw;
      if (!weight_reader.raw_value(raw)) return false;
      weights.push_back(time(raw).value_or(0));
      return true;
    });
    int64_t now = time(p.start).value_or(0);
    size_t sample = 0;
    std::vector<uint32_t> stack;
    JsonReader reader(p.samples.data(), p.samples.data() + p.samples.size());
    read_array(reader, [&] {
      stack.clear();
      const bool good = read_array(reader, [&] {
        string_view raw;
        if (!reader.raw_value(raw)) return false;
        const auto frame = whole_number(raw);
        if (!frame || *frame < 0 || static_cast<size_t>(*frame) >= frames_.size())
          ++shard_.issues[TraceIssueKind::kOutOfRange];
        else if (stack.size() < kMaxSpeedscopeDepth) stack.push_back(static_cast<uint32_t>(*frame));
        return true;
      });
      const int64_t weight = sample < weights.size() ? weights[sample] : 0;
      ++sample, ++shard_.events;
      take_sample(stack, now);
      if (__builtin_add_overflow(now, weight, &now) || now >= INT64_MAX / 4) return false;
      return good;
    });
    close_to(0, now);
  }
  void take_sample(const std::vector<uint32_t>& stack, int64_t now) {
    size_t same = 0;
    while (same < stack.size() && same < open_.size() && open_[same].frame == stack[same]) ++same;
    if (same == stack.size() && same > 0) --same;
    close_to(same, now);
    for (size_t i = same; i < stack.size(); ++i) open_.push_back({stack[i], now});
  }

  void read_events(string_view events) {
    JsonReader reader(events.data(), events.data() + events.size());
    int64_t last = 0;
    read_array(reader, [&] {
      std::string type;
      string_view at, frame;
      const bool good = read_object(reader, [&](string_view key) {
        if (key == "type") return string(reader, type);
        string_view raw;
        if (!reader.raw_value(raw)) return false;
        if (key == "at") at = raw;
        if (key == "frame") frame = raw;
        return true;
      });
      ++shard_.events;
      const auto when = time(at);
      const auto which = whole_number(frame);
      if (!when || *when < last || !which || *which < 0 || static_cast<size_t>(*which) >= frames_.size())
        return ++shard_.issues[TraceIssueKind::kOutOfRange], good;
      last = *when;
      if (type == "O" && open_.size() < kMaxSpeedscopeDepth)
        open_.push_back({static_cast<uint32_t>(*which), last});
      if (type == "C") {
        // Frames within it that were never closed end with it.
        const auto found = std::find_if(open_.rbegin(), open_.rend(), [&](const Open& o) {
          return o.frame == static_cast<uint32_t>(*which);
        });
        if (found != open_.rend()) close_to(static_cast<size_t>(open_.rend() - found) - 1, last);
      }
      return good;
    });
    close_to(0, last);
  }

  void close_to(size_t depth, int64_t now) {
    for (; open_.size() > depth; open_.pop_back()) {
      constexpr size_t kMaxRows = 100'000'000;
      HostRow row;
      row.start_ns = open_.back().start_ns;
      row.duration_ns = now - row.start_ns;
      row.name = frames_[open_.back().frame];
      row.kind = HostKind::kPython;
      row.thread = thread_;
      if (row.duration_ns >= kLongestNs) ++shard_.issues[TraceIssueKind::kOutOfRange];
      else if (shard_.host.size() < kMaxRows) shard_.host.push_back(row);
      else ++beyond;
    }
  }

  struct Open {
    uint32_t frame;
    int64_t start_ns;
  };
  Shard& shard_;
  std::vector<StringId> frames_;
  std::vector<Open> open_;
  uint16_t thread_ = 0;
  size_t next_ = 0;
  int scale_ = 9;
};

bool sniff_speedscope(string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return begin != head.npos && head[begin] == '{' && contains(head, "speedscope.app/file-format-schema.json");
}

Result<Trace> read_speedscope(const std::string& path, const ImportOptions& options) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  TraceBuilder builder;
  builder.header().recorder = Recorder::kOther;
  SpeedscopeReader reader(builder.shard());
  const bool complete = reader.read(*text) && !broken;
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(options.threads);
  if (trace.host.size() == 0)
    return Error{path + ": a speedscope profile without samples in a unit of time" +
                     (complete ? "" : " (the file is damaged)"),
                 "py-spy record --format speedscope -o profile.json --pid PID"};
  if (!reader.exporter.empty()) trace.metadata.emplace_back("exporter", reader.exporter.substr(0, 200));
  if (!complete) add_cut(trace);
  add_counts(trace, counts,
             {{TraceIssueKind::kOutOfRange, "frames or times that are not in range: {}"},
              {TraceIssueKind::kInvalidText, "names that are not valid UTF-8: {}"}});
  add_count(trace, TraceIssueKind::kUnknownRows, reader.other_units,
            "profiles that do not measure time, which are not read: {}");
  add_count(trace, TraceIssueKind::kOutOfRange, reader.beyond, "frames beyond the most that are read: {}");
  return trace;
}

TraceIssue join_speedscope(const Trace& own, const std::string& path, Trace& other) {
  if (own.windows.empty() || other.windows.empty())
    return {TraceIssueKind::kOther, 0, "there is no time in it, or in the trace beside it: it was not used"};
  const Interval took = own.windows.front();
  const Interval window{other.windows.front().start + other.base_time_ns,
                        other.windows.back().end + other.base_time_ns};
  const bool absolute = is_unix_time(took.start);
  const int64_t written = written_ns(path);
  if (!is_unix_time(window.start) || (!absolute && written == 0))
    return {TraceIssueKind::kOther, 0,
            "its samples have no time of day, or the trace beside it has none: it was not used"};
  const int64_t to_unix = absolute ? 0 : written - took.end;
  if (took.start + to_unix >= window.end || took.end + to_unix <= window.start)
    return {TraceIssueKind::kOther, 0,
            absolute ? "it was taken at another time than the trace beside it: it was not used"
                     : "the file was written at another time than the trace beside it: it was not used. Copies must "
                       "keep the time of the file (cp -p)"};
  const int64_t same = add_stacks(own, to_unix - other.base_time_ns, other);
  const auto threads = std::ranges::count_if(own.threads, [](const Thread& t) { return t.begin < t.end; });
  return {TraceIssueKind::kNote, own.events,
          fmt::format("stacks of {} threads, {} of them in the trace beside it, joined by {}", threads, same,
                      absolute ? "their times"
                               : "the time at which the file was written, which can be off by a second")};
}

}  // namespace

extern const Importer kSpeedscope = {.name = "speedscope",
                                     .noun = "stack profile",
                                     .summary = "speedscope JSON of py-spy and other samplers, alone or beside a trace",
                                     .examples = "profile.speedscope.json, py-spy.json",
                                     .sniff = sniff_speedscope,
                                     .read = read_speedscope,
                                     .join = join_speedscope};

}  // namespace profgpu
