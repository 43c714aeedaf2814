// DeepSpeed's flops_profiler and comms logger: blocks of lines.
//
//   -------------------------- DeepSpeed Flops Profiler --------------------------
//   Profile Summary at step 5:
//   params per GPU:                                                         336.23 M
//   fwd latency:                                                            76.67 ms
//   GPT2(
//     336.23 M = 100% Params, 3139.93 GMACs = 100% MACs, 76.39 ms = 100% latency, 82.21 TFLOPS
//     (h): ModuleList(
//
//   Comm. Op            Message Size        Count     Total Latency(ms)  Avg Latency(ms)  tput_avg (Gbps)  busbw_avg
//   (Gbps) all_reduce
//                       2.0 KB              146       11.12              0.08             0.43             0.41
//
// Rates of the comms logger are gigabits a second; its sizes have factors of 1024.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kProfileName = "deepspeed_profile";
constexpr size_t kMaxModules = 100'000;

// "336.23 M", "3139.93 GMACs", "82.21 TFLOPS": the plain number.
std::optional<double> scaled_number(std::string_view text) {
  std::string plain;
  for (const char c : text.substr(0, 40)) plain += c;
  size_t end = plain.find_first_not_of("0123456789.eE+- ");
  const auto value = printed_number(std::string_view(plain).substr(0, end));
  if (!value) return std::nullopt;
  if (end == plain.npos) return value;
  switch (plain[end]) {
    case 'k':
    case 'K':
      return *value * 1e3;
    case 'M':
      return plain.compare(end, 4, "MACs") == 0 ? *value : *value * 1e6;
    case 'G':
    case 'B':
      return *value * 1e9;
    case 'T':
      return *value * 1e12;
    case 'P':
      return *value * 1e15;
    default:
      return value;
  }
}

// "336.23 M", "80"
std::optional<int64_t> whole_number_of(std::string_view text) {
  const auto value = scaled_number(text);
  return value && *value >= 0 && *value < 1e18 ? std::optional<int64_t>(std::llround(*value)) : std::nullopt;
}

std::optional<int64_t> latency_ns(std::string_view text) {
  std::string_view unit;
  const auto value = printed_number(text, &unit);
  if (!value || *value < 0 || *value > 1e9) return std::nullopt;
  unit = without_blanks(unit);
  const double factor = unit.starts_with("ms") ? 1e6 : unit.starts_with("us") || unit.starts_with("µs") ? 1e3 : 1e9;
  return std::llround(*value * factor);
}

std::string_view indented(std::string_view text, int& depth) {
  const size_t blanks = std::min(text.find_first_not_of(' '), text.size());
  depth = static_cast<int>(blanks / 2);
  return text.substr(blanks);
}

// "(attention): SelfAttention(…", "GPT2(": a word right before a bracket.
bool is_module(std::string_view text) {
  if (text.starts_with('(')) {
    const size_t end = text.find("): ");
    if (end == text.npos) return false;
    text.remove_prefix(end + 3);
  }
  const size_t word = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  return word != 0 && word != text.npos && text[word] == '(' && !is_digit(text.front());
}

