#include "analyse/rank/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analyse/rank/devices.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "analyse/report/quantity.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

// Finer than drivers read their sensors, and few enough to keep of every rank.
constexpr int64_t kMaxEnergyBins = 1000;
constexpr int64_t kMinBin_ns = 1'000'000;

// Where a counter and power are compared: shares of the counter's energy and of its time, and readings.
constexpr double kAgreePart = 0.05;
constexpr double kSameTime = 0.02;
constexpr int64_t kMinReadings = 10;

Intervals binned(const Intervals& time) {
  const int64_t width_ns = std::max(kMinBin_ns, (total_length(time) + kMaxEnergyBins - 1) / kMaxEnergyBins);
  Intervals bins;
  for (const Interval& i : time)
    for (int64_t at = i.start; at < i.end; at = saturated_add(at, width_ns))
      bins.push_back({at, std::min(i.end, saturated_add(at, width_ns))});
  return bins;
}

// What is left of each bin by states that come before.
BinnedTime rest_of(std::string name, const Intervals& bins, const std::vector<BinnedTime>& before) {
  BinnedTime rest{std::move(name), 0, {}};
  for (size_t b = 0; b < bins.size(); ++b) {
    int64_t left = bins[b].length();
    for (const BinnedTime& t : before) left -= t.ns[b];
    rest.ns.push_back(std::max<int64_t>(left, 0));
    rest.total_ns += rest.ns.back();
  }
  return rest;
}

void add(std::vector<BinnedTime>& all, BinnedTime time) {
  if (time.total_ns > 0) all.push_back(std::move(time));
}

std::vector<BinnedTime> phases_in(const Facts& facts, const Intervals& bins) {
  const Phases& phases = facts.get<Phases>();
  const Steps& steps = facts.get<Steps>();
  std::array<Intervals, kMaxPhases> time;
  for (const PhaseSegment& s : phases.segments)
    if (steps.steps[s.step].measured) append(time[static_cast<size_t>(s.phase)], {s.start_ns, s.end_ns});
  std::vector<BinnedTime> all;
  for (const Phase p : phases.all())
    add(all, BinnedTime::of(std::string(phases.name(p)), time[static_cast<size_t>(p)], bins));
  return all;
}

std::vector<BinnedTime> states_in(const Facts& facts, const Intervals& bins) {
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return {};
  const DeviceTime& d = devices.devices[static_cast<size_t>(devices.busiest)];
  std::vector<BinnedTime> all;
  add(all, BinnedTime::of("compute", d.compute, bins));
  add(all, BinnedTime::of("exposed_communication", d.exposed_communication, bins));
  add(all, BinnedTime::of("exposed_copies", d.exposed_memory, bins));
  add(all, rest_of("idle", bins, all));
  return all;
}

std::vector<EnergyPart> parts_of(const PowerCourse& course, const Intervals& bins,
                                 const std::vector<BinnedTime>& times) {
  std::vector<EnergyPart> parts;
  for (const BinnedTime& t : times) parts.push_back({t.name, t.total_ns, course.during(bins, t.ns)});
  return parts;
}

std::optional<double> energy_of(const EnergyPart* part) {
  return part != nullptr ? std::optional(part->amount.energy_j) : std::nullopt;
}

std::optional<double> energy_per(std::optional<double> energy_j, std::optional<double> amount) {
  return energy_j && amount && *amount > 0 ? std::optional(*energy_j / *amount) : std::nullopt;
}

EnergyTotal total_of(const EnergyInput& in, const EnergyAmount& all, const EnergySection& section) {
  EnergyTotal total;
  total.rates = in.rates;
  total.steps = static_cast<int64_t>(in.steps.size());
  for (const EnergyStep& s : in.steps) total.wall_ns += s.time.length();
  total.known_pct = std::min(100.0, percent_of(all.known_ns, total.wall_ns));
  total.energy_j = all.energy_j, total.error_j = all.error_j;
  total.idle_j = energy_of(section.part("idle"));
  total.waiting_j = energy_of(section.part(kWaitingForRanks));
  if (total.known_pct < EnergyTotal::kMinKnownPct || total.steps == 0) return total;
  const double step_s = static_cast<double>(total.wall_ns) / 1e9 / static_cast<double>(total.steps);
  total.per_step_j = all.energy_j * 1e9 / static_cast<double>(all.known_ns) * step_s;
  total.per_token_j = energy_per(total.per_step_j, in.times.load.tokens);
  total.per_sample_j = energy_per(total.per_step_j, in.times.load.samples);
  total.delay_product_js = *total.per_step_j * step_s;
  return total;
}

