#include "diagnose/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/statistics.h"

namespace profgpu {
Measured::Measured(int rank, const Facts& facts, size_t place, Thresholds thresholds)
    : rank_(rank), facts_(facts), device_(place), thresholds_(std::move(thresholds)) {
  const Steps& steps = facts.get<Steps>();
  for (const Step* s : steps.measured()) {
    measured_.push_back(s->interval());
    ++steps_;
  }
  measured_ = merged(std::move(measured_));
  wall_ns_ = steps.measured_wall_ns();
  // Steps in which the device hardly runs, such as the rump of one at the end, say nothing about it.
  all_measured_ = static_cast<size_t>(steps_) == steps.steps.size() ||
                  (has_device() && 2 * total_length(intersect(device().spans, measured_)) < wall_ns_);
}

const DeviceTime& Measured::device() const { return facts_.get<Devices>().devices[device_]; }

const DeviceIdle& Measured::idle() const { return facts_.get<Idle>().devices[device_]; }

std::string Measured::device_label() const { return fmt::format("GPU {}", device().id); }

int64_t Measured::span_ns() const {
  return all_measured_ ? device().span_ns : total_length(intersect(device().spans, measured_));
}

double Measured::idle_pct(IdleCause cause) const {
  const auto c = static_cast<size_t>(cause);
  return percent_of(all_measured_ ? idle().total_ns[c] : idle().measured_ns[c], span_ns());
}

Intervals Measured::idle_around(IdleCause cause) const {
  const Phases& phases = facts_.get<Phases>();
  const bool loads = cause == IdleCause::kDataLoading;
  if (!loads && cause != IdleCause::kCheckpoint) return {};
  return subtract(intersect(loads ? phases.data_loading : phases.checkpoint, measured_), device().spans);
}

double Measured::idle_wall_pct(IdleCause cause) const {
  return wall_pct(idle().measured_ns[static_cast<size_t>(cause)] + total_length(idle_around(cause)));
}

int64_t Measured::waiting_ns() const {
  const DeviceTime& d = device();
  return d.idle_ns + d.exposed_communication_ns + d.exposed_memory_ns +
         total_length(idle_around(IdleCause::kDataLoading)) + total_length(idle_around(IdleCause::kCheckpoint));
}

IdleCause Measured::largest_idle_cause() const {
  const auto& total = idle().total_ns;
  return static_cast<IdleCause>(std::max_element(total.begin(), total.end()) - total.begin());
}

double Measured::utilization_pct() const {
  return percent_of(all_measured_ ? device().busy_ns : total_length(intersect(device().busy, measured_)), span_ns());
}

double Measured::exposed_communication_pct() const {
  const Intervals& exposed = device().exposed_communication;
  return percent_of(all_measured_ ? total_length(exposed) : total_length(intersect(exposed, measured_)), span_ns());
}

double Measured::phase_pct(Phase phase) const {
  return percent_of(facts_.get<Phases>().measured_wall_ns[static_cast<size_t>(phase)], wall_ns_);
}

double Measured::wall_pct(int64_t ns) const { return percent_of(ns, wall_ns_); }

bool Measured::in_measured_step(int64_t time) const { return contains(measured_, time); }

void set_cost(Finding& finding, const Measured& measured, int64_t cost_ns) {
  finding.cost_ns = cost_ns;
  finding.cost_pct = measured.wall_pct(cost_ns);
}

std::string duration_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} µs", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string idle_cause_words(IdleCause cause) {
  std::string words(idle_cause_name(cause));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string percent_text(double pct) { return fmt::format("{:.1f} %", pct); }

std::string shortened(std::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  size_t keep = longest;
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  return std::string(text.substr(0, keep)) + "…";
}

std::vector<std::string> waited_in(const Measured& measured, IdleCause cause, size_t most) {
  struct Sum {
    int64_t ns = 0, count = 0;
  };
  std::map<std::string_view, Sum> by_name;
  for (const Gap& gap : measured.idle().gaps) {
    if (gap.cause != cause || !gap.host.valid()) continue;
    Sum& sum = by_name[measured.trace().name(gap.host)];
    sum.ns += gap.length();
    ++sum.count;
  }
  std::vector<std::pair<std::string_view, Sum>> order(by_name.begin(), by_name.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(most, order.size()); ++i)
    out.push_back(fmt::format("{} ({} in {} of the longest gaps)", shortened(order[i].first),
                              duration_text(static_cast<double>(order[i].second.ns)), order[i].second.count));
  return out;
}

const Gap* longest_gap(const Measured& measured, IdleCause cause) {
  const Gap* best = nullptr;
  for (const Gap& gap : measured.idle().gaps) {
    if (gap.cause != cause || !measured.in_measured_step(gap.end_ns - 1)) continue;
    if (best == nullptr || gap.length() > best->length()) best = &gap;
  }
  return best;
}

int64_t steps_with_gaps(const Measured& measured, IdleCause cause) {
  int64_t count = 0;
  const auto& gaps = measured.idle().gaps;
  const Intervals around = measured.idle_around(cause);
  for (const Step* step : measured.facts().get<Steps>().measured()) {
    count += overlap_length(around, step->interval()) > 0 || std::any_of(gaps.begin(), gaps.end(), [&](const Gap& g) {
      return g.cause == cause && g.start_ns < step->interval().end && g.end_ns > step->start_ns;
    });
  }
  return count;
}

Locator longest_gap_of(IdleCause cause) { return {Locator::At::kLongestGap, std::string(idle_cause_name(cause))}; }

std::string share_text(const Finding& finding) { return fmt::format("{:.0f} %", *finding.value); }

std::optional<Advice> held_now(const Rule& rule, std::optional<double> pct, Severity severity, std::string fix) {
  if (!pct || !rule.beyond(*pct, rule.threshold)) return std::nullopt;
  return Advice{severity, fmt::format("{}, {:.0f} % of the last minute", rule.summary, *pct), std::move(fix)};
}

std::optional<double> held_back_pct(const DeviceTelemetry& device, uint32_t reasons) {
  if (!device.throttle_known) return std::nullopt;
  double pct = 0;
  for (const ThrottleTime& t : device.throttle)
    if ((t.bits & reasons) != 0) pct += t.pct;
  return std::min(pct, 100.0);
}

}  // namespace profgpu
