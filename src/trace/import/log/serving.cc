// Inference servers: what their engines say of their speed, their queues and their caches.
//
//   INFO 05-01 12:00:00 [loggers.py:116] Engine 000: Avg prompt throughput: 1234.5 tokens/s, Avg generation throughput:
//   567.8 tokens/s, Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 45.6%, Prefix cache hit rate: 12.3%    vLLM
//   … Running: 12 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 45.6%, CPU KV cache usage: 0.0%.  before
//   [2025-05-01 12:00:00 DP0 TP0] Decode batch, #running-req: 12, #token: 3456, token usage: 0.45, cuda graph: True,
//   gen throughput (token/s): 567.89, #queue-req: 3                                                            SGLang
//   [2025-05-01 12:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 1, token usage: 0.00,
//   #running-req: 0, #queue-req: 0
//   [2025-05-01 12:00:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 7, #new_token_ratio: 0.5 -> 0.6
//   WARNING 05-01 12:00:00 scheduler.py:1754] Sequence group 4-0 is preempted … total_num_cumulative_preemption=51
//   INFO 05-01 12:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.77, Accepted throughput: 6.20
//   tokens/s, Drafted throughput: 40.00 tokens/s, Accepted: 62 tokens, Drafted: 400 tokens, Per-position acceptance
//   rate: 0.400, 0.200, 0.100, 0.050, 0.025, Avg Draft acceptance rate: 15.5%     vLLM, behind the line of the engine
//   … SpecDecoding metrics: Draft acceptance rate: 15.5%, Accepted: 62 tokens, Drafted: 400 tokens              before
//   … Speculative metrics: Draft acceptance rate: 0.155, System efficiency: 0.2, …                  before that, in all
//   [2025-05-01 12:00:00 TP0] Decode batch, … accept len: 2.50, accept rate: 0.62, cuda graph: True, …           SGLang
//   prompt eval time =     915.13 ms /    51 tokens (   17.94 ms per token,    55.73 tokens per second)      llama.cpp
//   slot print_timing: id  3 | task 0 | n_decoded =   1081, tg =  12.93 t/s, tg_3s =  12.57 t/s
//   I0501 12:00:00.000000 1 model_instance_state.cc:969] "{\"Active Request Count\":99,…,\"Scheduled Requests\":5,…,
//   \"Max KV cache blocks\":40,…,\"Used KV cache blocks\":31}"                             TensorRT-LLM within Triton
//   … generate{…} total_time="3.05s" … queue_time="49.3µs" inference_time="3.05s" time_per_token="15.25ms" …: Success
//                                                               Text Generation Inference: of one request each
//
// Their steps are too short and too many for a log: a line is no step.
#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kLlamaTask = "slot print_timing: ";
constexpr std::string_view kVllm = "vllm", kSglang = "sglang", kLlama = "llama.cpp";
constexpr std::string_view kTensorRt = "tensorrt_llm", kTgi = "tgi";
constexpr std::string_view kActiveRequests = "Active Request Count", kTimePerToken = " time_per_token=\"";
constexpr std::string_view kAnswered = " HTTP/1.1\" 200";   // of uvicorn: a request was answered
constexpr size_t kMostDrafted = 64;

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
    if (has(line.text, kAnswered)) {
      if (!rows.log().serving.empty()) rows.log().last_answer = line.number;
      return false;   // of any server on the web
    }
    if (has(line.text, "retracted_reqs: ") || has(line.text, "total_num_cumulative_preemption="))
      return read_preemption(line, rows);
    if (has(line.text, "SpecDecoding metrics: ") || has(line.text, "Speculative metrics: "))
      return read_drafts(line, rows);
    if (has(line.text, "eval time = ") || has(line.text, " t/s, tg_3s = ")) return read_llama(line, rows);
    if (has(line.text, kLlamaTask)) return read_task(line.text), false;
    if (has(line.text, kTimePerToken)) return read_tgi(line, rows);
    ServingLine row;
    if (has(line.text, kActiveRequests)) {
      const bool batch = read_tensorrt(line.text, row);
      if (batch) add(std::move(row), line, rows);
      return batch;
    }
    const bool known = has(line.text, "#running-req: ") ? read_sglang(line.text, row) : read_vllm(line.text, row);
    if (known) add(std::move(row), line, rows);
    return known;
  }

 private:
  void add(ServingLine row, const LogLine& line, LogBuilder& rows) {
    row.line = line.number;
    if (!row.rank && line.rank >= 0) row.rank = line.rank;
    if (line.printed_ns) row.printed_ns = line.printed_ns;
    several_engines_ |= row.rank.value_or(0) > 0;
    if (preempted_ && !row.preempted_in_all) row.preempted_in_all = std::exchange(preempted_, std::nullopt);
    rows.serving(std::move(row));
  }

  // SGLang's retracts and vLLM's preemptions begin again later: they count with the line before.
  bool read_preemption(const LogLine& line, LogBuilder& rows) {
    const std::string_view text = line.text;
    std::vector<ServingLine>& all = rows.log().serving;
    const auto in_all = amount(text, "total_num_cumulative_preemption="), some = amount(text, "retracted_reqs: ");
    if (in_all) count_preempted(*in_all, line, rows.log());
    if (in_all && all.empty()) preempted_ = in_all;
    if (in_all && !all.empty()) all.back().preempted_in_all = in_all;
    if (some && !all.empty()) all.back().preempted = all.back().preempted.value_or(0) + *some;
    return in_all || some;
  }
  // An engine that was started again counts from 0. Of several engines whose lines do not say whose they are, the
  // largest count stands.
  void count_preempted(double count, const LogLine& line, RunLog& log) {
    const int64_t engine = line.pid > 0 ? line.pid : std::max(line.rank, 0);
    Preempted& p = counts_[engine];
    const bool told = line.pid > 0 || line.rank >= 0 || !several_engines_;
    log.preempted_mixed |= !told;
    if (told && count < p.last) p.before += p.last;
    p.last = told ? count : std::max(count, p.last);
    log.preempted[engine] = p.before + p.last;
  }
  // Behind the line of its engine, or where that is left out, for itself.
  bool read_drafts(const LogLine& line, LogBuilder& rows) {
    const auto rates = drafts_of(line.text);
    if (!rates) return false;
    std::vector<ServingLine>& all = rows.log().serving;
    if (all.empty() || all.back().program != kVllm) {
      ServingLine row;
      row.line = line.number, row.program = kVllm;
      row.printed_ns = line.printed_ns ? line.printed_ns : over_years(vllm_time(line.text));
      rows.serving(std::move(row));
    }
    all.back().speculation.push_back(*rates);
    return true;
  }
  static std::optional<Speculation> drafts_of(std::string_view text) {
    Speculation s;
    s.in_all = has(text, "Speculative metrics: ");
    s.drafted = amount(text, s.in_all ? "Number of draft tokens: " : "Drafted: ");
    s.accepted = amount(text, s.in_all ? "Number of accepted tokens: " : "Accepted: ");
    s.length = amount(text, "Mean acceptance length: ");
    s.accepted_pct = share_pct(text, "raft acceptance rate: ", s.in_all ? 100 : 1);
    if (s.drafted == 0 || !s.accepted_pct) return std::nullopt;
    std::string_view rest = after(text, "Per-position acceptance rate: ").value_or("");
    while (const auto rate = printed_number(rest, &rest)) {
      if (*rate < 0 || *rate > 1 || s.position_pct.size() >= kMostDrafted) break;
      s.position_pct.push_back(100 * *rate);
      if (!rest.starts_with(", ")) break;
      rest.remove_prefix(2);
    }
    return s;
  }

  bool read_vllm(std::string_view text, ServingLine& row) {
    const auto prompt = after(text, "Avg prompt throughput: ");
    if (!prompt || !has(*prompt, "tokens/s")) return false;
    row.program = kVllm;
    row.printed_ns = over_years(vllm_time(text));
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

  // "slot print_timing: id  3 | task 0 | n_decoded = …"
  void read_task(std::string_view text) {
    const auto slot = integer_after(text, "print_timing: id "), task = integer_after(text, "| task ");
    task_ = slot && task ? std::optional(std::pair(*slot, *task)) : std::nullopt;
  }

  // Of one request each, of which a server may work on several at once. While it runs, lines tell how far it has come:
  // of these and its timings at the end the last one stands.
  bool read_llama(const LogLine& line, LogBuilder& rows) {
    const std::string_view text = line.text;
    ServingLine row;
    row.program = kLlama;
    if (has(text, kLlamaTask)) read_task(text);
    if (!has(text, "eval time = ")) {
      row.generated_tokens_per_s = amount(text, ", tg = ");
    } else {
      const size_t unit = place_of(text, " tokens per second");
      const size_t comma = unit == text.npos ? unit : text.rfind(',', unit);
      const auto rate = comma == text.npos ? std::nullopt : amount(text.substr(comma + 1), "");
      (has(text, "prompt eval time = ") ? row.prompt_tokens_per_s : row.generated_tokens_per_s) = rate;
    }
    if (!row.generated_tokens_per_s && !row.prompt_tokens_per_s) return false;
    std::vector<ServingLine>& all = rows.log().serving;
    const auto known = task_ && row.generated_tokens_per_s ? of_task_.find(*task_) : of_task_.end();
    if (known != of_task_.end() && known->second < all.size()) {
      all[known->second].generated_tokens_per_s = row.generated_tokens_per_s;
      return true;
    }
    if (task_ && row.generated_tokens_per_s) of_task_[*task_] = all.size();
    add(std::move(row), line, rows);
    return true;
  }

  // The number of a key of JSON, whose quotation marks may be escaped.
  static std::optional<double> field(std::string_view text, std::string_view key) {
    const auto value = after(text, key);
    const size_t begin = value ? value->find_first_not_of("\\\": ") : std::string_view::npos;
    return begin == std::string_view::npos ? std::nullopt : amount(value->substr(begin), "");
  }
  // Requests that are active and not in the batch wait.
  static bool read_tensorrt(std::string_view text, ServingLine& row) {
    const auto active = field(text, kActiveRequests), batch = field(text, "Scheduled Requests");
    if (!active || !batch) return false;
    row.program = kTensorRt;
    row.running = batch, row.waiting = std::max(*active - *batch, 0.0);
    const auto used = field(text, "Used KV cache blocks"), all = field(text, "Max KV cache blocks");
    if (used && all && *all > 0 && *used <= *all) row.cache_pct = 100 * *used / *all;
    return true;
  }
  // "15.25ms", "1.2s", "850.3µs"
  bool read_tgi(const LogLine& line, LogBuilder& rows) {
    const auto value = after(line.text, kTimePerToken);
    std::string_view unit;
    const auto each = value ? printed_number(*value, &unit) : std::nullopt;
    const double seconds = unit.starts_with("ms\"")  ? 1e-3
                           : unit.starts_with("s\"") ? 1
                           : has(unit.substr(0, 4), "s\"") ? 1e-6  // of one sign or the other for micro
                                                          : 0;
    if (!each || *each <= 0 || seconds <= 0) return false;
    ServingLine row;
    row.program = kTgi;
    row.generated_tokens_per_s = 1 / (*each * seconds);
    add(std::move(row), line, rows);
    return true;
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
    Speculation drafts;
    drafts.length = amount(text, " accept len: "), drafts.accepted_pct = share_pct(text, " accept rate: ", 100);
    if (drafts.length && *drafts.length > 0) row.speculation.push_back(std::move(drafts));
    const auto cached = amount(text, "#cached-token: "), read = amount(text, "#new-token: ");
    if (cached && read && *cached + *read > 0)
      row.prefix_hit_pct = 100 * *cached / (*cached + *read), row.prompt_tokens = *cached + *read;
    return true;
  }

  // A date half a year before the last line's is one of the next year.
  std::optional<int64_t> over_years(std::optional<int64_t> yearless_ns) {
    constexpr int64_t kDay_ns = 86'400'000'000'000;
    if (!yearless_ns) return {};
    if (*yearless_ns + years_ns_ < last_ns_ - 183 * kDay_ns) years_ns_ += 366 * kDay_ns;
    return last_ns_ = *yearless_ns + years_ns_;
  }

  struct Preempted {
    double last = 0, before = 0;  // of the engine as it is, and as it was before it was started again
  };
  std::map<int64_t, Preempted> counts_;
  bool several_engines_ = false;
  int64_t last_ns_ = 0, years_ns_ = 0;   // of vLLM's lines
  std::optional<double> preempted_;  // said before the first line
  std::optional<std::pair<int64_t, int64_t>> task_;            // of llama.cpp: slot and task that a line named last
  std::map<std::pair<int64_t, int64_t>, size_t> of_task_;      // the row of each
};

}  // namespace

extern const LogFamily kServing = {"serving",
                                   "inference servers: the lines of vLLM's, SGLang's and TensorRT-LLM's engines, "
                                   "llama.cpp's and Text Generation Inference's timings",
                                   {"Avg prompt throughput: ", "#running-req: ", "#retracted_reqs: ",
                                    "total_num_cumulative_preemption=", "SpecDecoding metrics: ",
                                    "Speculative metrics: ", "eval time = ", "tg_3s = ", kLlamaTask, kAnswered,
                                    kActiveRequests, kTimePerToken},
                                   [] { return std::unique_ptr<LogReading>(new Serving); }};

}  // namespace profgpu
