#include "job/traffic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "analyse/collectives.h"
#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

struct Sums {
  int64_t calls = 0, whole_calls = 0, wait_ns = 0;
  std::vector<int64_t> bytes, whole_bytes, waits, transfers;   // whole: of whole calls, as transfers
  uint32_t rank = 0;   // place of one of its ranks
};

// Of ranks in hand: two hosts tell, one tells only if the whole group is in hand.
std::optional<bool> spans_hosts(std::span<const RankDigest> ranks, const Meeting& m) {
  const std::string& first = ranks[m.calls.front().rank].host;
  bool known = m.whole_group && !first.empty();
  for (const RankCall& c : m.calls) {
    const std::string& host = ranks[c.rank].host;
    if (!host.empty() && !first.empty() && host != first) return true;
    known &= !host.empty();
  }
  return known ? std::optional(false) : std::nullopt;
}

void add(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const Meeting& m, int64_t bytes,
         Sums& s) {
  ++s.calls;
  s.rank = m.calls.front().rank;
  if (bytes >= 0) s.bytes.push_back(bytes);
  for (const RankCall& c : m.calls) {
    const CollectiveCall& call = ranks[c.rank].calls.calls[c.call];
    const int64_t till = std::min(m.last_ns, clocks[c.rank].aligned(call.end_ns));
    s.waits.push_back(std::max<int64_t>(0, saturated_sub(till, clocks[c.rank].aligned(call.start_ns))));
    s.wait_ns = saturated_add(s.wait_ns, s.waits.back());
  }
  if (!m.whole_group || m.transfer_ns() <= 0) return;
  ++s.whole_calls;
  s.transfers.push_back(m.transfer_ns());
  if (bytes > 0) s.whole_bytes.push_back(bytes);
}

int64_t median_ns(std::vector<int64_t> values) {
  constexpr double kMost = 9e18;   // what a broken clock may give
  return std::llround(std::min(percentile(std::move(values), 50).value_or(0), kMost));
}

Traffic traffic_of(std::span<const RankDigest> ranks, Sums& s) {
  Traffic t;
  t.calls = s.calls;
  t.whole_calls = s.whole_calls;
  t.wait_ns = s.wait_ns;
  t.median_wait_ns = median_ns(s.waits);
  const std::vector<int64_t>& bytes = s.whole_bytes.empty() ? s.bytes : s.whole_bytes;
  if (!bytes.empty()) t.message_bytes = median_ns(bytes);
  if (!s.transfers.empty()) t.transfer_ns = median_ns(s.transfers);
  if (!s.whole_bytes.empty() && *t.transfer_ns > 0)
    t.algbw_gbps = static_cast<double>(*t.message_bytes) / static_cast<double>(*t.transfer_ns);
  t.link_gbps = link_rate_gbps(ranks[s.rank].device_name);
  return t;
}

}  // namespace

std::optional<double> Traffic::link_pct() const {
  if (!busbw_gbps || !link_gbps) return std::nullopt;
  return 100.0 * *busbw_gbps / *link_gbps;
}

std::vector<Traffic> traffic(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                             std::span<const Meeting> all) {
  std::map<std::tuple<std::string, int64_t, std::optional<bool>, int64_t>, Sums> classes;
  for (const Meeting& m : all) {
    const RankDigest& rank = ranks[m.calls.front().rank];
    const CollectiveCall& call = rank.calls.calls[m.calls.front().call];
    const auto bytes = static_cast<uint64_t>(std::max<int64_t>(call.message_bytes, 0));
    const int64_t from = call.message_bytes < 0 ? -1 : static_cast<int64_t>(std::bit_floor(bytes));
    add(ranks, clocks, m, call.message_bytes,
        classes[{rank.call_name(call), rank.kind(call).group_size, spans_hosts(ranks, m), from}]);
  }
  std::vector<Traffic> out;
  for (auto& [key, sums] : classes) {
    Traffic t = traffic_of(ranks, sums);
    std::tie(t.name, t.group_size, t.spans_hosts, t.size_from_bytes) = key;
    if (t.algbw_gbps) t.busbw_gbps = *t.algbw_gbps * bus_factor(t.name, t.group_size);
    // The table knows links within a node only.
    if (t.spans_hosts.value_or(false) || t.group_size > kDevicesOfOneNode) t.link_gbps.reset();
    out.push_back(std::move(t));
  }
  return out;
}

// Half of the bidirectional figure in the vendors' data sheets: NVLink 2 to 5 for SXM modules, Infinity Fabric for
// Instinct. Names that fit both a PCIe and an SXM board are left out.
std::optional<double> link_rate_gbps(std::string_view name) {
  struct Rate {
    std::string_view part;
    double gbps;
  };
  constexpr Rate kRates[] = {
      {"GB200", 900}, {"B200", 900},           {"B100", 900},
      {"H200", 450},  {"H100 80GB HBM3", 450}, {"H100-SXM", 450}, {"H100 SXM", 450}, {"H800", 200},
      {"A100-SXM", 300}, {"A100 SXM", 300},    {"A800-SXM", 200},
      {"V100-SXM", 150}, {"V100-DGXS", 100},
      {"MI300X", 448},
  };
  for (const Rate& r : kRates)
    if (name.find(r.part) != name.npos) return r.gbps;
  return std::nullopt;
}

}  // namespace profgpu
