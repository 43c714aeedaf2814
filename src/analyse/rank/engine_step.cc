#include "analyse/rank/engine_step.h"

#include <charconv>
#include <initializer_list>
#include <utility>

#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

/// Reads a name from its front.
class NameReader {
 public:
  explicit NameReader(string_view text) : rest_(text) {}

  bool take(string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<int64_t> number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || rest_.front() == '-') return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  [[nodiscard]] string_view rest() const { return rest_; }

 private:
  string_view rest_;
};

// The number after `key`, which must not follow a letter: 55086 after "sk" in "sq32sk55086".
std::optional<int64_t> after(string_view text, string_view key) {
  for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1))
    if (at == 0 || is_digit(text[at - 1]) || text[at - 1] == ' ' || text[at - 1] == '_')
      if (const auto number = NameReader(text.substr(at + key.size())).number()) return number;
  return std::nullopt;
}

void add(std::optional<int64_t>& sum, std::optional<int64_t> more) {
  int64_t total = 0;
  if (more && !__builtin_add_overflow(sum.value_or(0), *more, &total)) sum = total;
}

StepKind kind_of(std::optional<int64_t> prefill, std::optional<int64_t> decode) {
  if (!prefill || !decode || (*prefill == 0 && *decode == 0)) return StepKind::kUnknown;
  return *decode == 0 ? StepKind::kPrefill : *prefill == 0 ? StepKind::kDecode : StepKind::kMixed;
}

EngineStep of_requests(std::optional<int64_t> prefill, std::optional<int64_t> decode) {
  EngineStep step{kind_of(prefill, decode), {}, {}, {}};
  if (prefill && decode) add(step.sequences, prefill), add(step.sequences, decode);
  return step;
}

// "N(TOKENS)" or "N(sqAskBsqsqCsqskD)" after "context_" and "generation_". Figures that may be truncated do not count.
std::optional<int64_t> requests(NameReader& name, EngineStep& sums, bool& whole) {
  const std::optional<int64_t> count = name.number();
  const size_t end = name.rest().find(')');
  if (!count || !name.take("(") || end == string_view::npos) return whole = false, count;
  const string_view inside = name.rest().substr(0, end - 1);
  add(sums.tokens, inside.starts_with("sq") ? after(inside, "sq") : NameReader(inside).number());
  add(sums.context_tokens, after(inside, "sk"));
  add(sums.pairs, after(inside, "sqsk"));
  add(sums.query_pairs, after(inside, "sqsq"));
  name.take(inside);
  name.take(")");
  return count;
}

std::optional<EngineStep> vllm(string_view text) {
  NameReader name(text);
  if (!name.take("execute_")) return std::nullopt;
  if (name.take("new_")) {
    const auto fresh = name.number();
    return fresh && name.take("_cached_") ? std::optional(of_requests(fresh, name.number())) : std::nullopt;
  }
  const std::optional<int64_t> all = name.number();
  if (all && !name.take("_")) return std::nullopt;
  if (!name.take("context_")) return std::nullopt;
  EngineStep sums;
  bool whole = true;
  const std::optional<int64_t> prefill = requests(name, sums, whole);
  if (!prefill) return std::nullopt;
  std::optional<int64_t> decode;
  if (name.take("_generation_")) decode = requests(name, sums, whole);
  else whole = false;
  if (!decode && all && *all >= *prefill) decode = *all - *prefill;
  EngineStep step = of_requests(prefill, decode);
  if (whole) {
    step.tokens = sums.tokens, step.context_tokens = sums.context_tokens;
    step.pairs = sums.pairs, step.query_pairs = sums.query_pairs;
  } else {
    step.sequences = all;
  }
  return step;
}

