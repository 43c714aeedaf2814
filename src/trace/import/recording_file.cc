#include "trace/import/recording_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/decimal.h"
#include "base/secrets.h"
#include "base/text.h"
#include "base/text_source.h"

namespace profgpu {
namespace {

// Two readings differ by the clocks' drift (at most 500 ppm for a disciplined clock) and by interruptions between them.
// A larger difference is a step.
constexpr int64_t kStepNs = 1'000'000;
constexpr double kDrift = 1e-3;
// Rows are near the readings around them in the file; distant segments are irrelevant.
constexpr size_t kNearSegments = 4;

bool plausible(int64_t ns) { return ns > -RecordingClock::kLatest && ns < RecordingClock::kLatest; }

}  // namespace

RecordingClock::RecordingClock(const std::vector<wire::ClockSync>& syncs) {
  assumed_unix_ = std::none_of(syncs.begin(), syncs.end(), [](const auto& s) { return s.device_ns != 0; });
  bool first = true;
  for (size_t i = 0; i < syncs.size(); ++i) {
    const wire::ClockSync& s = syncs[i];
    if (!plausible(s.host_ns) || !plausible(s.unix_ns) || !plausible(s.device_ns)) continue;
    if (first) unix_less_host_ns_ = s.unix_ns - s.host_ns, first_host_ns_ = s.host_ns;
    first = false;
    const int64_t device = assumed_unix_ ? s.unix_ns : s.device_ns;
    if (device == 0) continue;
    const Point p{device, s.host_ns, i};
    if (!points_.empty()) {
      const Point& before = points_.back();
      if (p.device_ns == before.device_ns && p.host_ns == before.host_ns) continue;
      const int64_t host = p.host_ns - before.host_ns, passed = p.device_ns - before.device_ns;
      const bool steady = host >= 0 && passed > 0 &&
                          std::abs(static_cast<double>(host - passed)) <= kStepNs + kDrift * static_cast<double>(host);
      if (!steady) segments_.push_back({points_.size(), points_.size()});
    } else {
      segments_.push_back({0, 0});
    }
    points_.push_back(p);
    segments_.back().end = points_.size();
  }
}

int64_t RecordingClock::on(const Segment& segment, int64_t device_ns) const {
  const auto begin = points_.begin() + static_cast<int64_t>(segment.begin);
  const auto end = points_.begin() + static_cast<int64_t>(segment.end);
  const auto after = std::upper_bound(begin, end, device_ns, [](int64_t t, const Point& p) { return t < p.device_ns; });
  const Point& from = after == begin ? *begin : *std::prev(after);
  const int64_t passed = device_ns - from.device_ns;
  if (after == begin || after == end) return from.host_ns + passed;
  const int64_t host = after->host_ns - from.host_ns, device = after->device_ns - from.device_ns;
  const double rate_less_1 = static_cast<double>(host - device) / static_cast<double>(device);
  return from.host_ns + passed + std::llround(rate_less_1 * static_cast<double>(passed));
}

int64_t RecordingClock::host_ns(int64_t device_ns, size_t syncs_before) const {
  if (points_.empty()) return device_ns;
  if (segments_.size() == 1) return on(segments_.front(), device_ns);
  // Usually, a row is written before the reading that follows it.
  const auto next = std::lower_bound(points_.begin(), points_.end(), syncs_before,
                                     [](const Point& p, size_t n) { return p.sync < n; });
  const size_t point = std::min(static_cast<size_t>(next - points_.begin()), points_.size() - 1);
  const auto holder = std::upper_bound(segments_.begin(), segments_.end(), point,
                                       [](size_t p, const Segment& s) { return p < s.begin; });
  const auto here = static_cast<size_t>(holder - segments_.begin()) - 1;
  const auto distance = [&](const Segment& s) {
    const int64_t low = points_[s.begin].device_ns, high = points_[s.end - 1].device_ns;
    return device_ns < low ? low - device_ns : device_ns > high ? device_ns - high : 0;
  };
  // A row is written after it happened: it is not later than the next reading, and seldom earlier than the one before.
  const auto strangeness = [&](const Segment& s) {
    const int64_t host = on(s, device_ns);
    if (next != points_.end() && host > next->host_ns + kStepNs) return 2;
    return next != points_.begin() && host < std::prev(next)->host_ns ? 1 : 0;
  };
  const auto fit = [&](size_t s) { return std::pair(strangeness(segments_[s]), distance(segments_[s])); };
  size_t best = here;
  for (size_t off = 1; off <= kNearSegments; ++off) {
    if (off <= here && fit(here - off) < fit(best)) best = here - off;
    if (here + off < segments_.size() && fit(here + off) < fit(best)) best = here + off;
  }
  return on(segments_[best], device_ns);
}

namespace {

Status read_bytes(RecordingFile& file) {
  auto opened = open_text(file.path);
  if (!opened) return opened.error();
  TextSource& source = **opened;
  std::string& bytes = file.bytes;
  size_t room = std::max<size_t>(static_cast<size_t>(source.file_bytes()) + 1, 1 << 16);
  while (source.end() == TextSource::End::kOpen) {
    const size_t before = bytes.size();
    bytes.resize(before + room);
    bytes.resize(before + source.read(bytes.data() + before, room));
    room = std::max<size_t>(bytes.size(), 1 << 16);
  }
  if (source.end() == TextSource::End::kUnreadable && bytes.empty()) return Error{file.path + ": " + source.problem()};
  if (source.end() != TextSource::End::kComplete) file.cut_off = source.problem();
  file.file_bytes = source.file_bytes();
  return ok();
}

Status check_state(const std::string& path, const wire::ChunkReader& reader, size_t size) {
  switch (reader.state()) {
    case wire::FileState::kReadable: return ok();
    case wire::FileState::kCut:
      return Error{path + ": ends within the header of a recording, after " + std::to_string(size) + " bytes",
                   "the recorded process was stopped as it began, or the disk was full; record again"};
    case wire::FileState::kTextConverted:
      return Error{path + ": a recording that was copied as text: its line ends are changed and its content with them",
                   "copy it again as binary data"};
    case wire::FileState::kNewer:
      return Error{path + ": a recording of format version " + std::to_string(reader.version()) +
                       "; this profgpu reads up to version " + std::to_string(wire::kFormatVersion),
                   "use the profgpu that recorded it, or a newer one"};
    case wire::FileState::kNotARecording: break;
  }
  return Error{path + ": not a recording"};
}

template <class Row>
bool append(const wire::ChunkView& chunk, std::vector<Row>& rows) {
  const size_t before = rows.size();
  rows.resize(before + chunk.rows());
  if (read_rows(chunk, rows.data() + before)) return true;
  rows.resize(before);
  return false;
}

template <class Row>
bool put_by_id(const wire::ChunkView& chunk, ById<Row>& table, uint32_t most) {
  std::vector<Row> rows;
  if (!append(chunk, rows)) return false;
  for (const Row& row : rows) table.put(row.id, row, most);
  return true;
}

class FileReader {
 public:
  explicit FileReader(RecordingFile& file) : file_(file) {}

