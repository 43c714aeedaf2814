// A server of language models: its engine's steps by kind, the tokens that they make, and what lies between them.
#pragma once

#include <optional>
#include <vector>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "analyse/report/report.h"

namespace profgpu {

/// Measured steps of one kind. A step lasts from its start to its end, or to that of the last work it launched, if that
/// is later: engines launch and go on. What the device spends on work of before the recording is left out.
struct ServingKind {
  StepKind kind = StepKind::kUnknown;
  int64_t count = 0;
  double median_ns = 0, p95_ns = 0;
  std::optional<double> sequences, tokens;   ///< of a step, mean; none: the names do not say it
  double graph_pct = 0;                      ///< steps that launch a graph

  void fields(auto&& v) const {
    v("kind", step_kind_name(kind)), v("count", count), v("median_ns", whole_ns(median_ns));
    v("p95_ns", whole_ns(p95_ns)), v("sequences", sequences), v("tokens", tokens), v("graph_pct", graph_pct);
  }
};

struct Serving {
  std::vector<ServingKind> kinds;              ///< those that occur, in the order of StepKind
  std::optional<double> token_interval_ns;     ///< median from one decode step's start to the next one's
  /// A sequence makes one token a step. Over the time in steps, not that between them. None: the names do not say it.
  std::optional<double> tokens_per_s;
  int64_t between_ns = 0;                      ///< between the steps' ranges
  double between_pct = 0;                      ///< of the time from the first one's start to the last one's end
  std::vector<Place> between;                  ///< what the engine's thread does there; most expensive first

  void fields(auto&& v) const {
    v("kinds", kinds), v("token_interval_ns", whole_ns(token_interval_ns)), v("tokens_per_s", tokens_per_s);
    v("between_ns", between_ns), v("between_pct", between_pct), v("between", between);
  }
  /// None where no engine marks its steps.
  static std::optional<Serving> compute(const Facts& facts);
};

}  // namespace profgpu
