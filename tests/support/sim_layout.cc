#include "tests/support/sim_layout.h"

#include <algorithm>

#include "tests/support/noise.h"
#include "tests/support/simulator.h"

namespace profgpu::sim {
namespace {

constexpr uint64_t kClockPlace = 8192;   // of the noise

int64_t within(Noise& noise, int64_t most) { return noise.below(2 * most + 1) - most; }

HostClock clock_of(const SimOptions& o, int host) {
  HostClock clock;
  if (host > 0) {
    Noise noise;
    noise.reseed(o.seed, kClockPlace, static_cast<uint64_t>(host), 0);
    clock = {within(noise, o.clock_error_ns), within(noise, o.drift_error_ppb)};
  }
  for (const auto& [which, given] : o.clock_offsets)
    if (which == host) clock.offset_ns = given;
  for (const auto& [which, given] : o.clock_drifts)
    if (which == host) clock.drift_ppb = given;
  return clock;
}

}  // namespace

bool slow_rank(const SimOptions& o, int rank) {
  if (o.slow_ranks.empty()) return rank + 1 == o.ranks;
  return std::find(o.slow_ranks.begin(), o.slow_ranks.end(), rank) != o.slow_ranks.end();
}

bool slow_step(const SimOptions& o, int index) { return index % o.slow_every == o.slow_every - 1; }

bool Layout::slow_host(const SimOptions& o, int rank) const {
  if (o.hosts < 2) return slow_rank(o, rank);
  const int host = ranks[static_cast<size_t>(rank)].host;
  for (int other = 0; other < o.ranks; ++other)
    if (ranks[static_cast<size_t>(other)].host == host && slow_rank(o, other)) return true;
  return false;
}

Layout::Layout(const SimOptions& options) : ranks(static_cast<size_t>(options.ranks)), groups(1) {
  place_hosts(options);
  Group world{"0", "default_pg", {}};
  for (int r = 0; r < options.ranks; ++r) world.ranks.push_back(r);
  groups[kWorld].push_back(std::move(world));
  for (RankPlace& r : ranks) r.group.assign(1, 0);
  if (options.model_group() > 0) split_groups(options);
}

void Layout::place_hosts(const SimOptions& options) {
  const int hosts = options.hosts > 0 ? options.hosts : 1, each = (options.ranks + hosts - 1) / hosts;
  for (int r = 0; r < options.ranks; ++r) {
    RankPlace& place = ranks[static_cast<size_t>(r)];
    place.host = r / each;
    place.local_rank = r % each;
    if (options.hosts > 0) place.host_name = "node-" + std::to_string(place.host);
    place.clock = clock_of(options, place.host);
    place.clock.offset_ns += options.clock_skew_ns * r;
  }
}

void Layout::split_groups(const SimOptions& options) {
  const int model = options.model_group(), data = options.ranks / model;
  const bool apart = options.strategy == Strategy::pp;
  const char* names[] = {"mesh_tp", "mesh_pp", "mesh_ep"};
  const char* model_name = names[static_cast<int>(options.strategy) - static_cast<int>(Strategy::tp)];
  int number = 0;
  const auto describe = [&](const char* name) {
    return Group{std::to_string(++number), options.named_groups ? name : "undefined", {}};
  };
  groups.resize(3);
  for (int d = 0; d < data; ++d) {
    groups[kModel].push_back(describe(model_name));
    for (int m = 0; m < model; ++m) groups[kModel].back().ranks.push_back(apart ? m * data + d : d * model + m);
  }
  for (int m = 0; m < model; ++m) {
    groups[kData].push_back(describe("mesh_dp"));
    for (int d = 0; d < data; ++d) groups[kData].back().ranks.push_back(apart ? m * data + d : d * model + m);
  }
  for (const GroupSlot slot : {kModel, kData})
    for (uint32_t g = 0; g < groups[slot].size(); ++g)
      for (const int r : groups[slot][g].ranks) ranks[static_cast<size_t>(r)].group.push_back(g);
}

int Layout::place_in_group(int rank, GroupSlot slot) const {
  const std::vector<int>& members = group(rank, slot).ranks;
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

std::vector<Group> Layout::groups_of(int rank) const {
  std::vector<Group> all;
  for (size_t slot = 0; slot < groups.size(); ++slot) all.push_back(group(rank, static_cast<GroupSlot>(slot)));
  return all;
}

}  // namespace profgpu::sim
