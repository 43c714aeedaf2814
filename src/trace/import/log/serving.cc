// Inference servers: what their engines say of their speed, their queues and their caches.
//
//   INFO 05-01 12:00:00 [loggers.py:116] Engine 000: Avg prompt throughput: 1234.5 tokens/s, Avg generation throughput:
//   567.8 tokens/s, Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 45.6%, Prefix cache hit rate: 12.3%    vLLM
//   … Running: 12 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 45.6%, CPU KV cache usage: 0.0%.  before
//   [2025-05-01 12:00:00 DP0 TP0] Decode batch, #running-req: 12, #token: 3456, token usage: 0.45, cuda graph: True,
//   gen throughput (token/s): 567.89, #queue-req: 3                                                            SGLang
//   [2025-05-01 12:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 1, token usage: 0.00,
//   #running-req: 0, #queue-req: 0
//
// Their steps are too short and too many for a log: a line is no step.
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kVllm = "vllm", kSglang = "sglang";
constexpr size_t kMaxServing = 200'000;

std::optional<double> amount(std::string_view text, std::string_view key) {
  const auto value = number_after(text, key);
  return value && *value >= 0 && *value < 1e12 ? value : std::nullopt;
}

std::optional<double> share_pct(std::string_view text, std::string_view key, double scale) {
  const auto value = amount(text, key);
  return value && *value * scale <= 100.5 ? std::optional(*value * scale) : std::nullopt;
}

std::optional<int> engine_of(std::string_view text, std::string_view key) {
  const auto number = integer_after(text, key);
  return number && *number >= 0 && *number < 100'000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// "05-01 12:00:00" behind vLLM's level, without a year: of one that has all days.
std::optional<int64_t> vllm_time(std::string_view text) {
  for (const std::string_view level : {"INFO ", "WARNING "}) {
    const auto stamp = after(text.substr(0, 200), level);
    size_t length = 0;
    if (stamp)
      if (const auto ns = clock_time("2000-" + std::string(stamp->substr(0, 14)), length)) return ns;
  }
  return std::nullopt;
}

// "[2025-05-01 12:00:00 TP0] "
std::optional<int64_t> sglang_time(std::string_view text) {
  size_t length = 0;
  return text.starts_with('[') ? clock_time(text.substr(1), length) : std::nullopt;
}

class Serving : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    ServingLine row;
    const bool known = has(line.text, "#running-req: ") ? read_sglang(line.text, row) : read_vllm(line.text, row);
    if (!known) return false;
    row.line = line.number;
    if (!row.rank && line.rank >= 0) row.rank = line.rank;
    if (line.printed_ns) row.printed_ns = line.printed_ns;
    std::vector<ServingLine>& all = rows.log().serving;
    if (all.size() < kMaxServing) all.push_back(row);
    return true;
  }

 private:
  bool read_vllm(std::string_view text, ServingLine& row) {
    const auto prompt = after(text, "Avg prompt throughput: ");
    if (!prompt || !has(*prompt, "tokens/s")) return false;
    row.program = kVllm;
    row.printed_ns = vllm_time(text);
    row.rank = engine_of(text, "Engine ");
    row.prompt_tokens_per_s = amount(*prompt, "");
    row.generated_tokens_per_s = amount(*prompt, "Avg generation throughput: ");
    row.running = amount(*prompt, "Running: ");
    row.waiting = amount(*prompt, "Waiting: ");
    if (!row.waiting) row.waiting = amount(*prompt, "Pending: ");
    row.cache_pct = share_pct(*prompt, "GPU KV cache usage: ", 1);
    row.prefix_hit_pct = share_pct(*prompt, "Prefix cache hit rate: ", 1);
    if (!row.prefix_hit_pct) row.prefix_hit_pct = share_pct(*prompt, "Prefix cache hit rate: GPU: ", 1);
    row.preempted = amount(*prompt, "Preemptions: ");
    return row.running.has_value();
  }

  // Of the ranks that work on one batch, the first prints.
  static bool read_sglang(std::string_view text, ServingLine& row) {
    const bool decodes = has(text, "Decode batch");
    if (!decodes && !has(text, "Prefill batch")) return false;
    row.program = kSglang;
    row.printed_ns = sglang_time(text);
    row.rank = engine_of(text.substr(0, text.find(']')), " DP");
    row.running = amount(text, "#running-req: ");
    row.waiting = amount(text, "#queue-req: ");
    row.cache_pct = share_pct(text, " token usage: ", 100);
    row.generated_tokens_per_s = amount(text, "gen throughput (token/s): ");
    row.prompt_tokens_per_s = amount(text, "input throughput (token/s): ");
    const auto cached = amount(text, "#cached-token: "), read = amount(text, "#new-token: ");
    if (cached && read && *cached + *read > 0) row.prefix_hit_pct = 100 * *cached / (*cached + *read);
    return true;
  }
};

}  // namespace

extern const LogFamily kServing;
const LogFamily kServing = {"serving",
                            "inference servers: the lines of vLLM's and SGLang's engines",
                            {"Avg prompt throughput: ", "#running-req: "},
                            [] { return std::unique_ptr<LogReading>(new Serving); }};

}  // namespace profgpu
