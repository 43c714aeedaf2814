#include "watch/live/recording_summary.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/decimal.h"
#include "base/descriptor.h"
#include "devices/system_files.h"
#include "record/wire/chunk_reader.h"
#include "record/wire/rows.h"

namespace profgpu {
namespace {

template <class Row>
std::vector<Row> rows_of(const wire::ChunkView& chunk) {
  std::vector<Row> rows(chunk.rows());
  if (!read_rows(chunk, rows.data())) rows.clear();
  return rows;
}

std::string reason_name(wire::DropReason reason) {
  switch (reason) {
    case wire::DropReason::kRecorderFull: return "the recorder's memory was full";
    case wire::DropReason::kDiskFull: return "the file could not be written";
    case wire::DropReason::kCupti: return "CUPTI dropped them";
    case wire::DropReason::kNamesFull: return "too many different names";
    case wire::DropReason::kRingFull: return "the kernel's memory was full";
  }
  return "unknown reason";
}

bool is_of_events(wire::ChunkKind kind) {
  return kind >= wire::ChunkKind::kKernels && kind != wire::ChunkKind::kDrops && kind != wire::ChunkKind::kWindows &&
         kind != wire::ChunkKind::kNotes;
}

class Reader {
 public:
  explicit Reader(RecordedProcess& process) : p_(process) {}

  void take(const wire::ChunkView& chunk) {
    const int64_t rows = chunk.rows();
    p_.events += is_of_events(chunk.kind) ? rows : 0;
    switch (chunk.kind) {
      case wire::ChunkKind::kEnd: p_.ended = true; break;
      case wire::ChunkKind::kStrings:
        for (const wire::StringRef& s : rows_of<wire::StringRef>(chunk)) strings_[s.id].assign(s.text, s.length);
        break;
      case wire::ChunkKind::kProperties: take_properties(chunk); break;
      case wire::ChunkKind::kKernels:
      case wire::ChunkKind::kGraphLaunches: p_.kernels += rows; break;
      case wire::ChunkKind::kCopies:
      case wire::ChunkKind::kSets: p_.copies += rows; break;
      case wire::ChunkKind::kCalls: p_.calls += rows; break;
      case wire::ChunkKind::kCollectives: p_.collectives += rows; break;
      case wire::ChunkKind::kRangeEvents: take_ranges(chunk); break;
      case wire::ChunkKind::kWindows:
        for (const wire::Window& w : rows_of<wire::Window>(chunk))
          p_.windows += w.event == wire::WindowEvent::kOpen ? 1 : 0;
        break;
      case wire::ChunkKind::kDrops:
        for (const wire::Drop& d : rows_of<wire::Drop>(chunk))
          p_.dropped[reason_name(d.reason)] += static_cast<int64_t>(d.count);
        break;
      case wire::ChunkKind::kNotes:
        for (const wire::Note& n : rows_of<wire::Note>(chunk))
          if (n.severity == wire::Severity::kWarning) p_.notes.push_back(strings_[n.text]);
        break;
      default: break;
    }
  }

 private:
  void take_properties(const wire::ChunkView& chunk) {
    for (const wire::Property& row : rows_of<wire::Property>(chunk)) {
      const auto n = whole_number(strings_[row.value]);
      if (n && strings_[row.key] == "pid") p_.pid = *n;
      if (n && strings_[row.key] == "rank") p_.rank = *n;
      if (strings_[row.key] == "run") p_.run = strings_[row.value];
      if (strings_[row.key] == "host") p_.host = strings_[row.value];
    }
  }
  void take_ranges(const wire::ChunkView& chunk) {
    for (const wire::RangeEvent& e : rows_of<wire::RangeEvent>(chunk)) {
      if (e.op == wire::RangeOp::kPush || e.op == wire::RangeOp::kStart) ++p_.ranges;
      if (e.op == wire::RangeOp::kStep || is_step(e)) ++p_.steps;
    }
  }

  // A step that the program marks itself, by profgpu.step().
  bool is_step(const wire::RangeEvent& e) {
    return e.op == wire::RangeOp::kPush && strings_[e.domain] == "profgpu" &&
           strings_[e.name].starts_with("ProfilerStep#");
  }

  RecordedProcess& p_;
  std::map<uint32_t, std::string> strings_;
};

// Kinds with few rows; of the others only the number of rows counts.
bool is_small(wire::ChunkKind kind) {
  switch (kind) {
    case wire::ChunkKind::kStrings:
    case wire::ChunkKind::kProperties:
    case wire::ChunkKind::kRangeEvents:
    case wire::ChunkKind::kWindows:
    case wire::ChunkKind::kDrops:
    case wire::ChunkKind::kNotes: return true;
    default: return false;
  }
}

// Reads headers, and the bodies of small kinds, up to the first incomplete chunk. The file may still grow.
bool read_file(int fd, RecordedProcess& process) {
  wire::FileHeader header;
  if (!read_at(fd, 0, &header, sizeof header) ||
      wire::ChunkReader(&header, sizeof header).state() != wire::FileState::kReadable)
    return false;
  Reader reader(process);
  std::string bytes;
  int64_t at = sizeof header;
  for (wire::ChunkHeader chunk; read_at(fd, at, &chunk, sizeof chunk);) {
    if (chunk.magic != wire::kChunkMagic || chunk.length > wire::kMaxBodyBytes) break;
    const auto kind = static_cast<wire::ChunkKind>(chunk.kind);
    const size_t size = sizeof chunk + chunk.length;
    // ChunkView::rows() needs only the body's header and its length.
    bytes.resize(sizeof header + (is_small(kind) ? size : std::min(size, sizeof chunk + sizeof(wire::BodyHeader))));
    std::memcpy(bytes.data(), &header, sizeof header);
    if (!read_at(fd, at, bytes.data() + sizeof header, bytes.size() - sizeof header)) break;
    const auto* body = reinterpret_cast<const uint8_t*>(bytes.data()) + sizeof header + sizeof chunk;
    wire::ChunkView view{kind, body, chunk.length, static_cast<size_t>(at)};
    if (is_small(kind) && !wire::ChunkReader(bytes.data(), bytes.size()).next(view)) break;
    reader.take(view);
    at += static_cast<int64_t>(size);
  }
  return true;
}

}  // namespace

RecordingSummary summary_of_recording(const std::string& folder, const RecordedBy& by) {
  RecordingSummary summary;
  for (const std::string& name : folder_names(folder)) {
    if (!name.ends_with(".pgt") || name.ends_with("-host.pgt")) continue;
    const bool is_near = name.starts_with(by.host + "-");
    if (by.on_this_host && !is_near) continue;
    RecordedProcess process;
    process.path = folder + "/" + name;
    struct stat s {};
    if (::stat(process.path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    // By the file server's clock, which may differ from ours: used only where nothing better is known.
    const bool is_new = s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec >= by.from_unix_ns;
    process.bytes = s.st_size;
    const Descriptor file(::open(process.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const bool is_readable = file && read_file(file.get(), process);
    if (!is_readable && is_near && is_new) summary.unreadable.push_back(process.path);
    const bool is_ours = process.run.empty() ? process.host == by.host && is_new : process.run == by.run;
    if (is_readable && is_ours) summary.processes.push_back(std::move(process));
  }
  return summary;
}

}  // namespace profgpu
