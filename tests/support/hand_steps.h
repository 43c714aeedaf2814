// Steps of a loop written by hand, and what a rule finds in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tests/support/diagnosed.h"
#include "tests/support/hand_trace.h"

namespace profgpu {

inline std::optional<Finding> found(HandTrace& hand, std::string_view rule) {
  const Diagnosis d = diagnosed(hand.build());
  const Finding* f = finding(d.findings, rule);
  return f == nullptr ? std::nullopt : std::optional(*f);
}

inline constexpr int64_t kSteps = 12;

/// So many steps of a millisecond, filled by `step`, which gets the trace and the step's start.
template <class Step>
HandTrace steps_of(Step step) {
  HandTrace hand;
  for (int64_t t = 0; t < kSteps * 1000; t += 1000) {
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000);
    step(hand, t);
  }
  return hand;
}

}  // namespace profgpu
