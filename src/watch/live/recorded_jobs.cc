#include "watch/live/recorded_jobs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "analyse/rank/devices.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "base/text.h"
#include "record/wire/chunk_reader.h"
#include "trace/import/recording.h"
#include "watch/live/recording_control.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kKept_ns = 15 * kSecond;          // for phases and idle times
constexpr int64_t kRate_ns = 10 * kSecond;          // for steps per second
constexpr int64_t kAnalyseEvery_ns = 3 * kSecond, kPausePerWork = 20;
constexpr int64_t kRecheck_ns = 10 * kSecond;       // whether a process is recorded by now
constexpr size_t kMaxPhases = 3;

// The largest few, none below a percent.
std::string phases_text(const Facts& facts) {
  const Phases& phases = facts.get<Phases>();
  const int64_t whole = facts.get<Steps>().total_wall_ns();
  std::vector<std::pair<int64_t, Phase>> largest;
  for (const Phase p : phases.all())
    if (p != Phase::kOther) largest.emplace_back(phases.wall_ns[static_cast<size_t>(p)], p);
  std::sort(largest.rbegin(), largest.rend());
  std::string text;
  for (size_t i = 0; i < kMaxPhases; ++i)
    if (const double share = percent_of(largest[i].first, whole); share >= 1)
      append_listed(text, fmt::format("{} {:.0f} %", phase_words(phases.name(largest[i].second)), share));
  return text;
}

std::string idle_text(const Facts& facts) {
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return "";
  const auto at = std::ranges::find(devices.devices, devices.busiest, &DeviceTime::id);
  if (at == devices.devices.end() || at->span_ns <= 0) return "";
  const DeviceTime& device = *at;
  const auto& causes = facts.get<Idle>().devices[static_cast<size_t>(at - devices.devices.begin())].total_ns;
  const auto most = std::max_element(causes.begin(), causes.end());
  std::string text = fmt::format("GPU idle {:.0f} %", percent_of(device.idle_ns, device.span_ns));
  if (const double share = percent_of(*most, device.span_ns); share >= 1)
    text += fmt::format(", most of it {} ({:.0f} %)",
                        words(idle_cause_name(static_cast<IdleCause>(most - causes.begin()))), share);
  return text;
}

}  // namespace

std::string recorded_work_text(const RecordingFile& recording) {
  if (recording.device_rows == 0 && recording.range_events.empty()) return "";
  RankRecording rank;
  rank.processes = {&recording};
  ImportOptions options;
  options.threads = 1;
  const TraceFacts known(recorded_trace(rank, options), {});
  const Steps& steps = known.facts.get<Steps>();
  std::string text = steps.annotated ? phases_text(known.facts) : "";
  if (const std::string idle = idle_text(known.facts); !idle.empty()) append_listed(text, idle, "; ");
  return text;
}

struct RecordedJobs::Process {
  std::unique_ptr<RecordingControl> control;   // null: it is not recorded, as far as we know
  int64_t checked_ns = 0;                        // monotonic
  std::optional<RecordingTail> tail;
  int64_t rank = -1;
  std::deque<std::pair<int64_t, uint64_t>> steps;   // monotonic time, and steps by then
  int64_t analyse_ns = 0;                      // monotonic; not before
  int64_t news_ns = 0;                         // monotonic; when the file last grew
  std::string work;

  void begin(int64_t pid, int64_t now);
  void analyse(int64_t now);
  std::string line(int64_t pid, int64_t now);
};

void RecordedJobs::Process::begin(int64_t pid, int64_t now) {
  checked_ns = now;
  auto opened = RecordingControl::open(pid);
  if (!opened) return;
  control = *std::move(opened);
  const std::string path = control->recording_path();
  if (auto file = RecordingTail::open(path, kKept_ns)) tail.emplace(*std::move(file));
}

void RecordedJobs::Process::analyse(int64_t now) {
  if (!tail || now < analyse_ns) return;
  if (tail->follow(now)) news_ns = now;
  else if (now - news_ns > kKept_ns) work.clear();   // out of date
  if (news_ns != now) return;
  auto recording = recording_of(tail->bytes(), "");
  if (!recording) return;
  rank = recording->number("rank");
  work = recorded_work_text(*recording);
  const int64_t took = monotonic_ns() - now;
  analyse_ns = now + std::max(kAnalyseEvery_ns, kPausePerWork * took);
}

