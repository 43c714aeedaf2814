#include "tests/support/sim_samples.h"

#include <algorithm>

#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

constexpr int64_t kTickNs = 10'000'000, kSpreadMhz = 15;
constexpr int kMaxClockMhz = 1980, kClockMhz = 1755;   // an H100's highest, and under load
constexpr int kThermalSlowdown = 0x40;                 // NVML's clock event reasons

struct Device {
  int number;
  const HostClock* clock;
  std::vector<StepSpan> slow_steps;
};

void append_row(std::string& out, const std::string& host, const Device& d, int64_t time_ns, bool first, bool slow,
                int64_t clock_mhz, const SimOptions& o) {
  out += "{\"time_ns\":" +
         std::to_string(kBaseTimeNs + time_ns + d.clock->drift_ns(time_ns - kJobStartNs) + d.clock->offset_ns) +
         ",\"device\":" + std::to_string(d.number);
  if (first)
    out += std::string(",\"name\":\"") + facts(o.gpu).name + "\",\"sm_clock_max_mhz\":" + std::to_string(kMaxClockMhz);
  if (first && !host.empty()) out += ",\"host\":\"" + host + "\"";
  out += ",\"utilization_pct\":99,\"power_w\":" + std::to_string(slow ? 480 : 610) +
         ",\"temperature_c\":" + std::to_string(slow ? 86 : 63) + ",\"sm_clock_mhz\":" + std::to_string(clock_mhz) +
         ",\"clock_event_reasons\":" + std::to_string(slow ? kThermalSlowdown : 0) + "}\n";
}

}  // namespace

std::vector<SampleText> sample_texts(const SimOptions& options, const std::vector<TraceTruth>& traces) {
  const Plan plan = plan_of(options);
  const Layout layout(options);
  int64_t end_ns = kJobStartNs;
  std::vector<std::vector<Device>> hosts(static_cast<size_t>(std::max(options.hosts, 1)));
  for (const TraceTruth& t : traces) {
    const RankPlace& place = layout.ranks[static_cast<size_t>(t.steps.rank)];
    std::vector<Device>& devices = hosts[static_cast<size_t>(place.host)];
    if (t.steps.window == 0) devices.push_back({place.local_rank % 8, &place.clock, {}});
    for (size_t i = 0; i < t.steps.steps.size(); ++i) {
      const StepSpan& step = t.steps.steps[i];
      end_ns = std::max(end_ns, step.start_ns + step.duration_ns);
      const auto index = static_cast<int>(i) + t.steps.window * options.steps;
      if (plan.clock_permille < 1000 && slow_rank(options, t.steps.rank) && slow_step(options, index)) devices.back().slow_steps.push_back(step);
    }
  }
  std::vector<SampleText> out;
  Noise noise;
  noise.reseed(options.seed, 0, 0, 1 << 20);
  for (size_t h = 0; h < hosts.size(); ++h) {
    out.push_back({options.hosts > 0 ? "node-" + std::to_string(h) : "", ""});
    for (int64_t t = kJobStartNs; t < end_ns; t += kTickNs) {
      for (const Device& d : hosts[h]) {
        const bool slow = std::any_of(d.slow_steps.begin(), d.slow_steps.end(), [&](const StepSpan& s) {
          return s.start_ns <= t && t < s.start_ns + s.duration_ns;
        });
        const int64_t mhz = kClockMhz + noise.below(kSpreadMhz);
        append_row(out.back().text, out.back().host, d, t, t == kJobStartNs, slow,
                   slow ? mhz * plan.clock_permille / 1000 : mhz, options);
      }
    }
  }
  return out;
}

}  // namespace profgpu::sim
