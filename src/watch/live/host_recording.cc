#include "watch/live/host_recording.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/version.h"
#include "record/wire/chunk_writer.h"

namespace profgpu {
namespace {

constexpr int64_t kShortestInterval_ns = 50'000'000, kLongestInterval_ns = 10'000'000'000;
// Reading threads may take 1 / kShareOfCore of a core, and so may looking for new ones.
constexpr int64_t kShareOfCore = 100;
constexpr int64_t kFlush_ns = 1'000'000'000, kSync_ns = 10'000'000'000;
constexpr size_t kMaxSamplesKept = 16'384;
constexpr size_t kMaxThreadNames = 65'536;

// Repeats work: the more CPU time it takes, the less often.
struct Pace {
  int64_t due_ns = 0, interval_ns = kShortestInterval_ns;

  template <class F>
  void when_due(F work) {
    if (monotonic_ns() < due_ns) return;
    const int64_t before_ns = thread_cpu_ns();
    work();
    interval_ns = std::clamp((thread_cpu_ns() - before_ns) * kShareOfCore, kShortestInterval_ns, kLongestInterval_ns);
    due_ns = monotonic_ns() + interval_ns;
  }
};

}  // namespace

HostRecording::HostRecording(Descriptor file, std::string path)
    : file_(std::move(file)), wake_(::eventfd(0, EFD_CLOEXEC)), path_(std::move(path)), watch_(::getpid()) {}

Result<std::unique_ptr<HostRecording>> HostRecording::open(const std::string& path, const std::string& host) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return Error{path + ": cannot be written: " + std::strerror(errno)};
  std::unique_ptr<HostRecording> out(new HostRecording(std::move(file), path));
  wire::FileHeader header{};
  std::copy(std::begin(wire::kFileMagic), std::end(wire::kFileMagic), header.magic);
  header.version = wire::kFormatVersion;
  out->write(std::string(reinterpret_cast<const char*>(&header), sizeof header));
  std::string bytes;
  out->append_properties({{"mode", "host"},
                          {"host", host},
                          {"pid", std::to_string(::getpid())},
                          {"started_unix_ns", std::to_string(unix_ns())},
                          {"library_version", kVersion}},
                         bytes);
  out->write(bytes);
  out->flush(false);
  if (!out->statistics_.problem.empty()) return Error{out->statistics_.problem};
  return out;
}

void HostRecording::start(bool with_switches) {
  statistics_.no_switches = "not requested";
  if (with_switches) {
    auto opened = SwitchWatch::open();
    statistics_.no_switches = opened ? "" : opened.error().message;
    if (opened) switches_ = std::move(*opened);
  }
  std::string bytes;
  append_properties({{"switches", switches_ ? "recorded" : statistics_.no_switches}}, bytes);
  write(bytes);
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "host samples");
    run();
  });
}

HostRecording::Statistics HostRecording::stop() {
  stopping_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  switches_.reset();
  statistics_.threads = static_cast<int64_t>(ids_.size());
  return statistics_;
}

void HostRecording::run() {
  Pace discovery, reading;
  int64_t flush_at_ns = monotonic_ns() + kFlush_ns;
  while (!stopping_) {
    if (switches_) switches_->drain();   // first, so that its cost is not charged to the readings
    discovery.when_due([&] { watch_.discover(); });
    reading.when_due([&] {
      watch_.read();
      take_samples();
    });
    if (monotonic_ns() >= flush_at_ns || samples_.size() >= kMaxSamplesKept) {
      flush(false);
      flush_at_ns = monotonic_ns() + kFlush_ns;
    }
    await(std::min({discovery.due_ns, reading.due_ns, flush_at_ns}));
  }
  flush(true);
  statistics_.interval_ns = reading.interval_ns;
  statistics_.cpu_ns = thread_cpu_ns();
}

