// What tells that a training begins, that it goes on from a checkpoint, or that its next epoch begins. Which of the
// lines behind belong to another training is for LogBuilder to say.
//
//   ------------------------ arguments ------------------------                            Megatron, before a training
//   using world size: 8, data-parallel size: 8, …
//   ***** Running training *****                                                            Hugging Face's
//   DeepSpeedEngine configuration:
//   Continuing training from global step 1500; Resuming from checkpoint: …; successfully loaded checkpoint from …
//   Epoch 2; === Epoch 2/10 ===; Starting epoch 2
#include <algorithm>
#include <array>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::array<std::string_view, 8> kBegins = {
    "- arguments -",           "using world size:", "***** Running training *****", "DeepSpeedEngine configuration",
    "Continuing training from", "successfully loaded checkpoint", "initialized with local batch size", "device mesh with ["};
constexpr size_t kLongestHeading = 48;

// "Resuming from checkpoint", "Resumed training from step 500": not advice, nor an option.
bool resumes(std::string_view message) {
  const std::string plain = lower_case(message.substr(0, kLongestHeading));
  const auto words = after(plain, "resum");
  const bool says_so = words && (words->starts_with("ing") || words->starts_with("ed") || words->starts_with("e "));
  return says_so && has(plain, " from ") && !has(plain, "not ") && !has(plain, "no ");
}

// Of a line of its own, and not one of a step.
std::optional<int64_t> epoch_of_heading(std::string_view message) {
  if (message.size() > kLongestHeading) return std::nullopt;
  std::string plain = lower_case(message);
  plain.erase(0, std::min(plain.find_first_not_of("=-*# ["), plain.size()));
  const bool begins =
      plain.starts_with("epoch") || plain.starts_with("starting epoch") || plain.starts_with("training epoch");
  const size_t number = plain.find_first_of("0123456789");
  const bool of_steps = has(plain, "step") || has(plain, "iter") || has(plain, "batch");
  if (!begins || number == plain.npos || of_steps) return std::nullopt;
  return leading_integer(std::string_view(plain).substr(number));
}

class RunMarks : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const auto says = [&](std::string_view words) { return has(line.message, words); };
    if (std::ranges::any_of(kBegins, says) || resumes(line.message)) rows.run_may_begin(line);
    else if (const auto epoch = epoch_of_heading(line.message)) {
      if (*epoch < epoch_) rows.run_may_begin(line);   // there was a later one
      rows.epoch_begins(line);
      epoch_ = *epoch;
    }
    return false;
  }

 private:
  int64_t epoch_ = 0;
};

std::vector<std::string_view> mark_words() {
  std::vector<std::string_view> words(kBegins.begin(), kBegins.end());
  words.insert(words.end(), {"esum", "poch"});
  return words;
}

}  // namespace

extern const LogFamily kRunMarks = {"run_marks", "where a training, its next epoch or its resumption begins",
                                    mark_words(), [] { return std::unique_ptr<LogReading>(new RunMarks); }, false};

}  // namespace profgpu
