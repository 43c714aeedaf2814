#include "live/switch_times.h"

#include <algorithm>

namespace profgpu {

void SwitchTimes::take(const SwitchRecord& record) {
  if (record.kind == SwitchRecord::kLost) {
    lost_ += record.lost;
    return interrupt();
  }
  if (record.tid == 0 || record.tid == UINT32_MAX) return;   // nobody: the kernel's idle thread, one of another namespace
  if (record.kind == SwitchRecord::kEnded) {
    const auto thread = threads_.find(record.tid);
    if (thread == threads_.end()) return;
    if (ended_.size() < kMostThreads) ended_[record.tid] = thread->second.totals;
    threads_.erase(thread);
    return;
  }
  if (threads_.size() >= kMostThreads && !threads_.contains(record.tid)) {
    ++lost_;
    complete_ = false;
    return;
  }
  Thread& thread = threads_[record.tid];
  if (thread.losses != losses_) thread.state = State::kUnknown;
  thread.losses = losses_;
  thread.pid = record.pid;
  if (record.kind == SwitchRecord::kGot) {
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
  // Clocks of two processors may be nanoseconds apart.
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

}  // namespace profgpu
