// nccl-tests and rccl-tests, whose rows NCCL's own lines may cut in pieces, and benchmarks after all_reduce_bench.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kTestsName = "nccl_tests";
constexpr size_t kMostRates = 100'000;
constexpr double kLongestTime_us = 1e12;

struct TestProgram {
  std::string_view program, op;
};
constexpr std::array kPrograms = {
    TestProgram{"all_reduce_perf", "all_reduce"},
    TestProgram{"all_gather_perf", "all_gather"},
    TestProgram{"reduce_scatter_perf", "reduce_scatter"},
    TestProgram{"alltoall_perf", "all_to_all"},
    TestProgram{"alltoallv_perf", "all_to_all"},
    TestProgram{"broadcast_perf", "broadcast"},
    TestProgram{"sendrecv_perf", "send_recv"},
    TestProgram{"hypercube_perf", "hypercube"},
    TestProgram{"gather_perf", "gather"},
    TestProgram{"scatter_perf", "scatter"},
    TestProgram{"reduce_perf", "reduce"},
};

// "busbw: 40.49  Gbps" and "algo throughput: ..., 41.8 Gbps" are gigabits.
constexpr double kBitsOfByte = 8;

class NcclTests : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = line.text;
    if (text.starts_with("#") || text.starts_with(" #")) return read_comment(text, rows);
    if (has(text, "_perf")) note_program(text);
    if (has(text, "data size:")) return read_bench_size(text);
    if (const auto busbw = after(text, "busbw:"); busbw && bench_bytes_ > 0) return read_bench(*busbw, line, rows);
    if (text.starts_with("|")) return read_bench_row(text, line, rows);
    return in_table_ && read_row(text, line, rows);
  }
  [[nodiscard]] bool expects_more() const override { return in_table_; }

 private:
  void note_program(std::string_view text) {
    for (const TestProgram& p : kPrograms) {
      const size_t at = text.find(p.program);
      if (at == text.npos || (at > 0 && (is_letter(text[at - 1]) || text[at - 1] == '_'))) continue;
      op_ = p.op;
      return;
    }
  }

  bool read_comment(std::string_view text, LogBuilder& rows) {
    note_program(text);
    if (has(text, "nThread ")) ranks_ = 0;   // another run begins
    if (has(text, "Rank ") && has(text, " device ")) {
      const auto rank = integer_after(text, "Rank ");
      if (rank && *rank >= 0 && *rank < 10'000'000) ranks_ = std::max(ranks_, static_cast<int>(*rank) + 1);
      const size_t bracket = text.rfind("] ");
      if (bracket != text.npos)
        rows.log().rate_notes.try_emplace("device", quotable(without_blanks(text.substr(bracket + 2))));
      return true;
    }
    if (has(text, "algbw") && has(text, "busbw") && has(text, "size")) return read_header(text, rows);
    if (const auto bad = integer_after(text, "Out of bounds values :")) {
      rows.log().rate_notes["out_of_bounds"] = std::to_string(*bad);
    } else if (const auto rate = number_after(text, "Avg bus bandwidth    :")) {
      rows.log().rate_notes["average_busbw_gbps"] = quotable(without_blanks(*after(text, "Avg bus bandwidth    :")));
      in_table_ = false;
    }
    return true;
  }

  // "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
  bool read_header(std::string_view text, LogBuilder& rows) {
    head_.clear(), figures_.clear();
    bool in_figures = false;
    for (std::string_view word : pieces_of(text, ' ')) {
      if (word == "#") continue;
      if (word == "time" && in_figures) break;
      in_figures |= word == "time";
      (in_figures ? figures_ : head_).emplace_back(word);
    }
    rows.log().rate_notes.try_emplace("program", "nccl-tests");
    in_table_ = !head_.empty() && !figures_.empty();
    values_.clear();
    return in_table_;
  }

  // Words of a row, as far as they are of one: what is glued behind a number is another line.
  bool read_row(std::string_view text, const LogLine& line, LogBuilder& rows) {
    const size_t needed = head_.size() + 2 * figures_.size();
    bool any = false;
    while (true) {
      text = without_blanks(text);
      if (text.empty()) break;
      const size_t at = values_.size();
      if (at >= needed) break;
      const std::string_view column = at < head_.size() ? head_[at] : figures_[(at - head_.size()) % figures_.size()];
      const bool is_word = column == "type" || column == "redop";
      std::string_view rest;
      if (is_word || text.starts_with("N/A") || text.starts_with("nan")) {
        const std::string_view word = text.substr(0, text.find(' '));
        if (is_word && (word.empty() || word.size() > 24 || !is_letter(word.front()))) break;
        values_.emplace_back(word);
        rest = text.substr(word.size());
      } else {
        const auto number = printed_number(text, &rest);
        const bool glued = !rest.empty() && rest.front() != ' ';
        if (!number || (glued && !any)) break;   // a host's name may begin with a number
        values_.emplace_back(text.substr(0, text.size() - rest.size()));
      }
      if (at == 0) row_line_ = line.number;
      any = true;
      if (!rest.empty() && rest.front() != ' ') {  // glued: the rest is no part of the row
        text = {};
        break;
      }
      text = rest;
    }
    if (!any && !values_.empty() && values_.size() < head_.size()) values_.clear();
    if (values_.size() == needed) finish_row(rows);
    return any;
  }

  [[nodiscard]] std::string_view head(std::string_view name) const {
    for (size_t i = 0; i < head_.size(); ++i)
      if (head_[i] == name) return values_[i];
    return {};
  }
  [[nodiscard]] std::optional<double> figure(std::string_view name, size_t group) const {
    for (size_t i = 0; i < figures_.size(); ++i)
      if (figures_[i] == name) return printed_number(values_[head_.size() + group * figures_.size() + i]);
    return std::nullopt;
  }

  void finish_row(LogBuilder& rows) {
    for (const size_t group : {size_t{0}, size_t{1}}) {
      LinkRate rate{};
      rate.op = op_, rate.ranks = ranks_, rate.in_place = group == 1, rate.line = row_line_;
      rate.bytes = leading_integer(head("size")).value_or(0);
      rate.count = leading_integer(head("count")).value_or(0);
      rate.dtype = head("type"), rate.reduction = head("redop");
      const auto time_us = figure("time", group);
      if (!time_us || *time_us < 0 || *time_us > kLongestTime_us) continue;
      rate.time_ns = std::llround(*time_us * 1000);
      rate.algbw_gbps = figure("algbw", group), rate.busbw_gbps = figure("busbw", group);
      if (const auto wrong = figure("#wrong", group)) rate.wrong = std::llround(*wrong);
      add(std::move(rate), rows);
    }
    values_.clear();
  }

  // "0 data size: 4.0 GB"
  bool read_bench_size(std::string_view text) {
    const auto gigabytes = number_after(text, "data size:");
    if (!gigabytes || *gigabytes <= 0 || *gigabytes > 1e6 || !has(text, " GB")) return false;
    bench_bytes_ = std::llround(*gigabytes * 1e9);
    if (const auto rank = leading_integer(text)) bench_ranks_.insert(*rank);
    return true;
  }
  bool read_bench(std::string_view busbw, const LogLine& line, LogBuilder& rows) {
    const auto gigabits = printed_number(busbw);
    if (!gigabits || *gigabits <= 0 || !has(busbw, "Gbps")) return false;
    rows.log().rate_notes.try_emplace("program", "all_reduce_bench");
    LinkRate rate{};
    rate.op = "all_reduce", rate.bytes = bench_bytes_, rate.line = line.number;
    rate.ranks = static_cast<int>(bench_ranks_.size());
    set_from_busbw(*gigabits / kBitsOfByte, rate);
    add(std::move(rate), rows);
    return true;
  }
  // "|     32KB |   0.92GBps |   0.47GBps |": payload, busbw, algbw
  static bool read_bench_row(std::string_view text, const LogLine& line, LogBuilder& rows) {
    const std::vector<std::string_view> cells = pieces_of(text, '|');
    if (cells.size() < 3 || !has(cells[1], "GBps") || !has(cells[2], "GBps")) return false;
    const auto bytes = leading_bytes(without_blanks(cells[0]));
    const auto busbw = printed_number(cells[1]), algbw = printed_number(cells[2]);
    if (!bytes || !busbw || !algbw || *algbw <= 0) return false;
    rows.log().rate_notes.try_emplace("program", "all_reduce_bench");
    LinkRate rate{};
    rate.op = "all_reduce", rate.bytes = *bytes, rate.line = line.number;
    rate.algbw_gbps = algbw, rate.busbw_gbps = busbw;
    rate.time_ns = std::llround(static_cast<double>(*bytes) / *algbw);
    add(std::move(rate), rows);
    return true;
  }
  static void set_from_busbw(double busbw_gbps, LinkRate& rate) {
    rate.busbw_gbps = busbw_gbps;
    if (rate.ranks < 2) return;
    const double n = rate.ranks;
    rate.algbw_gbps = busbw_gbps * n / (2 * (n - 1));
    rate.time_ns = std::llround(static_cast<double>(rate.bytes) / *rate.algbw_gbps);
  }
  static void add(LinkRate rate, LogBuilder& rows) {
    if (rate.bytes < 0 || rows.log().rates.size() >= kMostRates) return;
    rows.found(kTestsName);
    rows.log().rates.push_back(std::move(rate));
  }

  std::string op_;
  int ranks_ = 0;
  bool in_table_ = false;
  std::vector<std::string> head_, figures_, values_;
  int64_t row_line_ = 0;
  int64_t bench_bytes_ = 0;
  std::set<int64_t> bench_ranks_;
};

}  // namespace

extern const LogFamily kNcclTests = {
    kTestsName,
    "nccl-tests, rccl-tests, all_reduce_bench: rates by size",
    {"algbw", "_perf", "#  Rank ", "bus bandwidth", "Out of bounds", "data size:", "busbw:", "GBps"},
    [] { return std::unique_ptr<LogReading>(new NcclTests); }};

}  // namespace profgpu
