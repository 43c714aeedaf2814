// What PyTorch's profiler exports of memory by category over time: torch.profiler.profile.export_memory_timeline() to
// FILE.json and FILE.raw.json.gz, from PyTorch 2.0 on.
//
// FILE.json is [times, rows]: microseconds, and for each of them 0 and the bytes of each category. FILE.raw.json.gz is
// a list of [time in nanoseconds, action, bytes, category]: what is freed has negative bytes. -1 stands for the time of
// what was there before. Neither says of which device it is.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/whole_text.h"
#include "trace/memory_snapshot.h"

namespace profgpu {
namespace {

using Integers = std::vector<int64_t>;
constexpr size_t kTimelineCategories = CategoryTimeline::kCategories;
constexpr int64_t kMaxLevel_bytes = int64_t{1} << 50, kMaxTimelineTime_ns = int64_t{1} << 62;
constexpr int64_t kBeforeProfile = -1;
constexpr size_t kRawRow = 4;

bool read_integers(JsonReader& reader, Integers& out) {
  out.clear();
  return read_array(reader, [&] {
    std::string_view raw;
    if (!reader.raw_value(raw)) return false;
    const auto value = exact_number<int64_t>(raw);
    if (value) out.push_back(*value);
    return value.has_value();
  });
}

class TimelineReader {
 public:
  explicit TimelineReader(JsonReader& reader) : reader_(reader) {}

  /// Up to where the text is malformed or ends.
  bool read() {
    size_t lists = 0;
    Integers numbers;
    return read_array(reader_, [&] {
      if (++lists == 2 && is_list_of_lists()) return read_array(reader_, [&] { return row(numbers); });
      if (lists == 2 && !event(times_)) return false;
      return read_integers(reader_, lists == 1 ? times_ : numbers) && (lists == 1 || event(numbers));
    }) && (lists != 1 || times_.empty() || event(times_));
  }

  CategoryTimeline timeline;
  int64_t events = 0, out_of_range = 0;

 private:
  bool is_list_of_lists() {
    if (reader_.peek() != '[') return false;
    JsonReader within(reader_.position() + 1, reader_.end());
    return within.peek() == '[' || within.peek() == ']';
  }

  // Of FILE.json: 0 and the categories, at the next of the times.
  bool row(Integers& numbers) {
    if (!read_integers(reader_, numbers) || numbers.size() != kTimelineCategories + 1) return false;
    if (static_cast<size_t>(events) >= times_.size()) return false;
    for (size_t c = 0; c < kTimelineCategories; ++c) level_[c] = numbers[c + 1];
    const int64_t time_us = times_[static_cast<size_t>(events++)];
    add(time_us < kMaxTimelineTime_ns / 1000 ? std::max<int64_t>(time_us, 0) * 1000 : kMaxTimelineTime_ns);
    return true;
  }

  bool event(const Integers& numbers) {
    if (numbers.size() != kRawRow) return false;
    const auto category = static_cast<size_t>(numbers[3]);   // of a negative number a huge one
    if (category >= kTimelineCategories) return false;
    ++events;
    if (numbers[2] < -kMaxLevel_bytes || numbers[2] > kMaxLevel_bytes) ++out_of_range;
    else level_[category] = std::clamp(level_[category] + numbers[2], -kMaxLevel_bytes, kMaxLevel_bytes);
    add(numbers[0]);
    return true;
  }

  // What happens at one time happens at once: a tensor that changes its category is never counted twice or not at all.
  void add(int64_t time_ns) {
    if (time_ns < kBeforeProfile || time_ns >= kMaxTimelineTime_ns) ++out_of_range, time_ns = kBeforeProfile;
    std::array<int64_t, kTimelineCategories> bytes = level_;
    for (int64_t& b : bytes) {
      if (b >= 0 && b <= kMaxLevel_bytes) continue;
      ++out_of_range;
      b = 0;
    }
    if (!timeline.time_ns.empty() && timeline.time_ns.back() == time_ns) {
      timeline.bytes.back() = bytes;
      return;
    }
    timeline.time_ns.push_back(time_ns);
    timeline.bytes.push_back(bytes);
  }

