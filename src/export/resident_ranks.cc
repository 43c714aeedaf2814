#include "export/resident_ranks.h"

namespace profgpu {

Status ResidentRanks::pin(size_t place) {
  Rank& rank = ranks_[place];
  if (!there(place)) {
    make_room(run_.ranks[place].outline().events);
    if (Status status = run_.ranks[place].load(); !status) return status;
    rank.there = true;
    ++rank.reads;
  }
  ++rank.pins;
  return ok();
}

void ResidentRanks::unpin(size_t place) {
  Rank& rank = ranks_[place];
  --rank.pins;
  rank.used = ++now_;
}

// The one that was left longest ago goes first.
void ResidentRanks::make_room(int64_t events) {
  while (true) {
    int64_t idle = events;
    size_t oldest = ranks_.size();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& r = ranks_[i];
      if (!r.there || r.pins > 0 || r.reads >= kOftenRead) continue;
      idle += run_.ranks[i].outline().events;
      if (oldest == ranks_.size() || r.used < ranks_[oldest].used) oldest = i;
    }
    if (idle <= most_idle_events_ || oldest == ranks_.size()) return;
    dropped_(oldest);
    run_.ranks[oldest].drop();
    ranks_[oldest].there = false;
  }
}

}  // namespace profgpu
