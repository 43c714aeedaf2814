#include "job/lane_order.h"

#include <unordered_map>
#include <vector>

namespace profgpu {
namespace {

using What = LanePoint::What;

class Order {
 public:
  explicit Order(JobLanes& lanes)
      : lanes_(lanes), missing_(lanes.groups.size()), ended_(lanes.groups.size()), waiting_(lanes.ranks.size(), JobLanes::kNone) {
    for (const JobLanes::Call& c : lanes.calls) {
      if (c.group == JobLanes::kNone || !lanes.ranks[c.rank].joined) continue;
      missing_[c.group] += c.before != JobLanes::kNone ? 2 : 1;   // its arrival, and the end of the one before it
    }
    at_.reserve(lanes.ranks.size());
    for (size_t r = 0; r < lanes.ranks.size(); ++r) {
      at_.push_back(lanes.ranks[r].first_point);
      const size_t end = r + 1 < lanes.ranks.size() ? lanes.ranks[r + 1].first_point : lanes.points.size();
      end_.push_back(lanes.ranks[r].joined ? static_cast<uint32_t>(end) : at_.back());
    }
    lanes_.order.reserve(lanes.points.size() + lanes.groups.size());
  }

  void run() {
    for (uint32_t r = 0; r < lanes_.ranks.size(); ++r) runnable_.push_back(r);
    while (true) {
      for (; next_ < runnable_.size(); ++next_) go_on(runnable_[next_]);
      runnable_.clear();
      next_ = 0;
      bool stuck = false;
      for (uint32_t r = 0; r < waiting_.size(); ++r) {
        if (waiting_[r] == JobLanes::kNone) continue;
        stuck = true;
        if (!ended_[waiting_[r]]) end_group(waiting_[r]);
        end_groups();
      }
      if (!stuck) return;
    }
  }

 private:
  void go_on(uint32_t rank) {
    while (at_[rank] < end_[rank]) {
      const JobLanes::Point& p = lanes_.points[at_[rank]];
      const uint32_t group = p.what == What::kWait || p.what == What::kArrive ? lanes_.calls[p.of].group : JobLanes::kNone;
      if (p.what == What::kWait && group != JobLanes::kNone && !ended_[group]) {
        waiting_[rank] = group;
        waiters_[group].push_back(rank);
        return;
      }
      lanes_.order.push_back({rank, at_[rank]++});
      if (p.what == What::kArrive) one_less(group);
      end_groups();
    }
  }

  void one_less(uint32_t group) {
    if (!ended_[group] && --missing_[group] == 0) complete_.push_back(group);
  }

  void end_groups() {
    while (!complete_.empty()) {
      const uint32_t group = complete_.back();
      complete_.pop_back();
      if (!ended_[group]) end_group(group);
    }
  }

  void end_group(uint32_t group) {
    ended_[group] = true;
    lanes_.order.push_back({JobLanes::kNone, group});
    for (uint32_t m = lanes_.groups[group].first; m < lanes_.groups[group].end; ++m) {
      const JobLanes::Call& c = lanes_.calls[lanes_.members[m]];
      if (c.next != JobLanes::kNone) one_less(lanes_.calls[c.next].group);
    }
    const auto waiters = waiters_.find(group);
    if (waiters == waiters_.end()) return;
    for (const uint32_t rank : waiters->second) {
      waiting_[rank] = JobLanes::kNone;
      runnable_.push_back(rank);
    }
    waiters_.erase(waiters);
  }

  JobLanes& lanes_;
  std::vector<uint32_t> missing_;
  std::vector<bool> ended_;
  std::vector<uint32_t> waiting_;     // by rank: the group that it waits for
  std::unordered_map<uint32_t, std::vector<uint32_t>> waiters_;
  std::vector<uint32_t> at_, end_;    // by rank: its points still to come
  std::vector<uint32_t> runnable_, complete_;
  size_t next_ = 0;
};

}  // namespace

void put_in_order(JobLanes& lanes) { Order(lanes).run(); }

}  // namespace profgpu