  JsonReader& reader_;
  Integers times_;   // of FILE.json; else the first event
  std::array<int64_t, kTimelineCategories> level_{};
};

// "[[" and numbers, as Python writes them: then four of them and no more, or many and lists of lists.
bool may_be_timeline(std::string_view head) {
  if (!head.starts_with("[[")) return false;
  if (without_blanks(head) == "[[], []]") return true;
  constexpr std::string_view kAllowed = "-0123456789, []";
  if (head.find_first_not_of(kAllowed) != head.npos && without_blanks(head).find_first_not_of(kAllowed) != head.npos)
    return false;
  const size_t end = head.find(']');
  const auto commas = std::count(head.begin(), head.begin() + static_cast<ptrdiff_t>(std::min(end, head.size())), ',');
  if (end == head.npos) return commas >= static_cast<ptrdiff_t>(kRawRow);   // of times
  const std::string_view rest = head.substr(end + 1);
  if (rest.starts_with(", [[0, ")) return true;
  return commas == kRawRow - 1 && (rest.starts_with(", [") || rest.starts_with("]"));
}

// What was there before the first known time was so then.
void settle_times(CategoryTimeline& timeline) {
  const auto known = std::ranges::find_if(timeline.time_ns, [](int64_t t) { return t > 0; });
  const int64_t first = known == timeline.time_ns.end() ? 0 : *known;
  std::replace_if(
      timeline.time_ns.begin(), timeline.time_ns.end(), [](int64_t t) { return t < 0; }, first);
}

Result<Trace> read_timeline(const std::string& path, const ImportOptions& options) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  const auto size = static_cast<int64_t>(text->size());
  JsonReader json = JsonReader::over(*text);
  TimelineReader reader(json);
  const bool whole = reader.read() && !broken;
  if (options.progress) options.progress(size, size);
  if (!whole && !json.at_end() && !broken)
    return Error{fmt::format("{}: not a memory timeline of PyTorch's profiler: malformed after {} events", path,
                             format_count(reader.events))};
  if (reader.events == 0)
    return Error{
        path + (whole ? ": a memory timeline without events" : ": ends before anything of the memory timeline"),
        "export_memory_timeline(FILE, device=\"cuda:0\") exports one device; it must be the one that was used"};
  settle_times(reader.timeline);
  MemorySnapshot snapshot;
  snapshot.path = path;
  snapshot.cut = !whole;
  const auto [first, last] = std::ranges::minmax(reader.timeline.time_ns);
  snapshot.first_us = first / 1000, snapshot.last_us = last / 1000;
  snapshot.timeline = std::move(reader.timeline);
  Trace trace;
  trace.events = reader.events;
  trace.windows = {{first, last}};
  trace.snapshots = {std::make_shared<const MemorySnapshot>(std::move(snapshot))};
  trace.cut_off = !whole;
  if (!whole)
    trace.issues.push_back(
        {TraceIssueKind::kTruncated, 1,
         fmt::format("{} ends early: {} events of it could be read; the peak is of these alone", path,
                     format_count(reader.events))});
  if (reader.out_of_range > 0)
    trace.issues.push_back({TraceIssueKind::kOutOfRange, reader.out_of_range,
                            fmt::format("sizes and times that no device has: {}; they count as 0 or not known",
                                        reader.out_of_range)});
  return trace;
}

}  // namespace

extern const Importer kTorchMemoryTimeline = {
    "memory-timeline",
    "PyTorch memory timeline",
    "memory by category over time, by torch.profiler.profile.export_memory_timeline(), as .json or .raw.json.gz",
    "timeline.json, timeline.raw.json.gz",
    may_be_timeline,
    read_timeline};

}  // namespace profgpu
