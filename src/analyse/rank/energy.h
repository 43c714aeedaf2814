// Energy of a rank's measured steps: what its device drew in them, by phase and by what it did, from samples.
//
// A trace is dropped before samples are joined, so EnergyTimes keeps of it when each phase and state was, in bins.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/power_course.h"
#include "analyse/rank/step_load.h"
#include "analyse/report/document.h"
#include "analyse/report/report.h"

namespace profgpu {

/// The part of each bin in which something holds.
struct BinnedTime {
  std::string name;
  int64_t total_ns = 0;
  std::vector<int64_t> ns;   ///< by bin

  static BinnedTime of(std::string name, const Intervals& time, const Intervals& bins);
};

/// The measured steps' time in bins; Unix time if the trace has it.
struct EnergyTimes {
  Intervals bins;                    ///< disjoint, in order: all time of the measured steps
  std::vector<BinnedTime> phases;    ///< those that take time, in their order; a partition
  /// Of the busiest device: compute, exposed_communication, exposed_copies, idle; a partition. Empty: no device.
  std::vector<BinnedTime> states;
  StepLoad load;

  static EnergyTimes compute(const Facts& facts);
};

struct EnergyPart {
  std::string name;
  int64_t total_ns = 0;            ///< over the measured steps
  EnergyAmount amount;
  [[nodiscard]] std::optional<double> mean_w() const {
    return amount.known_ns > 0 ? std::optional(amount.energy_j * 1e9 / static_cast<double>(amount.known_ns))
                               : std::nullopt;
  }

  void fields(auto&& v) const {
    v("name", name), v("total_ns", total_ns), v("energy_j", only_if(amount.known_ns > 0, amount.energy_j));
    v("error_j", only_if(amount.known_ns > 0, amount.error_j)), v("mean_power_w", mean_w());
  }
};

struct StepEnergy {
  int64_t index = 0, duration_ns = 0;
  EnergyAmount amount;

  void fields(auto&& v) const {
    v("index", index), v("duration_ns", duration_ns);
    v("energy_j", only_if(amount.known_ns > 0, amount.energy_j));
    v("error_j", only_if(amount.known_ns > 0, amount.error_j));
  }
};

/// What the measured steps of one rank, or of several, drew.
struct EnergyTotal {
  int64_t steps = 0, wall_ns = 0;
  double known_pct = 0;              ///< of the steps' time, what samples cover
  /// Of the time that samples cover.
  double energy_j = 0, error_j = 0;
  std::optional<double> per_step_j, per_token_j, per_sample_j;   ///< none: unknown
  std::optional<double> delay_product_js;   ///< of a step: energy times duration
  std::optional<double> idle_j, waiting_j;  ///< of energy_j; see EnergySection::parts
  EnergyRates rates;

  /// Below this share figures of a step would be those of other time.
  static constexpr double kMinKnownPct = 80;
  [[nodiscard]] double kwh() const { return energy_j / 3.6e6; }
  [[nodiscard]] std::optional<double> cost() const {
    return rates.price_per_kwh ? std::optional(kwh() * *rates.price_per_kwh) : std::nullopt;
  }
  [[nodiscard]] std::optional<double> co2_g() const {
    return rates.gco2_per_kwh ? std::optional(kwh() * *rates.gco2_per_kwh) : std::nullopt;
  }
  void fields(auto&& v) const {
    v("steps", steps), v("wall_ns", wall_ns), v("known_pct", known_pct), v("energy_j", energy_j);
    v("error_j", error_j), v("energy_per_step_j", per_step_j), v("energy_per_token_j", per_token_j);
    v("energy_per_sample_j", per_sample_j), v("energy_delay_product_js", delay_product_js), v("idle_j", idle_j);
    v("waiting_j", waiting_j), v("cost", cost()), v("co2_g", co2_g());
  }
};

struct EnergySection {
  std::string device;                ///< the sampled one's label; empty: none is known to be the rank's
  std::string method;                ///< "counter", "integrated"
  int64_t resolution_ns = 0;         ///< median time between two readings that tell something
  std::optional<double> integrated_j;   ///< beside a counter's energy, that of the power over the same time
  std::optional<EnergyTotal> total;  ///< none: see `missing`
  std::vector<EnergyPart> phases;    ///< a partition of the measured steps' time
  /// States of the device, a partition too; then waiting_for_ranks, a part of exposed_communication: until the last
  /// rank came.
  std::vector<EnergyPart> parts;
  std::vector<StepEnergy> by_step;
  std::vector<std::string> notes;    ///< errors of the figures
  std::string missing;               ///< why there are none, with what to do; empty: there are

  [[nodiscard]] const EnergyPart* part(std::string_view name) const {
    return first_where(parts, [&](const EnergyPart& p) { return p.name == name; });
  }
  void fields(auto&& v) const {
    v("device", unless_empty(device)), v("method", unless_empty(method));
    v("resolution_ns", only_if(resolution_ns > 0, resolution_ns)), v("integrated_j", integrated_j);
    v("total", total), v("phases", phases);
    v("parts", parts), v("by_step", by_step), v("notes", notes), v("missing", unless_empty(missing));
  }
  /// A trace alone has no samples: see ranks_energy().
  static std::optional<EnergySection> compute(const Facts&) { return std::nullopt; }
};

/// A measured step on the log's clock.
struct EnergyStep {
  int64_t index = 0;
  Interval time;
};
struct EnergyInput {
  const PowerCourse& course;
  const EnergyTimes& times;             ///< with bins on the log's clock
  std::span<const EnergyStep> steps;
  std::optional<BinnedTime> waiting;    ///< for later ranks; none: unknown, as of one rank alone
  EnergyRates rates;
  const PowerCourse* power = nullptr;   ///< where `course` is of a counter; null: no power was sampled
};
EnergySection energy_section(const EnergyInput& input);

constexpr std::string_view kWaitingForRanks = "waiting_for_ranks";

}  // namespace profgpu
