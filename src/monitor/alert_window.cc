#include "monitor/alert_window.h"

namespace profgpu {

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
