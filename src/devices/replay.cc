#include "devices/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/steady_unix.h"
#include "devices/backend.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

constexpr double kSlowest = 1e-3, kFastest = 1e6;
// How long after the log's first row the others' first rows may come and still be there when the replay begins.
constexpr int64_t kMaxHeadStart_ns = 2'000'000'000;
// A pause of the log that is longer, and longer than so many of its usual distances, is played as one such distance:
// clocks are set, machines sleep, and one row of a damaged log may be decades away.
constexpr int64_t kLongestPause_ns = 10'000'000'000;
constexpr int64_t kLongestPauseRows = 5, kLongestUsual_ns = 60'000'000'000;

/// A point of the endless time that a loop has: how often the log was played before, and where in it.
struct Position {
  int64_t round = 0;
  int64_t at_ns = 0;   ///< Unix time in the log
};

/// The part of the log that one device has, and how far it was read.
struct ReplayDevice {
  std::vector<const SampleSeries*> series;
  std::vector<int64_t> rows;                      // distinct times, in order
  std::vector<SampleLog::ProcessRow> processes;   // by time
  std::vector<int64_t> process_ticks;
  std::array<bool, kMetricCount> has{};
  Position read{0, INT64_MIN};                    // everything up to here was given
  size_t next_row = 0;                            // speed=max
  std::atomic<bool> asked = false, finished = false;
};

