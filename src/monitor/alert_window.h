// What a number was over the last so long: its mean, or what a counter grew by. Always of one size, however many samples.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace profgpu {

class AlertWindow {
 public:
  /// `longest_gap_ns`: a sample holds no longer into the past than this. `begins_at_zero`: a counter's first value is growth.
  AlertWindow(int64_t length_ns, int64_t longest_gap_ns, bool begins_at_zero)
      : length_ns_(length_ns), longest_gap_ns_(longest_gap_ns), seen_(begins_at_zero) {}

  /// In order of time; what is not newer than the last is ignored.
  void add(int64_t time_ns, double value);
  /// Nullopt until half of the time is covered.
  [[nodiscard]] std::optional<double> mean(int64_t now_ns) const;
  /// Nullopt before the first sample. A counter that begins anew grows by what it then has.
  [[nodiscard]] std::optional<double> increase(int64_t now_ns) const;

 private:
  static constexpr int64_t kSlots = 60;   // the window's end is right within a sixtieth
  struct Slot {
    int64_t number = -1;                  // time / slot's length; -1: empty
    double sum = 0, seconds = 0;          // value × seconds
    double growth = 0;
  };
  [[nodiscard]] int64_t slot_ns() const { return length_ns_ / kSlots; }
  [[nodiscard]] Slot totals(int64_t now_ns) const;

  int64_t length_ns_, longest_gap_ns_;
  bool seen_;                             // last_ is a value
  double last_ = 0;
  int64_t last_ns_ = 0;
  std::array<Slot, kSlots + 1> slots_{};
};

}  // namespace profgpu
