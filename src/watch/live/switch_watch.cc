#include "watch/live/switch_watch.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <queue>
#include <set>

#include "base/clock.h"
#include "base/decimal.h"
#include "devices/switch_event.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

// Locked memory: 256 KiB holds 10,000 records; users may lock 512 KiB per processor by default.
constexpr size_t kMaxRing = 256 << 10, kMinRing = 32 << 10, kAllRings = 16 << 20;

// "0-3,8". A container may show other ones, but not for the processors that it may run on.
std::set<int> processors() {
  std::set<int> out;
  const std::string online = file_line("/sys/devices/system/cpu/online");
  for (const std::string_view range : pieces_of(online, ',')) {
    const size_t dash = range.find('-');
    const auto first = whole_number(range.substr(0, dash));
    const auto last = dash == range.npos ? first : whole_number(range.substr(dash + 1));
    if (first && last && *first >= 0 && *last < CPU_SETSIZE)
      for (int64_t n = *first; n <= *last; ++n) out.insert(static_cast<int>(n));
  }
  cpu_set_t ours;
  if (::sched_getaffinity(0, sizeof ours, &ours) == 0)
    for (int n = 0; n < CPU_SETSIZE; ++n)
      if (CPU_ISSET(n, &ours)) out.insert(n);
  return out;
}

Status refusal(int error) { return switch_event_refusal(error, SystemRoots::from_environment()); }

}  // namespace

void drain_in_order(std::vector<SwitchRing>& rings, int64_t until_ns, SwitchTimes& times) {
  using Next = std::pair<int64_t, size_t>;   // time, ring
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto offer = [&](size_t i) {
    if (const SwitchRecord* r = rings[i].front(); r && r->time_ns <= until_ns) next.emplace(r->time_ns, i);
  };
  for (size_t i = 0; i < rings.size(); ++i) {
    rings[i].look();
    offer(i);
  }
  while (!next.empty()) {
    const size_t i = next.top().second;
    next.pop();
    times.take(*rings[i].front());
    rings[i].pop();
    offer(i);
  }
  for (SwitchRing& ring : rings) ring.release();
}