std::vector<int64_t> times_of(const ReplayDevice& device) {
  std::vector<int64_t> times = device.process_ticks;
  for (const SampleSeries* s : device.series) times.insert(times.end(), s->time_ns.begin(), s->time_ns.end());
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

/// Pauses that are played short: from when on, and by how much all later times move.
class Pauses {
 public:
  explicit Pauses(const SampleLog& log) {
    std::vector<int64_t> times;
    for (const SampleSeries& s : log.series) times.insert(times.end(), s.time_ns.begin(), s.time_ns.end());
    for (const auto& t : log.process_ticks) times.push_back(t.time_ns);
    for (const int64_t t : {log.first_ns, log.last_ns}) times.push_back(t);   // rows may be without a figure
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const int64_t usual = usual_distance(times);
    const int64_t longest = std::max(kLongestPause_ns, usual * kLongestPauseRows);
    for (size_t i = 1; i < times.size(); ++i) {
      const int64_t pause = times[i] - times[i - 1];
      if (pause <= longest) continue;
      skipped_ns_ += pause - usual;
      later_.emplace_back(times[i], skipped_ns_);
    }
  }
  [[nodiscard]] size_t count() const { return later_.size(); }
  [[nodiscard]] int64_t skipped_ns() const { return skipped_ns_; }
  void close(int64_t& time_ns) const {
    const auto after = std::upper_bound(later_.begin(), later_.end(), time_ns,
                                        [](int64_t time, const auto& pause) { return time < pause.first; });
    if (after != later_.begin()) time_ns -= after[-1].second;
  }
  void close(SampleLog& log) const {
    for (SampleSeries& s : log.series)
      for (int64_t& time_ns : s.time_ns) close(time_ns);
    for (auto& p : log.processes) close(p.time_ns);
    for (auto& t : log.process_ticks) close(t.time_ns);
    close(log.first_ns), close(log.last_ns);
  }

 private:
  // Of two distances the smaller counts: the other may be the pause.
  static int64_t usual_distance(const std::vector<int64_t>& times) {
    if (times.size() < 3) return kOneSampleHolds_ns;
    std::vector<int64_t> distances;
    for (size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
    const auto middle = distances.begin() + static_cast<ptrdiff_t>((distances.size() - 1) / 2);
    std::nth_element(distances.begin(), middle, distances.end());
    return std::min(*middle, kLongestUsual_ns);
  }

  std::vector<std::pair<int64_t, int64_t>> later_;
  int64_t skipped_ns_ = 0;
};

class Replay final : public Backend {
 public:
  Replay(ReplayOptions options, SampleLog log, SampleFileIssues issues);

  std::string_view name() const override { return "replay"; }
  const std::vector<DeviceInfo>& devices() const override { return log_.devices; }
  Status read(const ReadRequest& request, Reading& reading) override;
  std::string why_absent(uint32_t device, Metric metric) const override {
    return devices_[device].has[static_cast<size_t>(metric)] ? "" : "not in the file";
  }
  int64_t calls() const override { return reads_.load(std::memory_order_relaxed); }
  std::vector<Fact> system_facts() override;
  bool ended() const override;

 private:
  [[nodiscard]] Position position() const;
  [[nodiscard]] Position advance(ReplayDevice& device, bool& over) const;
  void add_samples(const ReplayDevice& device, const Position& to, bool everything, Reading& reading) const;
  void add_processes(const ReplayDevice& device, const Position& to, Reading& reading) const;
  [[nodiscard]] int64_t present_ns(const Position& p, int64_t at_ns, int64_t now_ns) const;

  const ReplayOptions options_;
  SampleLog log_;
  const SampleFileIssues issues_;
  const Pauses pauses_;
  std::vector<ReplayDevice> devices_;
  int64_t from_ns_ = 0;      // log time at which the replay begins
  int64_t length_ns_ = 0;    // of a round of the loop
  const int64_t opened_ns_ = monotonic_ns(), opened_unix_ns_ = steady_unix_ns();
  std::atomic<int64_t> reads_ = 0;
};

Replay::Replay(ReplayOptions options, SampleLog log, SampleFileIssues issues)
    : options_(std::move(options)), log_(std::move(log)), issues_(std::move(issues)), pauses_(log_),
      devices_(log_.devices.size()) {
  pauses_.close(log_);
  for (const SampleSeries& s : log_.series) {
    devices_[s.device].series.push_back(&s);
    devices_[s.device].has[static_cast<size_t>(s.metric)] = true;
  }
  for (const auto& p : log_.processes) devices_[p.device].processes.push_back(p);
  for (const auto& t : log_.process_ticks) devices_[t.device].process_ticks.push_back(t.time_ns);
  from_ns_ = log_.first_ns;
  int64_t distance = INT64_MAX;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    for (const auto& [metric, value] : log_.devices[d].constants) devices_[d].has[static_cast<size_t>(metric)] = true;
    devices_[d].rows = times_of(devices_[d]);
    const std::vector<int64_t>& rows = devices_[d].rows;
    distance = std::min(distance, rows.size() > 1 ? median_distance(rows) : kOneSampleHolds_ns);
    if (rows.empty()) continue;
    if (const int64_t first = rows.front(); first - log_.first_ns <= kMaxHeadStart_ns)
      from_ns_ = std::max(from_ns_, first);
  }
  length_ns_ = std::max<int64_t>(log_.last_ns - from_ns_ + distance, 1);
}

// Where the log is now, in real or scaled time.
Position Replay::position() const {
  const double passed = static_cast<double>(monotonic_ns() - opened_ns_) * options_.speed.value_or(1);
  const auto ns = static_cast<int64_t>(std::min(passed, 4e18));
  if (!options_.loop) return {0, ns > log_.last_ns - from_ns_ ? INT64_MAX : from_ns_ + ns};
  return {ns / length_ns_, from_ns_ + ns % length_ns_};
}

// How far this read goes. `over`: there is nothing more, and was nothing more before.
Position Replay::advance(ReplayDevice& device, bool& over) const {
  if (options_.speed) {
    const Position to = position();
    over = device.finished.load(std::memory_order_relaxed);
    if (to.at_ns == INT64_MAX) device.finished.store(true, std::memory_order_relaxed);
    return to;
  }
  Position to = device.read;
  if (device.next_row >= device.rows.size() && options_.loop && !device.rows.empty()) {
    device.next_row = 0;
    ++to.round;
  }
  over = device.next_row >= device.rows.size();
  if (!over) to.at_ns = device.rows[device.next_row++];
  if (device.next_row >= device.rows.size() && !options_.loop) device.finished.store(true, std::memory_order_relaxed);
  return to;
}

int64_t Replay::present_ns(const Position& p, int64_t at_ns, int64_t now_ns) const {
  if (!options_.speed) return now_ns;
  const double log_ns =
      static_cast<double>(p.round) * static_cast<double>(length_ns_) + static_cast<double>(at_ns - from_ns_);
  return std::min(opened_unix_ns_ + static_cast<int64_t>(log_ns / *options_.speed), now_ns);
}

void Replay::add_samples(const ReplayDevice& device, const Position& to, bool everything, Reading& reading) const {
  for (const SampleSeries* s : device.series) {
    const bool counter = metric_info(s->metric).kind == MetricKind::kCounter;
    // A counter goes on from where it was when the log begins anew.
    const double round_growth = counter ? s->value.back() - s->value.front() : 0;
    const auto add = [&](int64_t round, ptrdiff_t from, ptrdiff_t end) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(end); ++i)
        reading.add(s->metric, s->value[i] + static_cast<double>(round) * round_growth,
                    present_ns({round, 0}, s->time_ns[i], reading.time_ns));
    };
    const auto after = [&](int64_t time) {
      return std::upper_bound(s->time_ns.begin(), s->time_ns.end(), time) - s->time_ns.begin();
    };
    const size_t before = reading.samples.size();
    const auto size = static_cast<ptrdiff_t>(s->time_ns.size());
    if (to.round == device.read.round) {
      add(to.round, after(device.read.at_ns), after(to.at_ns));
    } else {
      // A reader that slept for several rounds gets the last of them.
      add(to.round - 1, to.round - 1 == device.read.round ? after(device.read.at_ns) : 0, size);
      add(to.round, 0, after(to.at_ns));
    }
    if (!everything || reading.samples.size() != before) continue;
    if (const ptrdiff_t end = after(to.at_ns); end > 0)   // what was said last still holds
      reading.add(s->metric, s->value[static_cast<size_t>(end) - 1] + static_cast<double>(to.round) * round_growth);
  }
}

