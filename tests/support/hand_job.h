// Ranks of a job written down by hand as digests: true times in, each rank's own clock's times out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/rank_digest.h"

namespace profgpu::test {

class HandJob {
 public:
  /// What a rank's clock shows at true time t: t + ahead + fast * t.
  struct Clock {
    int64_t ahead_ns = 0;
    double fast_ppm = 0;
  };
  struct Call {
    std::string name = "all_reduce", group = "0", members = "";
    int64_t elements = 1000, message_bytes = 4000;
    int64_t number = 0, step = -1;
    int32_t group_size = 0;   ///< 0: as many as take part
    int32_t peer = -1;
    bool described = true;
  };
  struct Part {
    int rank = 0;
    int64_t arrival_ns = 0, end_ns = 0;
  };

  /// The next rank's number.
  int add(std::string host = "") { return add(std::move(host), Clock()); }
  int add(std::string host, Clock clock) {
    RankDigest d;
    d.rank = static_cast<int>(ranks.size());
    d.host = std::move(host);
    d.extent = {INT64_MAX, INT64_MIN};
    ranks.push_back(std::move(d));
    clocks_.push_back(clock);
    return ranks.back().rank;
  }
  [[nodiscard]] int64_t shown(int rank, int64_t true_ns) const {
    const Clock& c = clocks_[static_cast<size_t>(rank)];
    return true_ns + c.ahead_ns + std::llround(c.fast_ppm * 1e-6 * static_cast<double>(true_ns));
  }
  void call(const Call& call, const std::vector<Part>& parts) {
    const int32_t size = call.group_size > 0 ? call.group_size : static_cast<int32_t>(parts.size());
    for (const Part& p : parts) add_call(call, p, size);
  }
  /// Annotated steps of all ranks, one after the other from 0.
  void steps(int count, int64_t length_ns) {
    for (RankDigest& d : ranks) {
      d.annotated = true;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t start = shown(d.rank, i * length_ns);
        d.steps.push_back({i, start, shown(d.rank, (i + 1) * length_ns) - start, true});
      }
      cover(d.rank, 0, count * length_ns);
    }
  }
  /// The rank's trace covers this.
  void cover(int rank, int64_t from_ns, int64_t to_ns) {
    Interval& extent = ranks[static_cast<size_t>(rank)].extent;
    extent = {std::min(extent.start, shown(rank, from_ns)), std::max(extent.end, shown(rank, to_ns))};
  }

  std::vector<RankDigest> ranks;

 private:
  void add_call(const Call& call, const Part& part, int32_t group_size) {
    RankDigest& d = ranks[static_cast<size_t>(part.rank)];
    CollectiveKind kind;
    kind.group = call.group;
    kind.members = call.members;
    kind.name = call.name;
    kind.group_size = group_size;
    kind.described = call.described;
    std::vector<CollectiveKind>& kinds = d.calls.kinds;
    const auto known = std::find(kinds.begin(), kinds.end(), kind);
    CollectiveCall c;
    c.kind = static_cast<uint32_t>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(kind);
    if (d.calls.rows.empty()) d.calls.rows.emplace_back();
    c.activity = ActivityId(d.calls.calls.size());
    c.start_ns = c.launch_ns = shown(part.rank, part.arrival_ns);
    c.end_ns = shown(part.rank, part.end_ns);
    c.elements = call.elements;
    c.message_bytes = call.message_bytes;
    c.number = call.number;
    c.step = call.step;
    if (call.step >= 0) c.step_index = static_cast<uint32_t>(call.step);
    c.peer = call.peer;
    c.measured = true;
    d.calls.calls.push_back(c);
    cover(part.rank, part.arrival_ns, part.end_ns);
  }
  std::vector<Clock> clocks_;
};

}  // namespace profgpu::test
