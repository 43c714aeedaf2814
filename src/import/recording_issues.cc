// What a recording says of itself, and what its bytes say, in sentences.
#include <algorithm>

#include <fmt/format.h>

#include "import/recording.h"
#include "import/recording_clock.h"

namespace profgpu {
namespace {

constexpr size_t kMostNotes = 20;

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
    case wire::DropReason::kRecorderFull: return "more came than could be written (a larger memory_mb helps)";
    case wire::DropReason::kDiskFull: return "they could not be written (is the disk full?)";
    case wire::DropReason::kCupti: return "CUPTI dropped them";
    case wire::DropReason::kNamesFull: return "there were too many different names; their rows are without one";
    case wire::DropReason::kRingFull: return "the kernel had no room for them";
  }
  return "the recorder does not say why";
}

void add_drops(const RecordingFile& file, std::vector<TraceIssue>& issues) {
  std::map<std::pair<uint16_t, wire::DropReason>, uint64_t> lost;
  for (const wire::Drop& d : file.drops) {
    uint64_t& sum = lost[{d.of, d.reason}];
    sum = std::min<uint64_t>(sum + std::min<uint64_t>(d.count, INT64_MAX / 2), INT64_MAX / 2);
  }
  size_t said = 0;
  for (const auto& [what, count] : lost)
    if (count > 0 && said++ < kMostNotes)
      issues.push_back({TraceIssueKind::kDropped, static_cast<int64_t>(count),
                        fmt::format("{} that are missing: {}; {}", rows_name(what.first), count,
                                    reason_text(what.second))});
}

void add_notes(const RecordingFile& file, std::vector<TraceIssue>& issues) {
  std::set<std::string_view> said;
  for (const wire::Note& n : file.notes) {
    const std::string_view text = file.strings[n.text];
    if (text.empty() || said.size() >= kMostNotes || !said.insert(text).second) continue;
    issues.push_back({n.severity == wire::Severity::kWarning ? TraceIssueKind::kOther : TraceIssueKind::kNote, 1,
                      std::string(text)});
  }
}

void add_clock(const RecordingFile& file, std::vector<TraceIssue>& issues) {
  if (file.device_rows == 0) return;
  const RecordingClock clock(file.syncs);
  if (!clock.known()) {
    issues.push_back({TraceIssueKind::kOther, 1,
                      "no reading of the clocks is in the file: times of host and device may not fit together"});
  } else if (clock.assumed_unix()) {
    issues.push_back({TraceIssueKind::kOther, 1,
                      "CUPTI's clock was never read: it is taken for Unix time, which is what CUPTI begins with"});
  }
  if (clock.splits() > 0)
    issues.push_back({TraceIssueKind::kOther, static_cast<int64_t>(clock.splits()),
                      fmt::format("jumps of the clock that device records carry: {} (another profiler set it, or the "
                                  "system's clock was stepped); each part was placed by its own readings",
                                  clock.splits())});
}

}  // namespace

std::vector<TraceIssue> recording_issues(const RecordingFile& file) {
  std::vector<TraceIssue> issues;
  if (!file.cut_off.empty()) issues.push_back({TraceIssueKind::kTruncated, 1, file.path + " " + file.cut_off});
  // Nothing is missed where nothing was recorded.
  if (file.torn_bytes > 0 || (!file.ended && !file.of_host() && file.rows > 0)) {
    std::string text = "the recording has no end: its process was killed, or still runs, or its disk was full";
    if (file.torn_bytes > 0)
      text += fmt::format("; {} bytes of a chunk that was not finished were left out", file.torn_bytes);
    issues.push_back({TraceIssueKind::kTruncated, 1, text});
  }
  const int64_t damaged = static_cast<int64_t>(file.damaged_places) + file.bad_chunks;
  if (damaged > 0)
    issues.push_back({TraceIssueKind::kDamaged, damaged,
                      fmt::format("damaged places: {}; {} bytes were skipped", damaged, file.damaged_bytes)});
  if (file.unknown_chunks > 0)
    issues.push_back({TraceIssueKind::kUnknownRows, file.unknown_chunks,
                      fmt::format("chunks of kinds that this profgpu does not know: {} (a newer one recorded them)",
                                  file.unknown_chunks)});
  add_drops(file, issues);
  add_clock(file, issues);
  add_notes(file, issues);
  return issues;
}

Error empty_recording(const RecordingFile& file) {
  std::string why;
  for (const wire::Note& n : file.notes)
    if (const std::string_view text = file.strings[n.text]; !text.empty()) why = text;
  if (why.empty() && file.torn_bytes > 0) why = "what was written is damaged or unfinished";
  if (why.empty() && file.properties.empty()) why = "the process was killed before anything was written";
  return {file.path + ": a recording without any events" + (why.empty() ? "" : ": " + why),
          "`profgpu doctor` says what is needed to record on this machine"};
}

}  // namespace profgpu