  bool take(const wire::ChunkView& chunk) {
    // Small chunks may have more rows than bytes, the file as a whole hardly.
    constexpr size_t kFreeRows = 65'536;
    if (rows_ + chunk.rows() > chunk.offset + chunk.length + kFreeRows) return false;
    rows_ += chunk.rows();
    switch (chunk.kind) {
      case wire::ChunkKind::kEnd: return file_.ended = true;
      case wire::ChunkKind::kStrings:
        return take_strings(chunk);
      case wire::ChunkKind::kProperties: return take_properties(chunk);
      case wire::ChunkKind::kClockSyncs: return append(chunk, file_.syncs);
      case wire::ChunkKind::kThreads: return put_by_id(chunk, file_.threads, wire::kMaxThreads);
      case wire::ChunkKind::kQueues: return put_by_id(chunk, file_.queues, wire::kMaxQueues);
      case wire::ChunkKind::kLaunchShapes: return put_by_id(chunk, file_.shapes, wire::kMaxShapes);
      case wire::ChunkKind::kDevices: return append(chunk, file_.devices);
      case wire::ChunkKind::kPayloadSchemas: return put_by_id(chunk, file_.schemas, wire::kMaxSchemas);
      case wire::ChunkKind::kPayloadFields: return append(chunk, file_.schema_fields);
      case wire::ChunkKind::kPayloads:
        return count(chunk), append(chunk, file_.payloads);
      case wire::ChunkKind::kRangeEvents: return count(chunk), append(chunk, file_.range_events);
      case wire::ChunkKind::kCollectives: return count(chunk), append(chunk, file_.collectives);
      case wire::ChunkKind::kThreadSamples: return count(chunk), append(chunk, file_.thread_samples);
      case wire::ChunkKind::kThreadWaits: return count(chunk), append(chunk, file_.thread_waits);
      case wire::ChunkKind::kDrops: return append(chunk, file_.drops);
      case wire::ChunkKind::kWindows: return append(chunk, file_.windows);
      case wire::ChunkKind::kNotes: return append(chunk, file_.notes);
      case wire::ChunkKind::kKernels:
      case wire::ChunkKind::kCopies:
      case wire::ChunkKind::kSets:
      case wire::ChunkKind::kGraphLaunches: file_.device_rows += chunk.rows(); [[fallthrough]];
      case wire::ChunkKind::kCalls:
      case wire::ChunkKind::kSyncs:
      case wire::ChunkKind::kOverheads:
      case wire::ChunkKind::kAllocations:
        file_.blocks.push_back({chunk, file_.syncs.size()});
        [[fallthrough]];
      case wire::ChunkKind::kExternalIds: return count(chunk), true;
    }
    ++file_.unknown_chunks;
    return true;
  }

