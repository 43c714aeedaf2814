#include "analyse/job/job_energy.h"

#include <algorithm>

#include "trace/intervals.h"

namespace profgpu {
namespace {

constexpr std::string_view kHowToSample =
    "record samples beside the trace (profgpu run --samples FILE, or profgpu log -o FILE) and pass --samples FILE";

// Where the rank is in a collective of a measured step, does not compute, and not all ranks have come.
Intervals waiting_for_ranks(const RankDigest& rank, const CallTimings& timings) {
  Intervals all;
  for (const CollectiveCall& call : rank.calls.calls) {
    if (!call.measured) continue;
    const CallTiming* const timing = timings.find(call.activity, call.host);
    if (timing == nullptr || timing->wait_ns <= 0) continue;
    const Interval wait{call.start_ns, std::min(call.end_ns, call.start_ns + timing->wait_ns)};
    const std::span<const Interval> cover = rank.cover(call);
    for (const Interval& alone : subtract({wait}, Intervals(cover.begin(), cover.end()))) all.push_back(alone);
  }
  return merged(std::move(all));
}

EnergySection section_of(const RankDigest& rank, const Job* job, size_t place, const SampleLog& samples,
                         std::optional<uint32_t> device, const EnergyRates& rates) {
  EnergySection none;
  if (samples.empty()) none.missing = "no samples of devices: " + std::string(kHowToSample);
  else if (!device) none.missing = "it is not known which sampled device is the rank's";
  const std::optional<PowerCourse> course = device ? PowerCourse::of(samples, *device) : std::nullopt;
  const std::optional<PowerCourse> power = device ? PowerCourse::of_power(samples, *device) : std::nullopt;
  if (device && !course) none.missing = "the samples have neither power nor energy: " + std::string(kHowToSample);
  if (!course) return none;
  const auto aligned = [&](Interval time) {
    return job != nullptr && place < job->clocks.size() ? job->clocks[place].aligned(time) : time;
  };
  EnergyTimes times = rank.energy;
  std::vector<EnergyStep> steps;
  for (const DigestStep& s : rank.steps)
    if (s.measured) steps.push_back({s.index, aligned(s.interval())});
  std::optional<BinnedTime> waiting;
  if (const CallTimings* timings = job != nullptr ? job->timings(rank.rank) : nullptr)
    waiting = BinnedTime::of(std::string(kWaitingForRanks), waiting_for_ranks(rank, *timings), times.bins);
  for (Interval& bin : times.bins) bin = aligned(bin);
  EnergySection section = energy_section({*course, times, steps, std::move(waiting), rates, power ? &*power : nullptr});
  section.device = samples.label(*device);
  if (section.total && samples.devices[*device].parent)
    section.notes.emplace_back("power and energy are of the whole GPU, which other instances share");
  return section;
}

void add(std::optional<double>& sum, std::optional<double> more) {
  if (more) sum = sum.value_or(0) + *more;
}

// A step of the job is one step of every rank.
std::optional<JobEnergy> job_of(std::span<const RankDigest* const> ranks, std::span<const EnergySection> sections,
                                const EnergyRates& rates) {
  JobEnergy all;
  all.ranks = static_cast<int64_t>(ranks.size());
  EnergyTotal& sum = all.total;
  double known_ns = 0, step_s = 0, tokens = 0, samples = 0;
  bool each_step = true, each_tokens = true, each_samples = true;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::optional<EnergyTotal>& one = sections[i].total;
    if (!one) continue;
    ++all.known_ranks;
    sum.steps = std::max(sum.steps, one->steps);
    sum.wall_ns += one->wall_ns;
    sum.energy_j += one->energy_j, sum.error_j += one->error_j;
    known_ns += one->known_pct / 100 * static_cast<double>(one->wall_ns);
    add(sum.per_step_j, one->per_step_j), add(sum.idle_j, one->idle_j), add(sum.waiting_j, one->waiting_j);
    each_step = each_step && one->per_step_j.has_value();
    if (one->steps > 0)
      step_s = std::max(step_s, static_cast<double>(one->wall_ns) / 1e9 / static_cast<double>(one->steps));
    const StepLoad& load = ranks[i]->energy.load;
    each_tokens = each_tokens && load.tokens, each_samples = each_samples && load.samples;
    tokens += load.tokens.value_or(0), samples += load.samples.value_or(0);
  }
  if (all.known_ranks == 0) return std::nullopt;
  sum.rates = rates;
  sum.known_pct = sum.wall_ns > 0 ? 100 * known_ns / static_cast<double>(sum.wall_ns) : 0;
  if (!each_step) sum.per_step_j.reset();
  if (sum.per_step_j) {
    sum.delay_product_js = *sum.per_step_j * step_s;
    if (each_tokens && tokens > 0) sum.per_token_j = *sum.per_step_j / tokens;
    if (each_samples && samples > 0) sum.per_sample_j = *sum.per_step_j / samples;
  }
  return all;
}

}  // namespace

RanksEnergy ranks_energy(std::span<const RankDigest* const> ranks, const Job* job, const SampleLog& samples,
                         const EnergyRates& rates) {
  RanksEnergy out;
  const std::vector<std::optional<uint32_t>> devices = sampled_devices(ranks, samples);
  for (size_t i = 0; i < ranks.size(); ++i)
    out.sections.push_back(section_of(*ranks[i], job, i, samples, devices[i], rates));
  out.job = job_of(ranks, out.sections, rates);
  return out;
}

}  // namespace profgpu
