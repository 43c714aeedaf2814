#include "watch/monitor/alert_watch.h"

#include <algorithm>

#include "trace/sample.h"

namespace profgpu {
namespace {

// As for the exporter's integrals.
constexpr int64_t kLongestGap_ns = 10'000'000'000;

using Over = AlertCondition::Over;

// Adds every sample of the reading, or the figure as it is then.
void feed(AlertWindow& window, const AlertQuantity& quantity, const DeviceTally& tally, const Reading& reading) {
  if (quantity.metric) {
    for (const Sample& s : reading.samples)
      if (s.metric == quantity.metric->metric) window.add(s.time_ns, s.value);
  } else if (const auto value = quantity.value(tally, reading.time_ns)) {
    window.add(reading.time_ns, *value);
  }
}

// What the first figure of the rule consists of.
std::string detail_of(const AlertRule& rule, const DeviceTally& tally) {
  for (const AlertCondition& c : rule.conditions)
    if (const AlertFigure* f = c.quantity.figure; f && f->detail)
      if (std::string text = f->detail(tally); !text.empty()) return text;
  return {};
}

}  // namespace

AlertWatch::AlertWatch(std::vector<AlertRule> rules, const std::vector<DeviceInfo>& infos,
                       const std::vector<uint32_t>& devices, int64_t interval_ns, std::string host)
    : rules_(std::move(rules)), interval_ns_(interval_ns) {
  for (const uint32_t d : devices) {
    DeviceState device{d, {}, DeviceTally(infos[d], interval_ns), {}};
    device.blank.device = device_word(infos, d);
    device.blank.uuid = infos[d].uuid;
    device.blank.model = infos[d].name;
    device.blank.host = infos[d].host.empty() ? host : infos[d].host;
    for (const AlertRule& rule : rules_) {
      RuleState& state = device.rules.emplace_back();
      for (const AlertCondition& c : rule.conditions)
        if (c.over != Over::kNow)
          state.windows.emplace_back(c.window_ns, std::max(kLongestGap_ns, 3 * interval_ns),
                                     c.quantity.begins_at_zero());
    }
    devices_.push_back(std::move(device));
  }
}

void AlertWatch::add(const Reading& reading) {
  std::lock_guard lock(mutex_);
  for (DeviceState& device : devices_) {
    if (device.index != reading.device) continue;
    device.tally.add(reading);
    for (size_t r = 0; r < rules_.size(); ++r) {
      auto window = device.rules[r].windows.begin();
      for (const AlertCondition& c : rules_[r].conditions)
        if (c.over != Over::kNow) feed(*window++, c.quantity, device.tally, reading);
    }
  }
}

AlertWatch::Verdict AlertWatch::judge(const AlertRule& rule, const RuleState& state, const DeviceTally& tally,
                                      int64_t now_ns, std::optional<bool> answers) {
  const bool up = answers.value_or(false);
  Verdict all{true, {}};
  auto window = state.windows.begin();
  for (const AlertCondition& c : rule.conditions) {
    std::optional<double> value;
    if (c.over == Over::kIncrease) value = (window++)->increase(now_ns);
    else if (c.over == Over::kMean) value = (window++)->mean(now_ns);
    else if (c.quantity.is_up())
      value = answers ? std::optional<double>(up) : std::nullopt;
    else if (up) value = c.quantity.value(tally, now_ns);
    if (c.over == Over::kMean && !up) value.reset();
    if (&c == &rule.conditions.front()) all.value = value;
    if (value && !c.holds(*value, state.raised)) all.holds = false;
    else if (!value && all.holds.value_or(false)) all.holds.reset();
  }
  return all;
}

// Whether the alert was raised or cleared now.
bool AlertWatch::turns(const AlertRule& rule, RuleState& state, const Verdict& verdict, int64_t now_ns) {
  if (!state.raised) {
    if (!verdict.holds.value_or(false)) {
      state.since_ns = 0;
      return false;
    }
    if (state.since_ns == 0) state.since_ns = now_ns;
    state.raised = now_ns - state.since_ns >= rule.hold_ns;
    state.untrue_since_ns = 0;
    return state.raised;
  }
  if (verdict.holds.value_or(true)) {
    state.untrue_since_ns = 0;
    return false;
  }
  if (state.untrue_since_ns == 0) state.untrue_since_ns = now_ns;
  if (now_ns - state.untrue_since_ns < rule.clear_after_ns) return false;
  state.raised = false;
  return true;
}

AlertNotice AlertWatch::notice(const AlertRule& rule, const RuleState& state, const DeviceState& device, int64_t now_ns,
                               std::optional<double> value) {
  AlertNotice n = device.blank;
  n.time_ns = now_ns;
  n.since_ns = state.since_ns;
  n.raised = state.raised;
  n.name = rule.name;
  n.condition = rule.condition;
  n.advice = rule.advice;
  n.severity = rule.severity;
  n.quantity = rule.conditions.front().quantity.name();
  n.unit = rule.conditions.front().quantity.unit();
  n.value = value;
  n.detail = detail_of(rule, device.tally);
  return n;
}

std::vector<AlertNotice> AlertWatch::look(int64_t now_ns, const std::vector<DeviceHealth>& health) {
  std::vector<AlertNotice> notices;
  std::lock_guard lock(mutex_);
  for (DeviceState& device : devices_) {
    const auto found =
        std::find_if(health.begin(), health.end(), [&](const auto& h) { return h.device == device.index; });
    std::optional<bool> up;
    if (found != health.end() && (found->good_at_ns != 0 || !found->trouble.empty()))
      up = found->answers(now_ns, interval_ns_);
    for (size_t r = 0; r < rules_.size(); ++r) {
      RuleState& state = device.rules[r];
      const Verdict verdict = judge(rules_[r], state, device.tally, now_ns, up);
      if (!turns(rules_[r], state, verdict, now_ns)) continue;
      notices.push_back(notice(rules_[r], state, device, now_ns, verdict.value));
      if (!state.raised) state.since_ns = 0;
    }
  }
  std::stable_sort(notices.begin(), notices.end(),
                   [](const auto& a, const auto& b) { return a.severity > b.severity; });
  return notices;
}

constexpr double kSeconds = 1e-9;

void AlertWindow::add(int64_t time_ns, double value) {
  if (time_ns <= last_ns_) return;
  const int64_t number = time_ns / slot_ns();
  Slot& slot = slots_[static_cast<size_t>(number % (kSlots + 1))];
  if (slot.number != number) slot = {number, 0, 0, 0};
  if (const int64_t gap_ns = time_ns - last_ns_; last_ns_ != 0 && gap_ns <= longest_gap_ns_) {
    const double seconds = static_cast<double>(gap_ns) * kSeconds;
    slot.sum += value * seconds;
    slot.seconds += seconds;
  }
  if (seen_) slot.growth += value >= last_ ? value - last_ : value;
  seen_ = true;
  last_ = value;
  last_ns_ = time_ns;
}

AlertWindow::Slot AlertWindow::totals(int64_t now_ns) const {
  Slot all;
  const int64_t newest = now_ns / slot_ns();
  for (const Slot& s : slots_) {
    if (s.number < 0 || s.number < newest - kSlots || s.number > newest) continue;
    all.sum += s.sum;
    all.seconds += s.seconds;
    all.growth += s.growth;
  }
  return all;
}

std::optional<double> AlertWindow::mean(int64_t now_ns) const {
  const Slot all = totals(now_ns);
  if (all.seconds * 2 < static_cast<double>(length_ns_) * kSeconds) return std::nullopt;
  return all.sum / all.seconds;
}

std::optional<double> AlertWindow::increase(int64_t now_ns) const {
  if (last_ns_ == 0) return std::nullopt;
  return totals(now_ns).growth;
}

}  // namespace profgpu