void Replay::add_processes(const ReplayDevice& device, const Position& to, Reading& reading) const {
  const auto tick = std::upper_bound(device.process_ticks.begin(), device.process_ticks.end(), to.at_ns);
  if (tick == device.process_ticks.begin()) return;
  reading.has_processes = true;
  const auto earlier = [](const SampleLog::ProcessRow& row, int64_t time) { return row.time_ns < time; };
  auto row = std::lower_bound(device.processes.begin(), device.processes.end(), tick[-1], earlier);
  for (; row != device.processes.end() && row->time_ns == tick[-1]; ++row) reading.processes.push_back(row->process);
}

Status Replay::read(const ReadRequest& request, Reading& reading) {
  ReplayDevice& device = devices_[reading.device];
  reads_.fetch_add(1, std::memory_order_relaxed);
  device.asked.store(true, std::memory_order_relaxed);
  bool over = false;
  const Position to = advance(device, over);
  if (over) return ok();
  add_samples(device, to, request.everything, reading);
  if (request.everything)
    for (const auto& [metric, value] : log_.devices[reading.device].constants) reading.add(metric, value);
  if (request.processes) add_processes(device, to, reading);
  device.read = to;
  return ok();
}

// Devices that nobody asks do not count.
bool Replay::ended() const {
  bool any = false;
  for (const ReplayDevice& d : devices_) {
    if (!d.asked.load(std::memory_order_relaxed)) continue;
    if (!d.finished.load(std::memory_order_relaxed)) return false;
    any = true;
  }
  return any;
}

std::vector<Fact> Replay::system_facts() {
  std::vector<Fact> facts = {{"replay_file", options_.path, ""}, {"replay_rows", std::to_string(log_.ticks), ""}};
  if (issues_.damaged_rows > 0)
    facts.push_back({"replay_damaged_rows",
                     fmt::format("{}, the first in line {}", issues_.damaged_rows, issues_.first_damaged_line), ""});
  if (pauses_.count() > 0)
    facts.push_back({"replay_pauses", fmt::format("{}, skipped {} s in all", pauses_.count(),
                                                  pauses_.skipped_ns() / 1'000'000'000), ""});
  if (issues_.torn) facts.push_back({"replay_torn", "the file's end is not whole", ""});
  return facts;
}

Result<std::unique_ptr<Backend>> open(const BackendOptions& options) {
  auto replay = replay_options(options.argument);
  if (!replay) return replay.error();
  SampleFileIssues issues;
  auto log = read_sample_file(replay->path, issues);
  if (!log) return log.error();
  return std::unique_ptr<Backend>(std::make_unique<Replay>(*std::move(replay), *std::move(log), std::move(issues)));
}

}  // namespace

Result<ReplayOptions> replay_options(std::string_view argument) {
  constexpr std::string_view kForm = "replay:FILE[,loop][,speed=N|max]";
  ReplayOptions options;
  for (size_t comma = argument.rfind(','); comma != argument.npos; comma = argument.rfind(',')) {
    const std::string_view word = argument.substr(comma + 1);
    if (word == "loop") {
      options.loop = true;
    } else if (word.starts_with("speed=")) {
      const std::string_view value = word.substr(6);
      const auto speed = real_number(value.ends_with('x') ? value.substr(0, value.size() - 1) : value);
      if (value != "max" && !(speed && *speed >= kSlowest && *speed <= kFastest))
        return Error{fmt::format("speed takes a number from 0.001 to 1000000 or max, not \"{}\"", value),
                     std::string(kForm)};
      options.speed = value == "max" ? std::nullopt : speed;
    } else {
      break;   // a comma in the file's name
    }
    argument = argument.substr(0, comma);
  }
  if (argument.empty()) return Error{"no file is named", std::string(kForm)};
  options.path = argument;
  return options;
}

extern const BackendKind kReplay = {"replay",
                                    "a file of samples played back: replay:FILE[,loop][,speed=N|max]",
                                    false,
                                    open};

}  // namespace profgpu