std::string RecordedJobs::Process::line(int64_t pid, int64_t now) {
  const RecorderStatus status = control->status();
  if (status.state == wire::RecorderState::kEnded || status.state == wire::RecorderState::kFailed) return "";
  if (steps.empty() || steps.back().second != status.steps) steps.emplace_back(now, status.steps);
  while (steps.size() > 1 && steps[1].first < now - kRate_ns) steps.pop_front();
  analyse(now);
  std::string text = rank >= 0 ? fmt::format("rank {}, pid {}: ", rank, pid) : fmt::format("pid {}: ", pid);
  const auto& [since, before] = steps.front();
  const double seconds = static_cast<double>(now - since) / 1e9;
  if (status.steps > before && seconds > 0.5)
    text += fmt::format("{:.3g} steps/s, ", static_cast<double>(status.steps - before) / seconds);
  text += status.steps > 0 ? fmt::format("step {}", status.steps) : "no step so far";
  if (!work.empty()) text += "; " + work;
  if (status.dropped > 0) text += fmt::format("; {} rows were dropped", status.dropped);
  return text;
}

RecordedJobs::RecordedJobs() = default;
RecordedJobs::~RecordedJobs() = default;

std::vector<std::string> RecordedJobs::look(const std::vector<int64_t>& pids) {
  std::vector<std::string> lines;
  std::erase_if(processes_, [&](const auto& p) { return std::find(pids.begin(), pids.end(), p.first) == pids.end(); });
  for (const int64_t pid : pids) {
    if (processes_.size() == kMaxProcesses && !processes_.contains(pid)) break;
    auto& process = processes_[pid];
    if (!process) process = std::make_unique<Process>();
    const int64_t now = monotonic_ns();
    if (!process->control && (process->checked_ns == 0 || now - process->checked_ns >= kRecheck_ns))
      process->begin(pid, now);
    if (!process->control) continue;
    if (std::string line = process->line(pid, now); !line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

namespace {

using wire::ChunkKind;

// Later chunks may refer to them, however old they are.
bool is_lasting(ChunkKind kind) {
  switch (kind) {
    case ChunkKind::kStrings:
    case ChunkKind::kProperties:
    case ChunkKind::kClockSyncs:
    case ChunkKind::kThreads:
    case ChunkKind::kQueues:
    case ChunkKind::kLaunchShapes:
    case ChunkKind::kDevices:
    case ChunkKind::kWindows: return true;
    default: return false;
  }
}

}  // namespace

Result<RecordingTail> RecordingTail::open(const std::string& path, int64_t kept_ns) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return Error{path + ": " + std::strerror(errno)};
  RecordingTail tail(std::move(file), kept_ns);
  tail.lasting_.resize(sizeof(wire::FileHeader));
  if (!read_at(tail.file_.get(), 0, tail.lasting_.data(), tail.lasting_.size()) ||
      wire::ChunkReader(tail.lasting_.data(), tail.lasting_.size()).state() != wire::FileState::kReadable)
    return Error{path + ": not a readable recording"};
  tail.at_ = sizeof(wire::FileHeader);
  return tail;
}

// False: there is no complete chunk yet, or there never will be.
bool RecordingTail::take_chunk(int64_t file_bytes, int64_t now_ns) {
  wire::ChunkHeader header;
  if (file_bytes - at_ < static_cast<int64_t>(sizeof header) || !read_at(file_.get(), at_, &header, sizeof header))
    return false;
  const auto kind = static_cast<ChunkKind>(header.kind);
  const auto size = static_cast<int64_t>(sizeof header) + header.length;
  ended_ = header.magic != wire::kChunkMagic || header.length > wire::kMaxBodyBytes || kind == ChunkKind::kEnd;
  if (ended_ || file_bytes - at_ < size) return false;
  const bool lasting = is_lasting(kind);
  if (lasting || file_bytes - at_ <= kMaxRecent) {
    std::string bytes(static_cast<size_t>(size), '\0');
    if (!read_at(file_.get(), at_, bytes.data(), bytes.size())) return false;
    if (lasting) lasting_ += bytes;
    else recent_bytes_ += size, recent_.push_back({std::move(bytes), now_ns});
  }
  at_ += size;
  ended_ = static_cast<int64_t>(lasting_.size()) > kMaxLasting;
  return true;
}

bool RecordingTail::follow(int64_t now_ns) {
  struct stat s {};
  if (ended_ || ::fstat(file_.get(), &s) != 0) return false;
  bool any = false;
  while (!ended_ && take_chunk(s.st_size, now_ns)) any = true;
  while (!recent_.empty() && (recent_.front().read_ns < now_ns - kept_ns_ || recent_bytes_ > kMaxRecent)) {
    recent_bytes_ -= static_cast<int64_t>(recent_.front().bytes.size());
    recent_.pop_front();
  }
  return any;
}

std::string RecordingTail::bytes() const {
  std::string all = lasting_;
  all.reserve(all.size() + static_cast<size_t>(recent_bytes_));
  for (const Piece& piece : recent_) all += piece.bytes;
  return all;
}

}  // namespace profgpu
