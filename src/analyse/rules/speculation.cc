// Speculative decoding whose drafts are mostly thrown away, by an inference server's own log.
#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "analyse/rules/log_checks.h"

namespace profgpu {
namespace {

constexpr double kWorthwhile_tokens = 2;   // of a step, for a request: a tree of drafts may be wide and worth it
constexpr double kRarePosition_pct = 20;   // below that a drafted token is work for nothing four times out of five

std::optional<double> rejected_pct(const LogReport& log) {
  constexpr double kFewest = 500;   // drafted tokens: fewer tell nothing
  if (!log.serving || !log.serving->speculation) return std::nullopt;
  const LogSpeculation& s = *log.serving->speculation;
  if (s.length.value_or(0) >= kWorthwhile_tokens) return 0;
  if (!s.accepted_pct || s.drafted_tokens.value_or(kFewest) < kFewest) return std::nullopt;
  return 100 - *s.accepted_pct;
}

// How many of the first positions are worth drafting.
size_t useful_positions(const LogSpeculation& s) {
  size_t useful = 0;
  while (useful < s.position_pct.size() && s.position_pct[useful] >= kRarePosition_pct) ++useful;
  return useful;
}

void describe_rejected(const LogReport& log, Finding& f) {
  const LogSpeculation& s = *log.serving->speculation;
  const bool sglang = log.serving->program == "sglang";
  const size_t useful = useful_positions(s);
  f.what = fmt::format("{} of the drafted tokens are rejected", format_percent(*f.value));
  f.why = "Drafting takes time, and the model computes every drafted token, accepted or not";
  if (s.length) f.why += fmt::format(": a step gives a request {:.2f} tokens instead of one, so at most {:.2f} times the speed",
                                   *s.length, *s.length);
  f.why += ". With many requests at once the devices have no time left over for that.";
  if (useful < s.position_pct.size() && useful > 0)
    f.fix.push_back(fmt::format("draft fewer tokens: {} {} ({})", sglang ? "--speculative-num-steps" : "num_speculative_tokens",
                                useful, "later ones are accepted less than 20 % of the time"));
  else if (s.position_pct.size() != 1)
    f.fix.push_back(sglang ? "draft fewer tokens: a smaller --speculative-num-steps and --speculative-num-draft-tokens"
                           : "draft fewer tokens: a smaller num_speculative_tokens");
  f.fix.emplace_back("a draft model that was trained for exactly this model and for requests like these");
  f.fix.emplace_back("measure without speculative decoding at the same load: it may be faster");
  if (s.drafted_tokens && s.accepted_tokens)
    f.evidence.push_back(fmt::format("{} tokens drafted, {} accepted", format_number(*s.drafted_tokens),
                                     format_number(*s.accepted_tokens)));
}

}  // namespace

extern const Rule kRejectedDrafts = {
    .id = "rejected-drafts",
    .summary = "speculative decoding drafts tokens of which most are rejected",
    .unit = "%",
    .threshold = 75,
    .meaning =
        "A small model or a lookup drafts tokens, and the model checks them all in one step. Each that it rejects is "
        "work for nothing: with few requests at once that costs little, with many it takes time from other requests.",
    .computation =
        "Value: rejected tokens of those drafted, by the server's log; from 500 drafted tokens on, where a step gives a "
        "request fewer than 2 tokens. No cost: the log does not say what a step would take without drafts.",
    .advice = {"fewer drafted tokens per step: num_speculative_tokens (vLLM), --speculative-num-steps (SGLang)",
               "a draft model trained for this model and for requests like these",
               "no speculative decoding where many requests run at once: measure both at the same load"},
    .verdict = "{} of the tokens drafted by speculative decoding are rejected.",
    .log = {.value = rejected_pct, .describe = describe_rejected},
};

}  // namespace profgpu