// "step[EXTEND bs=2 toks=12 c_sk=20]", "prefill[bs=2 tok=16384]"
std::optional<EngineStep> bracketed(string_view text) {
  static constexpr std::pair<string_view, StepKind> kModes[] = {
      {"step[EXTEND ", StepKind::kPrefill},        {"step[PREFILL ", StepKind::kPrefill},
      {"step[SPLIT_PREFILL ", StepKind::kPrefill}, {"step[DECODE ", StepKind::kDecode},
      {"step[TARGET_VERIFY ", StepKind::kDecode},  {"step[VERIFY ", StepKind::kDecode},
      {"step[MIXED ", StepKind::kMixed},           {"prefill[", StepKind::kPrefill},
      {"decode[", StepKind::kDecode},              {"step[", StepKind::kUnknown}};
  for (const auto& [begin, kind] : kModes) {
    if (!text.starts_with(begin)) continue;
    const bool bare = kind == StepKind::kUnknown;
    // "step[12]" may be any program's; an engine's step begins with a word in capitals.
    if (bare && (text.size() <= begin.size() || !is_upper(text[begin.size()]))) return std::nullopt;
    const size_t end = text.find(']');
    if (end == text.npos) return EngineStep{kind, {}, {}, {}};   // the rest may be truncated
    const string_view inside = text.substr(begin.size(), end - begin.size());
    EngineStep step{kind, after(inside, "bs="), after(inside, "toks="), {}};
    if (!bare && !step.sequences) return std::nullopt;
    if (!step.tokens) step.tokens = after(inside, "tok=");
    if (!step.tokens) add(step.tokens, after(inside, "c_sq=")), add(step.tokens, after(inside, "g_sq="));
    if (!step.tokens && begin == "step[DECODE ") step.tokens = step.sequences;
    add(step.context_tokens, after(inside, "c_sk="));
    add(step.context_tokens, after(inside, "g_sk="));
    if (!step.context_tokens) step.context_tokens = after(inside, "sk=");
    for (const string_view part : {"c_", "g_"}) {
      add(step.pairs, after(inside, std::string(part) + "sqsk="));
      add(step.query_pairs, after(inside, std::string(part) + "sqsq="));
    }
    return step;
  }
  return std::nullopt;
}

// "capture_32_DECODE" is of 32 sequences, "capture_32_draft_FULL" of 32 tokens.
std::optional<EngineStep> captured(string_view text) {
  NameReader name(text);
  if (!name.take("capture_")) return std::nullopt;
  const auto count = name.number();
  if (!count || !name.take("_")) return std::nullopt;
  for (const string_view mode : {"DECODE", "EXTEND", "PREFILL", "TARGET_VERIFY", "DRAFT_EXTEND", "MIXED"})
    if (name.rest() == mode) return EngineStep{StepKind::kCapture, count, {}, {}};
  if (!name.take("draft_")) name.take("encoder_");
  for (const string_view mode : {"FULL", "PIECEWISE", "FULL_AND_PIECEWISE", "FULL_DECODE_ONLY", "NONE", "decode",
                                 "prefill", "mixed_prefill"})
    if (name.rest() == mode) return EngineStep{StepKind::kCapture, {}, count, {}};
  return std::nullopt;
}

// "[Executor] _forward_step 7: 2 ctx reqs, 1024 ctx tokens, 32 gen reqs"; older versions have no number, or no tokens.
std::optional<EngineStep> tensorrt_llm(string_view text) {
  NameReader name(text);
  if (!name.take("[Executor] _forward_step")) return std::nullopt;
  if (name.take(" ") && !name.number()) return std::nullopt;
  EngineStep step{StepKind::kUnknown, {}, {}, {}};
  if (!name.take(": ")) return name.rest().empty() ? std::optional(step) : std::nullopt;
  const std::optional<int64_t> prefill = name.number();
  if (!prefill || !name.take(" ctx reqs, ")) return step;
  std::optional<int64_t> next = name.number();
  std::optional<int64_t> prompt_tokens;
  if (name.take(" ctx tokens, ")) prompt_tokens = next, next = name.number();
  if (!next || !name.take(" gen reqs")) return step;
  step = of_requests(prefill, next);
  if (prompt_tokens) add(step.tokens, prompt_tokens), add(step.tokens, next);
  return step;
}

std::optional<EngineStep> diffusion(string_view text) {
  NameReader name(text);
  if (!name.take("execute_diffusion_")) return std::nullopt;
  return EngineStep{StepKind::kUnknown, name.number(), {}, {}};
}

}  // namespace

std::string_view step_kind_name(StepKind kind) {
  constexpr string_view kNames[] = {"", "prefill", "decode", "mixed", "capture", "train", "eval"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<EngineStep> engine_step(string_view name) {
  for (const auto read : {vllm, bracketed, captured, tensorrt_llm, diffusion})
    if (auto step = read(name)) return step;
  return std::nullopt;
}

}  // namespace profgpu
