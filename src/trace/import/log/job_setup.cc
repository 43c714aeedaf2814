// What a job says of its set-up, as far as advice depends on it: Megatron's arguments, DeepSpeed's configuration,
// the Hugging Face Trainer's summary. Other lines of these blocks, which may hold anything, are not
// kept.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

struct SettingName {
  std::string_view printed;
  std::string_view name;
};

// By the whole key, in lower case, as an argument, a configuration's member or before a colon.
constexpr std::array kSettings = {
    SettingName{"world_size", "world_size"},
    SettingName{"using world size", "world_size"},
    SettingName{"world size", "world_size"},
    SettingName{"tensor_model_parallel_size", "tensor_parallel"},
    SettingName{"model_parallel_size", "tensor_parallel"},
    SettingName{"pipeline_model_parallel_size", "pipeline_parallel"},
    SettingName{"virtual_pipeline_model_parallel_size", "virtual_pipeline"},
    SettingName{"data_parallel_size", "data_parallel"},
    SettingName{"context_parallel_size", "context_parallel"},
    SettingName{"expert_model_parallel_size", "expert_parallel"},
    SettingName{"global_batch_size", "global_batch_size"},
    SettingName{"train_batch_size", "global_batch_size"},
    SettingName{"total train batch size (w. parallel, distributed & accumulation)", "global_batch_size"},
    SettingName{"micro_batch_size", "micro_batch_size"},
    SettingName{"train_micro_batch_size_per_gpu", "micro_batch_size"},
    SettingName{"instantaneous batch size per device", "micro_batch_size"},
    SettingName{"gradient_accumulation_steps", "gradient_accumulation"},
    SettingName{"gradient accumulation steps", "gradient_accumulation"},
    SettingName{"seq_length", "sequence_length"},
    SettingName{"train_iters", "total_steps"},
    SettingName{"total optimization steps", "total_steps"},
    SettingName{"num epochs", "epochs"},
    SettingName{"log_interval", "log_interval"},
    SettingName{"steps_per_print", "steps_per_print"},
    SettingName{"zero_stage", "zero_stage"},
    SettingName{"zero_enabled", "zero_enabled"},
    SettingName{"overlap_comm", "overlap_comm"},
    SettingName{"reduce_bucket_size", "reduce_bucket_size"},
    SettingName{"allgather_bucket_size", "allgather_bucket_size"},
    SettingName{"stage3_prefetch_bucket_size", "prefetch_bucket_size"},
    SettingName{"stage3_param_persistence_threshold", "param_persistence_threshold"},
    SettingName{"cpu_offload", "offload_optimizer"},
    SettingName{"recompute_granularity", "recompute"},
    SettingName{"checkpoint_activations", "recompute"},
    SettingName{"overlap_grad_reduce", "overlap_grad_reduce"},
    SettingName{"sequence_parallel", "sequence_parallel"},
    SettingName{"bf16", "bf16"},
    SettingName{"fp16", "fp16"},
    SettingName{"wall_clock_breakdown", "wall_clock_breakdown"},
};

constexpr size_t kLongestValue = 32;  // names of sizes and switches are short

std::string_view setting_called(std::string_view printed) {
  static const auto names = [] {
    std::unordered_map<std::string_view, std::string_view> all;
    for (const SettingName& s : kSettings) all.emplace(s.printed, s.name);
    return all;
  }();
  constexpr size_t kLongest = 72;
  if (printed.size() > kLongest) return {};
  std::array<char, kLongest> key{};
  for (size_t i = 0; i < printed.size(); ++i) key[i] = printed[i] == '-' ? '_' : lower(printed[i]);
  const auto found = names.find(std::string_view(key.data(), printed.size()));
  return found != names.end() ? found->second : std::string_view();
}

// "64", "5.138022e+07", "True", "\"cpu\",": a number, written whole where it is, or a word.
std::string plain_value(std::string_view text) {
  text = without_blanks(text);
  while (!text.empty() && has("\",' }", text.substr(text.size() - 1))) text.remove_suffix(1);
  while (!text.empty() && has("\"'", text.substr(0, 1))) text.remove_prefix(1);
  if (text.empty() || text.size() > kLongestValue) return {};
  std::string_view rest;
  if (const auto whole = leading_integer(text, &rest); whole && rest.empty()) return std::to_string(*whole);
  return lower_case(text);
}