Status SwitchWatch::add(int processor, size_t ring_bytes) {
  const int fd = open_switch_event(processor, static_cast<uint32_t>(ring_bytes / 2));
  if (fd < 0) return errno == ENODEV ? ok() : refusal(errno);
  to_poll_.push_back({fd, POLLIN, 0});
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const at = ::mmap(nullptr, page + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return refusal(errno == EPERM ? ENOMEM : errno);
  mapped_.emplace_back(at, page + ring_bytes);
  rings_.emplace_back(static_cast<perf_event_mmap_page*>(at), static_cast<const uint8_t*>(at) + page, ring_bytes);
  return ok();
}

Result<std::unique_ptr<SwitchWatch>> SwitchWatch::open() {
  const std::set<int> all = processors();
  if (all.size() > kMaxProcessors)
    return Error{fmt::format("{} processors are too many: each would add to the cost of every switch", all.size())};
  const size_t share = kAllRings / std::max<size_t>(all.size(), 1);
  const size_t ring_bytes = std::clamp(std::bit_floor(share), kMinRing, kMaxRing);
  std::unique_ptr<SwitchWatch> out(new SwitchWatch());
  for (const int processor : all)
    if (auto status = out->add(processor, ring_bytes); !status) return status.error();
  out->budgets_.assign(out->rings_.size(), SwitchBudget(out->rings_.size()));
  return out;
}

bool SwitchBudget::allows(int64_t now_ns, uint64_t records) {
  const int64_t allowed_ns = last_ns_ == 0 ? 0 : (now_ns - last_ns_) / 50;
  last_ns_ = now_ns;
  ahead_ns_ = std::max<int64_t>(ahead_ns_ + static_cast<int64_t>(records) * cost_ns_ - allowed_ns, 0);
  return ahead_ns_ <= kMaxAhead_ns;
}

SwitchWatch::~SwitchWatch() { stop(); }

void SwitchWatch::stop() {
  for (const auto& [at, bytes] : mapped_) ::munmap(at, bytes);
  for (const pollfd& p : to_poll_) ::close(p.fd);
  mapped_.clear();
  to_poll_.clear();
  rings_.clear();
}

int64_t SwitchWatch::drain() {
  // All rings are read after this, so they hold everything that threads did until now, on any processor.
  const int64_t now_ns = monotonic_ns();
  drain_in_order(rings_, now_ns, times_);
  bool allowed = true;
  for (size_t i = 0; i < rings_.size(); ++i) allowed &= budgets_[i].allows(now_ns, rings_[i].popped());
  if (!allowed) {
    stop();
    times_.interrupt();
  }
  return now_ns;
}

void SwitchTimes::take(const SwitchRecord& record) {
  if (record.kind == SwitchRecord::kLost) {
    lost_ += record.lost;
    return interrupt();
  }
  if (record.tid == 0 || record.tid == UINT32_MAX) return;  // the kernel's idle thread, one of another namespace
  if (record.kind == SwitchRecord::kEnded) {
    const auto thread = threads_.find(record.tid);
    if (thread == threads_.end()) return;
    if (ended_.size() < kMaxThreads) ended_[record.tid] = thread->second.totals;
    threads_.erase(thread);
    return;
  }
  if (threads_.size() >= kMaxThreads && !threads_.contains(record.tid)) {
    ++lost_;
    complete_ = false;
    return;
  }
  Thread& thread = threads_[record.tid];
  if (thread.losses != losses_) thread.state = State::kUnknown;
  thread.losses = losses_;
  thread.pid = record.pid;
  if (record.kind == SwitchRecord::kScheduled) {
    end_absence(record.tid, thread, record.time_ns);
    thread.state = State::kRuns;
  } else {
    thread.state = record.kind == SwitchRecord::kBlocked ? State::kBlocked : State::kPreempted;
    thread.since_ns = record.time_ns;
  }
}

void SwitchTimes::interrupt() {
  ++losses_;
  complete_ = false;
}

void SwitchTimes::end_absence(uint32_t tid, Thread& thread, int64_t now_ns) {
  // The clocks of two processors may differ by nanoseconds.
  const int64_t absent_ns = std::max<int64_t>(now_ns - thread.since_ns, 0);
  if (thread.state == State::kPreempted) thread.totals.preempted_ns += absent_ns;
  if (thread.state != State::kBlocked) return;
  thread.totals.blocked_ns += absent_ns;
  ++thread.totals.waits;
  if (absent_ns < kShortest_ns) return;
  waits_.push_back({thread.since_ns, absent_ns, thread.pid, tid});
  if (waits_.size() >= 4 * kMostWaits) keep_longest();
}

void SwitchTimes::keep_longest() {
  if (waits_.size() <= kMostWaits) return;
  const auto end = waits_.begin() + kMostWaits;
  std::nth_element(waits_.begin(), end, waits_.end(),
                   [](const LongWait& a, const LongWait& b) { return a.duration_ns > b.duration_ns; });
  shortest_ns_ = std::max(shortest_ns_, end->duration_ns + 1);
  waits_.erase(end, waits_.end());
}

std::optional<SwitchTotals> SwitchTimes::totals(uint32_t tid, int64_t now_ns) const {
  if (!complete_) return std::nullopt;
  const auto it = threads_.find(tid);
  if (it == threads_.end()) {
    const auto ended = ended_.find(tid);
    return ended == ended_.end() ? std::nullopt : std::optional(ended->second);
  }
  SwitchTotals totals = it->second.totals;
  const int64_t absent_ns = std::max<int64_t>(now_ns - it->second.since_ns, 0);
  if (it->second.state == State::kBlocked) totals.blocked_ns += absent_ns, ++totals.waits;
  if (it->second.state == State::kPreempted) totals.preempted_ns += absent_ns;
  return totals;
}

std::vector<LongWait> SwitchTimes::take_waits() {
  keep_longest();
  std::vector<LongWait> out = std::move(waits_);
  waits_.clear();
  std::sort(out.begin(), out.end(), [](const LongWait& a, const LongWait& b) { return a.start_ns < b.start_ns; });
  return out;
}

void SwitchTimes::end_waits(int64_t now_ns) {
  for (auto& [tid, thread] : threads_) {
    if (thread.losses == losses_) end_absence(tid, thread, now_ns);
    thread.state = State::kUnknown;
  }
}

namespace {

// PERF_SAMPLE_TID | PERF_SAMPLE_TIME, at the end of every record.
struct Trailer {
  uint32_t pid, tid;
  uint64_t time_ns;
};
// The body of PERF_RECORD_EXIT.
struct Exit {
  uint32_t pid, parent, tid, parent_tid;
  uint64_t time_ns;
};
// The body of PERF_RECORD_LOST.
struct Lost {
  uint64_t id, lost;
};
constexpr uint64_t kHeader = sizeof(perf_event_header);

// The shortest possible record of that type.
uint64_t min_bytes(uint32_t type) {
  const uint64_t body = type == PERF_RECORD_EXIT ? sizeof(Exit) : type == PERF_RECORD_LOST ? sizeof(Lost) : 0;
  return kHeader + body + sizeof(Trailer);
}

}  // namespace

template <class T>
T SwitchRing::at(uint64_t place) const {
  T out;
  const uint64_t from = place & (size_ - 1);
  const uint64_t first = std::min<uint64_t>(sizeof out, size_ - from);
  std::memcpy(&out, data_ + from, first);
  std::memcpy(reinterpret_cast<char*>(&out) + first, data_, sizeof out - first);
  return out;
}

void SwitchRing::look() { head_ = __atomic_load_n(&page_->data_head, __ATOMIC_ACQUIRE); }

void SwitchRing::release() {
  // front_ is a copy.
  if (released_ == tail_) return;
  released_ = tail_;
  __atomic_store_n(&page_->data_tail, released_, __ATOMIC_RELEASE);
}

const SwitchRecord* SwitchRing::front() {
  while (!full_ && tail_ != head_) full_ = read_one();
  return full_ ? &front_ : nullptr;
}

// At least one record is missing, and those up to the kernel's position cannot be located.
void SwitchRing::give_up() {
  tail_ = head_;
  front_ = {SwitchRecord::kLost, 0, 0, front_.time_ns, 1};
}

// False: the record is of no interest.
bool SwitchRing::read_one() {
  const uint64_t there = head_ - tail_;
  const auto header = at<perf_event_header>(tail_);
  if (there > size_ || there < kHeader || header.size < kHeader || header.size > there || header.size % 8 != 0)
    return give_up(), true;
  const uint64_t begin = tail_ + kHeader;
  const bool wanted =
      header.type == PERF_RECORD_SWITCH || header.type == PERF_RECORD_EXIT || header.type == PERF_RECORD_LOST;
  if (wanted && header.size < min_bytes(header.type)) return give_up(), true;
  tail_ += header.size;
  if (!wanted) return false;
  const auto trailer = at<Trailer>(tail_ - sizeof(Trailer));
  const bool out = (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
  const bool preempted = (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
  const auto kind = !out ? SwitchRecord::kScheduled : preempted ? SwitchRecord::kPreempted : SwitchRecord::kBlocked;
  front_ = {kind, trailer.pid, trailer.tid, static_cast<int64_t>(trailer.time_ns), 0};
  if (header.type == PERF_RECORD_EXIT) {
    // A thread that ends has no pid any more in the trailer.
    const auto exit = at<Exit>(begin);
    front_.kind = SwitchRecord::kEnded;
    front_.pid = exit.pid;
    front_.tid = exit.tid;
  } else if (header.type == PERF_RECORD_LOST) {
    front_.kind = SwitchRecord::kLost;
    front_.lost = at<Lost>(begin).lost;
  }
  return true;
}

}  // namespace profgpu