// Of the same time by the power that was sampled beside a counter; none: it was not, or not all of that time.
std::optional<double> integrated_beside(const EnergyInput& in, const std::vector<int64_t>& whole,
                                        const EnergyAmount& counted, EnergySection& section) {
  if (section.method != "counter" || in.power == nullptr) return std::nullopt;
  const EnergyAmount power = in.power->during(in.times.bins, whole);
  const double covered = static_cast<double>(power.known_ns) / static_cast<double>(counted.known_ns);
  if (std::abs(covered - 1) > kSameTime) return std::nullopt;
  const double apart_j = std::abs(power.energy_j - counted.energy_j);
  const bool many = counted.known_ns >= kMinReadings * std::max(section.resolution_ns, in.power->resolution_ns());
  // Less than what lies between two readings may be nothing.
  if (many && apart_j > kAgreePart * counted.energy_j && apart_j > power.error_j + counted.error_j)
    section.notes.push_back(fmt::format(
        "the counter and the power disagree: {} J by the counter, {} J by the power over the same time ({} apart); "
        "take neither for exact", format_number(counted.energy_j), format_number(power.energy_j),
        format_percent(100 * apart_j / counted.energy_j, 0)));
  return power.energy_j;
}

std::vector<std::string> notes_of(const EnergyInput& in, const EnergySection& section) {
  std::vector<std::string> notes;
  const EnergyTotal& total = *section.total;
  const std::string every = format_duration(static_cast<double>(section.resolution_ns));
  notes.push_back(
      section.method == "counter"
          ? fmt::format("from the driver's energy counter, which changes every {}", every)
          : fmt::format("from the power integrated over time, read every {}", every));
  notes.push_back(fmt::format("within {} of {} J at that resolution, without the sensor's own error",
                              format_percent(100 * total.error_j / std::max(total.energy_j, 1e-9)),
                              format_number(total.energy_j)));
  if (total.known_pct < 99.5)
    notes.push_back(fmt::format("samples cover {} of the measured steps", format_percent(total.known_pct, 0)));
  const int64_t step_ns = total.wall_ns / std::max<int64_t>(total.steps, 1);
  if (step_ns < 2 * section.resolution_ns)
    notes.push_back(fmt::format("a step of {} is too short to tell its phases apart: they share the power of {}",
                                format_duration(static_cast<double>(step_ns)), every));
  if (!in.waiting && section.part("exposed_communication") != nullptr)
    notes.emplace_back("what waiting for other ranks took is only known with the traces of those ranks");
  return notes;
}

}  // namespace

BinnedTime BinnedTime::of(std::string name, const Intervals& time, const Intervals& bins) {
  BinnedTime all{std::move(name), 0, {}};
  all.ns.reserve(bins.size());
  size_t at = 0;
  for (const Interval& bin : bins) {
    while (at < time.size() && time[at].end <= bin.start) ++at;
    int64_t ns = 0;
    for (size_t i = at; i < time.size() && time[i].start < bin.end; ++i) ns += overlap_length(time[i], bin);
    all.ns.push_back(ns);
    all.total_ns += ns;
  }
  return all;
}

EnergyTimes EnergyTimes::compute(const Facts& facts) {
  EnergyTimes times;
  times.bins = binned(facts.get<Steps>().measured_time());
  times.phases = phases_in(facts, times.bins);
  times.states = states_in(facts, times.bins);
  times.load = facts.get<StepLoad>();
  for (Interval& bin : times.bins)
    bin = {saturated_add(bin.start, facts.trace().base_time_ns), saturated_add(bin.end, facts.trace().base_time_ns)};
  return times;
}

EnergySection energy_section(const EnergyInput& in) {
  EnergySection section;
  section.method = in.course.method();
  section.resolution_ns = in.course.resolution_ns();
  std::vector<int64_t> whole;
  for (const Interval& bin : in.times.bins) whole.push_back(bin.length());
  const EnergyAmount all = in.course.during(in.times.bins, whole);
  if (all.known_ns <= 0) {
    section.missing = "no sample with power or energy lies within the measured steps: sample more often (profgpu run "
                      "--interval), or record more steps";
    return section;
  }
  section.phases = parts_of(in.course, in.times.bins, in.times.phases);
  section.parts = parts_of(in.course, in.times.bins, in.times.states);
  if (in.waiting && in.waiting->total_ns > 0)
    section.parts.push_back({std::string(kWaitingForRanks), in.waiting->total_ns,
                             in.course.during(in.times.bins, in.waiting->ns)});
  for (const EnergyStep& s : in.steps)
    section.by_step.push_back({s.index, s.time.length(), in.course.during(s.time)});
  section.total = total_of(in, all, section);
  section.integrated_j = integrated_beside(in, whole, all, section);
  std::vector<std::string> notes = notes_of(in, section);
  section.notes.insert(section.notes.begin(), std::make_move_iterator(notes.begin()),
                       std::make_move_iterator(notes.end()));
  return section;
}

}  // namespace profgpu
