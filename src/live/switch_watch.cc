#include "live/switch_watch.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <queue>
#include <set>

#include "base/clock.h"
#include "base/decimal.h"
#include "collect/switch_event.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

// Memory that stays in place: 256 KiB is 10,000 records; what is allowed without asking is 512 KiB a processor.
constexpr size_t kMostRing = 256 << 10, kLeastRing = 32 << 10, kAllRings = 16 << 20;

// "0-3,8". A container may have its own idea of them, but not of those that it may run on.
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
  if (all.size() > kMostProcessors)
    return Error{fmt::format("{} processors are too many: each would add to the cost of every switch", all.size())};
  const size_t share = kAllRings / std::max<size_t>(all.size(), 1);
  const size_t ring_bytes = std::clamp(std::bit_floor(share), kLeastRing, kMostRing);
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
  return ahead_ns_ <= kMostAhead_ns;
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
  // All rings are looked at after this, so whatever a thread did until now is there, on whichever processors.
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

}  // namespace profgpu