class DeepSpeedProfile : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    if (has(line.text, "- DeepSpeed Flops Profiler -")) {
      in_profile_ = true;
      rows.log().modules.clear();  // the last one stands
      std::erase_if(rows.log().settings, [](const auto& s) { return s.first.starts_with("profiled_"); });
      return true;
    }
    if (in_comms_ && read_comms(line, rows)) return true;
    if (in_profile_) return read_profile(line, rows);
    if (has(line.text, "Comm. Op") && has(line.text, "Message Size")) return in_comms_ = true;
    if (has(line.message, "comm op:") && has(line.message, "msg size:")) return read_op(line, rows);
    return false;
  }
  [[nodiscard]] bool expects_more() const override { return in_profile_ || in_comms_; }

 private:
  // "comm op: all_reduce | time (ms): 0.30 | msg size: 2.0 KB | algbw (Gbps): 0.05 | busbw (Gbps): 0.05"
  static bool read_op(const LogLine& line, LogBuilder& rows) {
    const std::string_view text = line.message;
    LinkRate rate{};
    const std::string_view op = *after(text, "comm op:");
    rate.op = without_blanks(op.substr(0, op.find('|')));
    const auto bytes = after(text, "msg size:"), time = after(text, "time (ms):");
    const auto algbw = number_after(text, "algbw (Gbps):"), busbw = number_after(text, "busbw (Gbps):");
    if (!bytes || !time || rows.log().rates.size() >= kMaxModules) return false;
    rate.bytes = leading_bytes(*bytes).value_or(0);
    rate.time_ns = leading_ms(*time).value_or(0);
    rate.algbw_gbps = algbw ? std::optional(*algbw / 8) : std::nullopt;
    rate.busbw_gbps = busbw ? std::optional(*busbw / 8) : std::nullopt;
    rate.calls = 1;
    rate.line = line.number;
    rows.log().rates.push_back(std::move(rate));
    return true;
  }

  // A line with an operation's name, then lines of sizes.
  bool read_comms(const LogLine& line, LogBuilder& rows) {
    const std::string_view text = line.text;
    const std::vector<std::string_view> words = pieces_of(text, ' ');
    if (words.size() == 1 && !words.front().starts_with('-')) {
      op_ = words.front();
      return true;
    }
    if (words.empty()) return true;
    if (words.size() < 7 || op_.empty() || !is_digit(words.front().front())) {
      in_comms_ = has(text, "Message Size");
      return in_comms_;
    }
    LinkRate rate{};
    rate.op = op_;
    rate.bytes = leading_bytes(text.substr(text.find(words.front()))).value_or(0);
    const auto number = [&](size_t word) { return printed_number(words[word]); };
    rate.calls = leading_integer(words[2]).value_or(0);
    rate.time_ns = leading_ms(words[4]).value_or(0);
    if (const auto algbw = number(5)) rate.algbw_gbps = *algbw / 8;
    if (const auto busbw = number(6)) rate.busbw_gbps = *busbw / 8;
    rate.line = line.number;
    if (rate.calls > 0) add(std::move(rate), rows.log().rates);
    return true;
  }

  // Summaries are of all calls so far: a later one replaces the one before, unless the counts began anew.
  void add(LinkRate rate, std::vector<LinkRate>& rates) {
    const auto [at, added] = of_size_.try_emplace({rate.op, rate.bytes}, rates.size());
    if (!added && rates[at->second].calls <= rate.calls) {
      rates[at->second] = std::move(rate);
    } else if (rates.size() < kMaxModules) {
      at->second = rates.size();
      rates.push_back(std::move(rate));
    }
  }

  bool read_profile(const LogLine& line, LogBuilder& rows) {
    int depth = 0;
    const std::string_view text = indented(line.text, depth);
    if (text.starts_with("------------------------------------------------------------------------------")) {
      in_profile_ = in_tree_ = false;
      return true;
    }
    if (has(text, "Detailed Profile")) return in_tree_ = true;
    if (in_tree_ && is_module(text)) return begin_module(text, depth, rows);
    if (in_tree_ && has(text, "MACs, ")) return read_module_figures(text, rows);
    summary(text, rows);
    return true;
  }

  static void summary(std::string_view text, LogBuilder& rows) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRows = {
        std::pair{"params per GPU:", "profiled_parameters"},  std::pair{"fwd latency:", "profiled_forward_ns"},
        std::pair{"bwd latency:", "profiled_backward_ns"},    std::pair{"step latency:", "profiled_optimizer_ns"},
        std::pair{"iter latency:", "profiled_iteration_ns"}, std::pair{"batch size per GPU:", "micro_batch_size"}};
    for (const auto& [printed, name] : kRows) {
      if (!text.starts_with(printed)) continue;
      const std::string_view value = without_blanks(text.substr(printed.size()));
      const auto number = name.ends_with("_ns") ? latency_ns(value) : whole_number_of(value);
      if (number) rows.setting(name, std::to_string(*number));
    }
    if (text.starts_with("world size:"))
      if (const auto n = leading_integer(text.substr(11))) rows.setting("world_size", std::to_string(*n));
    if (text.starts_with("FLOPS per GPU =") || text.starts_with("FLOPS of GPU =")) {
      const size_t value = text.rfind("  ");
      const auto flops = value == text.npos ? std::nullopt : scaled_number(without_blanks(text.substr(value)));
      if (flops) rows.setting("profiled_tflops", std::to_string(*flops / 1e12));
    }
    if (text.starts_with("samples/second:")) rows.setting("profiled_samples_per_s", without_blanks(text.substr(15)));
    if (text.starts_with("fwd+bwd FLOPS per GPU =")) {
      const auto flops = scaled_number(without_blanks(text.substr(text.rfind(':') + 1)));
      if (flops) rows.setting("profiled_tflops", std::to_string(*flops / 1e12));
    }
  }

  // "(attention): SelfAttention(", "GPT2("
  bool begin_module(std::string_view text, int depth, LogBuilder& rows) {
    if (rows.log().modules.size() >= kMaxModules) return true;
    LogModule module{};
    module.depth = std::min(depth, 64);
    const size_t label = text.find("): ");
    if (label != text.npos) module.name = quotable(text.substr(0, label + 1)), text.remove_prefix(label + 3);
    module.type = quotable(text.substr(0, text.find('(')));
    if (module.name.empty()) module.name = module.type;
    // Leaves have their figures on the same line.
    rows.log().modules.push_back(std::move(module));
    if (has(text, "MACs, ")) read_module_figures(text.substr(text.find('(') + 1), rows);
    return true;
  }

  // "336.23 M = 100% Params, 3139.93 GMACs = 100% MACs, 76.39 ms = 100% latency, 82.21 TFLOPS"; before 2023
  // "336.23 M, 100.00% Params, 3139.93 GMACs, 100.00% MACs, 76.39 ms, 100.00% latency, 82.21 TFLOPS"
  static bool read_module_figures(std::string_view text, LogBuilder& rows) {
    if (rows.log().modules.empty()) return false;
    LogModule& module = rows.log().modules.back();
    for (const std::string_view piece : pieces_of(text, ',')) {
      const std::string_view value = without_blanks(piece);
      const std::string_view figure = value.substr(0, value.find(" = "));
      if (value.empty() || !is_digit(value.front()) || has(figure, "%")) continue;
      if (has(figure, "MACs"))
        module.macs = scaled_number(figure);
      else if (has(figure, "FLOPS"))
        module.flops_per_s = scaled_number(figure);
      else if (figure.ends_with("s"))
        module.latency_ns = latency_ns(figure);
      else if (!module.parameters)
        module.parameters = scaled_number(figure);
    }
    return true;
  }

  bool in_profile_ = false, in_tree_ = false, in_comms_ = false;
  std::string op_;
  std::map<std::pair<std::string, int64_t>, size_t> of_size_;   // the newest row of each operation and size
};

}  // namespace

extern const LogFamily kDeepSpeedProfile = {kProfileName,
                                            "DeepSpeed: flops_profiler's module tree, comms logger",
                                            {"- DeepSpeed Flops Profiler -", "Comm. Op", "comm op:"},
                                            [] { return std::unique_ptr<LogReading>(new DeepSpeedProfile); }};

}  // namespace profgpu
