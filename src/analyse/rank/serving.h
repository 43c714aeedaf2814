// A language model server: its engine's steps by kind, the tokens they generate, and the time between steps.
#pragma once

#include <optional>
#include <vector>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "analyse/report/report.h"

namespace profgpu {

/// Measured steps of one kind. A step lasts until its range ends or the last work that it launched does, whichever is
/// later: engines launch and go on. The device's time for work from before the recording is left out.
struct ServingKind {
  StepKind kind = StepKind::kUnknown;
  int64_t count = 0;
  double median_ns = 0, p95_ns = 0;
  std::optional<double> sequences, tokens;   ///< mean per step; none: not in the step names
  std::optional<double> tokens_per_s;        ///< computed by these steps over their time, prompts' tokens included
  double graph_pct = 0;                      ///< share of steps that launch a graph
  /// Needed FLOPs, and the least that must move, on this GPU; none: less than 70 % of kernel time is of known work.
  std::optional<double> flops_per_token, bytes_per_token;
  bool flops_is_lower_bound = false, bytes_is_lower_bound = false;   ///< more than 1 % of it is not, or only at least

  void fields(auto&& v) const {
    v("kind", step_kind_name(kind)), v("count", count), v("median_ns", whole_ns(median_ns));
    v("p95_ns", whole_ns(p95_ns)), v("sequences", sequences), v("tokens", tokens), v("tokens_per_s", tokens_per_s);
    v("graph_pct", graph_pct), v("flops_per_token", flops_per_token), v("bytes_per_token", bytes_per_token);
    v("flops_is_lower_bound", only_if(flops_per_token.has_value(), flops_is_lower_bound));
    v("bytes_is_lower_bound", only_if(bytes_per_token.has_value(), bytes_is_lower_bound));
  }
};

struct Serving {
  std::vector<ServingKind> kinds;              ///< only those that occur, in StepKind's order
  bool speculative = false;                    ///< decode steps check drafted tokens, and may accept several at once
  std::optional<double> token_interval_ns;     ///< median time between the starts of successive decode steps
  /// One token per sequence and step, which is the least where it is speculative, over the time in steps without the
  /// time between. None: not in the step names.
  std::optional<double> tokens_per_s;
  int64_t between_ns = 0;                      ///< between the steps and the work that they launched
  double between_pct = 0;                      ///< of the time from the first step's start to the last one's end
  int64_t no_requests_ns = 0;                  ///< the part of it in which the engine waits for requests
  std::vector<Place> between;                  ///< where the engine's thread spends it; most expensive first

  void fields(auto&& v) const {
    v("kinds", kinds), v("speculative", speculative), v("token_interval_ns", whole_ns(token_interval_ns));
    v("tokens_per_s", tokens_per_s);
    v("between_ns", between_ns), v("between_pct", between_pct);
    v("no_requests_ns", no_requests_ns), v("between", between);
  }
  /// None if no engine marks its steps.
  static std::optional<Serving> compute(const Facts& facts);
};

}  // namespace profgpu
