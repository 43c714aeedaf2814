#include "live/switch_ring.h"

#include <algorithm>
#include <cstring>

namespace profgpu {
namespace {

// PERF_SAMPLE_TID | PERF_SAMPLE_TIME, behind every record.
struct Behind {
  uint32_t pid, tid;
  uint64_t time_ns;
};
// Of PERF_RECORD_EXIT, behind the header.
struct Exit {
  uint32_t pid, parent, tid, parent_tid;
  uint64_t time_ns;
};
// Of PERF_RECORD_LOST.
struct Lost {
  uint64_t id, lost;
};
constexpr uint64_t kHeader = sizeof(perf_event_header);

// The shortest record of that type that can be.
uint64_t least_bytes(uint32_t type) {
  const uint64_t body = type == PERF_RECORD_EXIT ? sizeof(Exit) : type == PERF_RECORD_LOST ? sizeof(Lost) : 0;
  return kHeader + body + sizeof(Behind);
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
  // What is in front was copied out of the ring.
  if (taken_ == tail_) return;
  taken_ = tail_;
  __atomic_store_n(&page_->data_tail, taken_, __ATOMIC_RELEASE);
}

const SwitchRecord* SwitchRing::front() {
  while (!full_ && tail_ != head_) full_ = read_one();
  return full_ ? &front_ : nullptr;
}

// At least one record is missing; those up to the kernel's place are as good as lost.
void SwitchRing::give_up() {
  tail_ = head_;
  front_ = {SwitchRecord::kLost, 0, 0, front_.time_ns, 1};
}

// False: the record says nothing that is wanted.
bool SwitchRing::read_one() {
  const uint64_t there = head_ - tail_;
  const auto header = at<perf_event_header>(tail_);
  if (there > size_ || there < kHeader || header.size < kHeader || header.size > there || header.size % 8 != 0)
    return give_up(), true;
  const uint64_t begin = tail_ + kHeader;
  const bool wanted =
      header.type == PERF_RECORD_SWITCH || header.type == PERF_RECORD_EXIT || header.type == PERF_RECORD_LOST;
  if (wanted && header.size < least_bytes(header.type)) return give_up(), true;
  tail_ += header.size;
  if (!wanted) return false;
  const auto behind = at<Behind>(tail_ - sizeof(Behind));
  const bool out = (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
  const bool preempted = (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
  const auto kind = !out ? SwitchRecord::kGot : preempted ? SwitchRecord::kPreempted : SwitchRecord::kBlocked;
  front_ = {kind, behind.pid, behind.tid, static_cast<int64_t>(behind.time_ns), 0};
  if (header.type == PERF_RECORD_EXIT) {
    // Who ends has no number any more in what is behind.
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