class JobSetup : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.message;
    if (has(text, "- arguments -")) return in_arguments_ = true;
    if (in_arguments_) {
      if (has(text, "- end of") || text.starts_with("---"))
        in_arguments_ = false;
      else
        return argument(line.text, rows);
    }
    if (has(text, " ...")) return argument(text, rows);  // DeepSpeed's config.print
    if (text.starts_with('"')) return member(text, rows);
    if (has(text, "world size:")) return sizes(text, rows);
    if (const size_t joint = text.find(" = "); joint != text.npos)
      return put(without_blanks(text.substr(0, joint)), text.substr(joint + 3), rows);
    return false;
  }
  [[nodiscard]] bool expects_more() const override { return in_arguments_; }

 private:
  static bool put(std::string_view key, std::string_view value, LogBuilder& rows) {
    const std::string_view name = setting_called(key);
    const std::string plain = name.empty() ? std::string() : plain_value(value);
    // "auto" is a place for what a trainer puts there.
    if (plain.empty() || plain == "none" || plain == "null" || plain == "auto") return false;
    rows.setting(name, plain);
    return true;
  }

  // "  world_size ....................... 64", "deepspeed_activation_checkpointing  True"
  static bool argument(std::string_view text, LogBuilder& rows) {
    text = without_blanks(text);
    const size_t name = text.find(' ');
    if (name == text.npos) return false;
    const size_t value = text.find_last_of(' ');
    return put(text.substr(0, name), text.substr(value + 1), rows);
  }

  // "\"stage\": 3," within "zero_optimization"; "\"device\": \"cpu\"" within what is offloaded.
  bool member(std::string_view text, LogBuilder& rows) {
    const size_t end = text.find('"', 1), joint = text.find(':');
    if (end == text.npos || joint == text.npos || joint < end) return false;
    const std::string_view key = text.substr(1, end - 1), value = without_blanks(text.substr(joint + 1));
    if (value.starts_with('{')) {
      object_ = key;
      return false;
    }
    if (key == "stage" && object_ == "zero_optimization") return rows.setting("zero_stage", plain_value(value)), true;
    if (key == "device" && (object_ == "offload_optimizer" || object_ == "offload_param"))
      return rows.setting(object_, plain_value(value)), true;
    return put(key, value, rows);
  }

  // "using world size: 64, data-parallel-size: 1, tensor-model-parallel size: 4, pipeline-model-parallel size: 16"
  static bool sizes(std::string_view text, LogBuilder& rows) {
    constexpr std::array kSizes = {SettingName{"world size:", "world_size"},
                                   SettingName{"data-parallel size:", "data_parallel"},
                                   SettingName{"data-parallel-size:", "data_parallel"},
                                   SettingName{"tensor-model-parallel size:", "tensor_parallel"},
                                   SettingName{" model-parallel size:", "tensor_parallel"},
                                   SettingName{"pipeline-model-parallel size:", "pipeline_parallel"},
                                   SettingName{"context-parallel-size:", "context_parallel"}};
    for (const SettingName& s : kSizes)
      if (const auto n = integer_after(text, s.printed)) rows.setting(s.name, std::to_string(*n));
    return has(text, "parallel");
  }

  bool in_arguments_ = false;
  std::string object_;  // the innermost object of a configuration that was begun
};

}  // namespace

extern const LogFamily kJobSetup = {
    "setup",
    "arguments and configurations: sizes, stages, precision",
    {"- arguments -", "world size:", "_batch_size", "gradient_accumulation", "zero_",
     "\"stage\":", "\"device\":", "offload_", "overlap_comm", "_bucket_size", "steps_per_print", "wall_clock_breakdown",
     "Num Epochs", "Gradient Accumulation steps", "Instantaneous batch size", "Total train batch size",
     "Total optimization steps", "param_persistence"},
    [] { return std::unique_ptr<LogReading>(new JobSetup); }};

}  // namespace profgpu