 private:
  void count(const wire::ChunkView& chunk) { file_.rows += chunk.rows(); }
  bool take_strings(const wire::ChunkView& chunk) {
    std::vector<wire::StringRef> names;
    if (!append(chunk, names)) return false;
    for (const wire::StringRef& n : names) {
      std::string_view text(n.text, n.length);
      if (std::ranges::any_of(text, [](char c) { return static_cast<signed char>(c) < 0; }))   // most names are ASCII
        if (std::string valid(text); replace_invalid_utf8(valid) > 0) text = file_.mended.emplace_back(std::move(valid));
      file_.strings.put(n.id, text, wire::kMaxStrings);
    }
    return true;
  }
  bool take_properties(const wire::ChunkView& chunk) {
    std::vector<wire::Property> rows;
    if (!append(chunk, rows)) return false;
    for (const wire::Property& p : rows)
      if (p.key != 0) file_.properties[std::string(file_.strings[p.key])] = masked_secrets(file_.strings[p.value]);
    return true;
  }

  RecordingFile& file_;
  size_t rows_ = 0;   // of all chunks so far
};

// `file` has its path and its bytes.
Result<RecordingFile> decoded(RecordingFile file) {
  // Views of the bytes must stay valid when the file moves: not so for short strings, so reserve.
  file.bytes.reserve(64);
  wire::ChunkReader reader(file.bytes.data(), file.bytes.size());
  if (Status status = check_state(file.path, reader, file.bytes.size()); !status) return status.error();
  FileReader rows(file);
  for (wire::ChunkView chunk; reader.next(chunk);) file.bad_chunks += !rows.take(chunk);
  file.damaged_places = reader.damaged_places();
  file.damaged_bytes = reader.damaged_bytes();
  file.torn_bytes = reader.torn_bytes();
  return file;
}

}  // namespace

std::string RecordingFile::property(const std::string& key) const {
  const auto it = properties.find(key);
  return it == properties.end() ? "" : it->second;
}

int64_t RecordingFile::number(const std::string& key) const {
  const auto value = whole_number(property(key));
  return value && *value >= 0 ? *value : -1;
}

bool RecordingFile::of_host() const {
  return property("mode") == "host" || std::string_view(path).ends_with("-host.pgt");
}

std::string RecordingFile::pid() const {
  const int64_t pid = number("pid");
  return pid < 0 ? "0" : std::to_string(pid);
}

bool is_recording(std::string_view head) {
  return head.size() >= 4 && std::equal(wire::kFileMagic, wire::kFileMagic + 4, head.begin(),
                                        [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); });
}

Result<RecordingFile> open_recording(const std::string& path) {
  RecordingFile file;
  file.path = path;
  if (Status status = read_bytes(file); !status) return status.error();
  return decoded(std::move(file));
}

Result<RecordingFile> recording_of(std::string bytes, const std::string& path) {
  RecordingFile file;
  file.path = path;
  file.file_bytes = static_cast<int64_t>(bytes.size());
  file.bytes = std::move(bytes);
  return decoded(std::move(file));
}

}  // namespace profgpu
