#include "analyse/rules/worker_starts.h"

#include <algorithm>

#include "analyse/rank/names.h"

namespace profgpu {
namespace {

// Workers that stay end an epoch within microseconds; those that do not are waited for.
constexpr int64_t kShutdown_ns = 1'000'000;
constexpr size_t kMinEpochs = 2;

/// Waits for batches with no training between them.
struct WaitChain {
  Interval first, last;
  size_t waits = 0;
  [[nodiscard]] Interval whole() const { return {first.start, last.end}; }
};

// Of the step's thread: whether the row is training, so that the waits before and after it are for different batches.
bool is_training(const Names& names, const HostTable& h, HostId row) {
  if (h.kind[row.value] == HostKind::kPython) return false;
  const Phase phase = names.phase[h.name[row.value].value];
  return names.autograd[h.name[row.value].value] || phase == Phase::kForward || phase == Phase::kBackward ||
         phase == Phase::kOptimizer;
}

// A loader that starts runs a few operators itself, for its seed and the order of its samples.
bool is_other_work(Interval gap, int64_t operators_ns) {
  return operators_ns > std::max<int64_t>(1'000'000, gap.length() / 2);
}

std::vector<WaitChain> chains_of(const Measured& m) {
  const HostTable& h = m.trace().host;
  const Names& names = m.facts().get<Names>();
  const Thread& thread = m.trace().threads[m.facts().get<Steps>().thread.value];
  std::vector<WaitChain> chains;
  bool trained = true;
  int64_t until = INT64_MIN, operators_ns = 0, operators_until = INT64_MIN;
  for (HostId i = thread.begin; i < thread.end; ++i) {
    const Interval time = h.interval(i);
    trained |= is_training(names, h, i);
    if (time.start < until) continue;   // within a wait
    if (h.kind[i.value] == HostKind::kOp && time.start >= operators_until)
      operators_ns += time.length(), operators_until = time.end;
    if (names.phase[h.name[i.value].value] != Phase::kDataLoading || h.kind[i.value] == HostKind::kPython) continue;
    const bool follows = !chains.empty() && !trained && !is_other_work({until, time.start}, operators_ns);
    if (!follows) chains.push_back({time, time, 0});
    chains.back().last = time;
    ++chains.back().waits;
    trained = false, until = time.end, operators_ns = 0;
  }
  return chains;
}

}  // namespace

// An epoch ends with a wait that brings no batch and the first wait of the next one follows; the recorder marks the
// start of the workers between them. More waits in a row are another loop, such as a validation.
WorkerStarts worker_starts(const Measured& m) {
  std::vector<int64_t> single, shutdown, whole;
  WorkerStarts out;
  for (const WaitChain& c : chains_of(m)) {
    if (!m.in_measured_step(c.first.start) && !m.in_measured_step(c.last.start)) continue;
    out.waited_ns += c.whole().length();
    if (c.waits == 1) single.push_back(c.last.length());
    if (c.waits != 2 && c.waits != 3) continue;
    shutdown.push_back(c.first.length());
    whole.push_back(c.whole().length());
  }
  if (whole.size() < kMinEpochs || single.size() < whole.size() || lower_median(shutdown) < kShutdown_ns) return {};
  const int64_t usual_ns = upper_median(single);
  for (const int64_t ns : whole) out.extra_ns += std::max<int64_t>(0, ns - usual_ns);
  out.count = static_cast<int64_t>(whole.size());
  out.median_ns = lower_median(whole);
  return out;
}

}  // namespace profgpu
