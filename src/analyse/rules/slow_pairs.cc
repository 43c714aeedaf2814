// Pairs of GPUs, or a GPU and its host, that copy far slower than their peers, by nvbandwidth.
#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "analyse/rules/log_checks.h"
#include "base/text.h"

namespace profgpu {
namespace {

std::optional<double> slow_pair_count(const LogReport& log) {
  if (log.copies.tests.empty()) return std::nullopt;
  return static_cast<double>(log.copies.slow.size());
}

const CopyRow& test_of(const LogReport& log, const SlowPair& pair) {
  return *first_where(log.copies.tests, [&](const CopyRow& t) { return t.test == pair.test; });
}

// "GPU 2 and GPU 5: 198 GB/s, usual 395 (device to device memcpy read ce)"
std::string pair_text(const LogReport& log, const SlowPair& p) {
  const std::string who = p.from == p.to ? p.from : p.from + " and " + p.to;
  return fmt::format("{}{}: {} {}, usual {} ({})", who, p.place, format_number(p.value), test_of(log, p).unit,
                     format_number(p.usual), words(p.test));
}

void describe_slow_pairs(const LogReport& log, Finding& f) {
  constexpr size_t kMostPairs = 6;
  const std::vector<SlowPair>& slow = log.copies.slow;
  const SlowPair& worst = slow.front();
  const std::string common = common_device(slow);
  const CopyRow& test = test_of(log, worst);
  const std::string figures = fmt::format("{} {}, where {} is usual", format_number(worst.value), test.unit,
                                          format_number(worst.usual));
  const bool latency = test.unit == "ns", one = !common.empty() || worst.from == worst.to;
  std::string who = common;
  if (common.empty()) who = worst.from == worst.to ? worst.from : worst.from + " and " + worst.to;
  const auto elsewhere = [&](const SlowPair& p) { return p.place != worst.place; };
  if (common.empty() || std::ranges::none_of(slow, elsewhere)) who += worst.place;
  if (one) f.what = fmt::format("{} {} {}", who, latency ? "answers after" : "copies at", figures);
  else f.what = fmt::format("{} {} {}", who, latency ? "answer each other after" : "copy at", figures);
  f.why = "The test copies between one pair at a time, and its peers are much faster. A collective is as fast as its "
          "slowest link.";
  f.fix = {"nvidia-smi topo -m: pairs with other links (PIX, SYS instead of NV#) are slower by design",
           "nvidia-smi nvlink -s and -e: links that are down, or have errors; nvidia-smi -q -d PCIE: the link's "
           "generation and width against their maximum",
           "test without other load; then reseat, reset or replace that GPU, cable or switch"};
  for (const SlowPair& p : slow)
    if (f.evidence.size() < kMostPairs) f.evidence.push_back(pair_text(log, p));
  if (slow.size() > kMostPairs) f.evidence.push_back(fmt::format("and {} more", slow.size() - kMostPairs));
}

}  // namespace

extern const Rule kSlowPairs = {
    .id = "slow-pairs",
    .summary = "a pair of GPUs, or a GPU and its host, copies far slower than its peers",
    .unit = "count",
    .threshold = 0,
    .meaning =
        "Pairs with the same link should copy at the same rate. One that is far behind has a link that is down, runs "
        "with fewer lanes, or goes another way.",
    .computation =
        "Value: pairs with less than 70 % of the 75th percentile of their test (of latencies, more than 1/0.7 of the "
        "25th), in nvbandwidth's tests of one pair at a time; not where half of the pairs or more are: these have "
        "different links. No cost.",
    .advice = {"compare with nvidia-smi topo -m: other links are slower by design",
               "NVLink states and errors, PCIe generation and width; Xid messages: profgpu doctor",
               "reset, reseat or replace what all slow pairs have in common"},
    .log = {.value = slow_pair_count, .describe = describe_slow_pairs},
};

}  // namespace profgpu
