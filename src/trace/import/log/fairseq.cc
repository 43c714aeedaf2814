// fairseq, by its simple and its JSON progress. Rates are of the updates since the last line:
//
//   2023-03-01 12:00:01 | INFO | train_inner | epoch 001:    100 / 1000 loss=9.1, nll_loss=8.4, ppl=340, wps=23451,
//   ups=2.11, wpb=10923, bsz=512, num_updates=100, lr=1e-05, gnorm=1.2, loss_scale=128, train_wall=47, gb_free=21.2
//   | epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, wpb=908, bsz=32, lr=0.001, gnorm=2.1       before version 0.9
//   ... | train_inner | {"epoch": 1, "update": 0.1, "loss": "9.1", "wps": "23451", "ups": "2.11", "num_updates": "100"}
#include <cmath>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kFairseqName = "fairseq";

std::optional<double> fairseq_value(std::string_view text, std::string_view key) {
  for (const std::string_view before : {" ", "\""})
    for (const std::string_view behind : {"=", "\": \""})
      if (const auto value = number_after(text, std::string(before) + std::string(key) + std::string(behind)))
        return value;
  return std::nullopt;
}

void set_fairseq_figures(std::string_view text, LogStep& step) {
  step.derived = true;
  LogFigures& f = step.figures;
  f.loss = fairseq_value(text, "loss");
  f.tokens_per_s = fairseq_value(text, "wps");
  f.learning_rate = fairseq_value(text, "lr");
  f.grad_norm = fairseq_value(text, "gnorm");
  f.loss_scale = fairseq_value(text, "loss_scale");
  if (const auto samples = fairseq_value(text, "bsz"); samples && *samples >= 1 && *samples < 1e12)
    f.samples = std::llround(*samples);
}

// An update has as many words as "wpb" says; both are means.
bool read_old_fairseq(std::string_view text, const LogLine& line, LogBuilder& rows) {
  std::string_view rest;
  const auto epoch = leading_integer(text.substr(8), &rest);
  const auto number = epoch ? leading_integer(rest, &rest) : std::nullopt;
  rest = without_blanks(rest);
  const auto all = number && rest.starts_with('/') ? leading_integer(rest.substr(1)) : std::nullopt;
  const auto rate = fairseq_value(text, "wps"), words = fairseq_value(text, "wpb");
  if (!all || *epoch < 1 || *epoch > 1'000'000 || *number < 0 || *all < *number || *all > 1'000'000'000) return false;
  if (rate.value_or(0) <= 0 || words.value_or(0) <= 0) return false;
  const double each_ns = 1e9 * *words / *rate;
  if (each_ns > 1e16) return false;
  LogStep* step = rows.step(kFairseqName, line, (*epoch - 1) * *all + *number);
  if (step == nullptr) return true;
  step->duration_ns = std::llround(each_ns);
  set_fairseq_figures(text, *step);
  return true;
}

bool read_fairseq(const LogLine& line, LogBuilder& rows) {
  const std::string_view text = line.text;
  if (text.starts_with("| epoch ")) return read_old_fairseq(text, line, rows);
  const auto updates = fairseq_value(text, "num_updates"), rate = fairseq_value(text, "ups");
  if (!has(text, "train_inner") || !updates || *updates < 0 || *updates > 1e15 || rate.value_or(0) <= 1e-6)
    return false;
  LogStep* step = rows.step(kFairseqName, line, std::llround(*updates));
  if (step == nullptr) return true;
  step->duration_ns = std::llround(1e9 / *rate);
  set_fairseq_figures(text, *step);
  return true;
}

}  // namespace

extern const LogFamily kFairseq = {kFairseqName, "fairseq: \"train_inner | ... ups=2.11, num_updates=100\"", {"train_inner", " wpb="},
                                   stateless<read_fairseq>};

}  // namespace profgpu
