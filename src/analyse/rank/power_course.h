// PowerCourse: the energy of one sampled device over time, from its driver's energy counter, else from its power.
//
// A counter's value says what was drawn between two of its updates, power samples about what was drawn between two of
// them: exactly so if power changed evenly, else between the lower and the higher one all the time. Both are pieces of
// time with an energy; within a piece nothing is known of when it was drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/intervals.h"
#include "trace/sample.h"

namespace profgpu {

/// Joules drawn during some time.
struct EnergyAmount {
  double energy_j = 0;      ///< each piece's energy in proportion to its time
  /// How far the true value may be off, if power stays between the lowest and the highest that was sampled, and between
  /// two samples of power between these; with a counter alone, between nothing and the power limit. Without the
  /// sensor's own error.
  double error_j = 0;
  int64_t known_ns = 0;     ///< the part of the time that samples cover
};

class PowerCourse {
 public:
  struct Piece {
    Interval time;
    double energy_j = 0;
    double least_j = 0, most_j = 0;   ///< what it can be; of a counter the same
  };

  /// Nothing if the log has less than two readings of either kind.
  static std::optional<PowerCourse> of(const SampleLog& log, uint32_t device);
  /// Of power alone, also where there is a counter.
  static std::optional<PowerCourse> of_power(const SampleLog& log, uint32_t device);

  /// "counter" or "integrated".
  [[nodiscard]] std::string_view method() const { return counter_ ? "counter" : "integrated"; }
  /// Median length of a piece.
  [[nodiscard]] int64_t resolution_ns() const { return resolution_ns_; }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

  [[nodiscard]] EnergyAmount during(Interval time) const;
  /// Of time of which only amounts are known: `ns[i]` within `bins[i]`, which are in order and disjoint.
  [[nodiscard]] EnergyAmount during(const Intervals& bins, const std::vector<int64_t>& ns) const;

 private:
  void finish(const SampleLog& log, uint32_t device);
  [[nodiscard]] double error_of(const Piece& piece, double taken_ns, double energy_j) const;

  std::vector<Piece> pieces_;   // in order of time, disjoint
  double least_w_ = 0, most_w_ = 0;
  int64_t resolution_ns_ = 0;
  bool counter_ = false;
};

}  // namespace profgpu