// Until then or the end. Drains context switches before their rings are full.
void HostRecording::await(int64_t until_ns) {
  std::vector<pollfd> all{{wake_.get(), POLLIN, 0}};
  if (switches_) all.insert(all.end(), switches_->to_poll().begin(), switches_->to_poll().end());
  for (int64_t left_ns = until_ns - monotonic_ns(); left_ns > 0 && !stopping_; left_ns = until_ns - monotonic_ns()) {
    const timespec most{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    if (::ppoll(all.data(), all.size(), &most, nullptr) <= 0 || !switches_) continue;
    switches_->drain();
    if (switches_->stopped()) return;   // its descriptors are gone
    for (pollfd& p : all)
      if ((p.revents & ~POLLIN) != 0) p.fd = -1;   // no more events from this one
  }
}

uint32_t HostRecording::name_id(const std::string& name) {
  const auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  if (names_.size() >= kMaxThreadNames) return 0;
  const auto id = static_cast<uint32_t>(names_.size() + 1);
  names_.emplace(name, id);
  new_names_.emplace_back(id, name);
  return id;
}

void HostRecording::take_samples() {
  statistics_.left_out = std::max(statistics_.left_out, watch_.left_out());
  const int64_t now_ns = switches_ ? switches_->drain() : 0;
  for (WatchedThread& t : watch_.threads()) {
    const auto [it, added] = ids_.try_emplace({t.pid, t.tid}, static_cast<uint32_t>(ids_.size() + 1));
    if (added || t.name_is_new) new_threads_.push_back({it->second, t.pid, t.tid, name_id(t.name)});
    samples_.push_back({t.seen_ns, it->second, static_cast<uint8_t>(t.state), t.system_call, t.user_ns, t.system_ns,
                        t.waited_ns});
    if (const auto totals = switches_ ? switches_->times().totals(t.tid, now_ns) : std::nullopt) {
      samples_.back().blocked_ns = totals->blocked_ns;
      samples_.back().preempted_ns = totals->preempted_ns;
      samples_.back().waits = totals->waits;
    }
  }
  if (switches_) switches_->times().forget_ended();
}

template <class Row>
void HostRecording::append_rows(const std::vector<Row>& rows, std::string& out) {
  if (rows.empty()) return;
  const size_t before = out.size();
  out.resize(before + wire::max_chunk_bytes<Row>(rows.size()));
  out.resize(before + wire::put_chunk(rows.data(), rows.size(), reinterpret_cast<uint8_t*>(out.data()) + before));
}

void HostRecording::append_names(std::string& out) {
  if (new_names_.empty()) return;
  std::vector<wire::StringRef> strings;
  size_t text_bytes = 0;
  for (const auto& [id, name] : new_names_) {
    strings.push_back({id, static_cast<uint32_t>(name.size()), name.data()});
    text_bytes += name.size();
  }
  const size_t before = out.size();
  out.resize(before + wire::max_chunk_bytes<wire::StringRef>(strings.size(), text_bytes));
  uint8_t* const chunk = reinterpret_cast<uint8_t*>(out.data()) + before;
  out.resize(before + wire::put_chunk(strings.data(), strings.size(), chunk));
  new_names_.clear();
}

void HostRecording::append_properties(const std::vector<std::pair<std::string, std::string>>& properties,
                                      std::string& out) {
  std::vector<wire::Property> rows;
  for (const auto& [key, value] : properties) rows.push_back({name_id(key), name_id(value)});
  append_names(out);
  append_rows(rows, out);
}

// Leaves out waits of threads that were never sampled: those lived only between two samples.
void HostRecording::append_switches(bool at_end, std::string& out) {
  const int64_t now_ns = switches_->drain();
  SwitchTimes& times = switches_->times();
  if (at_end) times.end_waits(now_ns);
  std::vector<wire::ThreadWait> rows;
  for (const LongWait& w : times.take_waits())
    if (const auto it = ids_.find({w.pid, w.tid}); it != ids_.end())
      rows.push_back({w.start_ns, w.duration_ns, it->second});
  append_rows(rows, out);
  statistics_.waits += static_cast<int64_t>(rows.size());
  if (times.lost() > statistics_.lost_switches)
    append_rows(std::vector<wire::Drop>{{now_ns, static_cast<uint16_t>(wire::ChunkKind::kThreadWaits),
                                         wire::DropReason::kRingFull, times.lost() - statistics_.lost_switches}},
                out);
  statistics_.lost_switches = times.lost();
  if (switches_->stopped() && statistics_.no_switches.empty()) {
    statistics_.no_switches = "stopped: they were so frequent that recording them cost the command over 2 %";
    append_properties({{"switches", statistics_.no_switches}}, out);
  }
  if (times.shortest_ns() == shortest_wait_ns_) return;
  shortest_wait_ns_ = times.shortest_ns();
  append_properties({{"shortest_wait_ns", std::to_string(shortest_wait_ns_)}}, out);
}

void HostRecording::flush(bool at_end) {
  std::string bytes;
  append_names(bytes);
  append_rows(new_threads_, bytes);
  append_rows(samples_, bytes);
  if (switches_) append_switches(at_end, bytes);
  statistics_.samples += static_cast<int64_t>(samples_.size());
  if (const int64_t now_ns = monotonic_ns(); at_end || synced_ns_ == 0 || now_ns - synced_ns_ > kSync_ns) {
    append_rows(std::vector<wire::ClockSync>{{now_ns, unix_ns(), 0}}, bytes);
    synced_ns_ = now_ns;
  }
  if (at_end) {
    uint8_t end[sizeof(wire::ChunkHeader)];
    bytes.append(reinterpret_cast<const char*>(end), wire::seal_chunk(end, wire::ChunkKind::kEnd, 0));
  }
  new_threads_.clear();
  samples_.clear();
  write(bytes);
}

// Writes nothing more after a failure: rows would refer to missing names.
void HostRecording::write(const std::string& bytes) {
  if (!statistics_.problem.empty()) return;
  const int error = write_all(file_.get(), bytes);
  if (error == 0) {
    size_bytes_ += static_cast<int64_t>(bytes.size());
    return;
  }
  statistics_.problem = path_ + ": cannot be written: " + std::strerror(error);
  if (::ftruncate(file_.get(), size_bytes_) != 0) statistics_.problem += "; its last rows are torn";
}

std::optional<HostClock> host_clock() {
  timex clock{};   // modes 0: nothing is set
  const int state = ::adjtimex(&clock);
  if (state < 0) return std::nullopt;
  constexpr int64_t kMicrosecond = 1'000;   // both errors are in microseconds, whatever STA_NANO says
  return HostClock{state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0, int64_t{clock.maxerror} * kMicrosecond,
                   int64_t{clock.esterror} * kMicrosecond};
}

}  // namespace profgpu
