// nccl-tests' own JSON (-J FILE): the rows of its table.
#include <cmath>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/log/log_line.h"
#include "trace/import/result_json.h"

namespace profgpu {
namespace {

constexpr size_t kMostRows = 100'000;
constexpr size_t kMostTestJson = size_t{256} << 20;

// Numbers may be texts: "nan", "12.3".
std::optional<double> number_of(std::string_view raw) {
  if (raw.size() >= 2 && raw.front() == '"') raw = raw.substr(1, raw.size() - 2);
  return real_number(raw);
}

class TestJson {
 public:
  TestJson(JsonReader json, RunLog& out) : json_(json), out_(out) {}

  bool read() {
    const bool whole = read_object(json_, [&](std::string_view key) {
      if (key == "devices" && json_.peek() == '[') return devices();
      if (key == "results" && json_.peek() == '[') return read_array(json_, [&] { return row(); });
      if (key == "average_bus_bandwidth" && json_.peek() == '{') return average();
      std::string_view raw;
      if (!json_.raw_value(raw)) return false;
      note_program(raw);
      return true;
    });
    for (LinkRate& r : out_.rates) r.op = op_, r.ranks = devices_;
    return whole;
  }

 private:
  bool devices() {
    return read_array(json_, [&] {
      ++devices_;
      return json_.skip_value();
    });
  }
  bool average() {
    return read_object(json_, [&](std::string_view key) {
      std::string_view raw;
      if (!json_.raw_value(raw)) return false;
      if (const auto rate = number_of(raw); rate && key == "bandwidth")
        out_.rate_notes["average_busbw_gbps"] = std::to_string(*rate);
      return true;
    });
  }
  // "…/all_reduce_perf" somewhere in the configuration.
  void note_program(std::string_view raw) {
    const size_t end = raw.find("_perf");
    if (end == raw.npos || !op_.empty()) return;
    size_t begin = end;
    while (begin > 0 && (is_letter(raw[begin - 1]) || raw[begin - 1] == '_')) --begin;
    op_ = raw.substr(begin, end - begin);
    if (op_ == "alltoall" || op_ == "alltoallv") op_ = "all_to_all";
    if (op_ == "sendrecv") op_ = "send_recv";
  }

  bool row() {
    LinkRate common{};
    LinkRate places[2];
    bool there[2] = {false, false};
    if (json_.peek() != '{') return json_.skip_value();
    const bool whole = read_object(json_, [&](std::string_view key) {
      const bool in_place = key == "in_place";
      if ((in_place || key == "out_of_place") && json_.peek() == '{') {
        there[in_place] = true;
        return figures(places[in_place]);
      }
      std::string_view raw;
      if (!json_.raw_value(raw)) return false;
      if (key == "size") common.bytes = number(raw);
      if (key == "count") common.count = number(raw);
      if (key == "type" && raw.size() > 2) common.dtype = quotable(raw.substr(1, raw.size() - 2));
      if (key == "redop" && raw.size() > 2) common.reduction = quotable(raw.substr(1, raw.size() - 2));
      return true;
    });
    for (const bool in_place : {false, true}) {
      LinkRate& r = places[in_place];
      if (!there[in_place] || r.time_ns <= 0 || common.bytes < 0 || out_.rates.size() >= kMostRows) continue;
      r.bytes = common.bytes, r.count = common.count, r.dtype = common.dtype, r.reduction = common.reduction;
      r.in_place = in_place;
      out_.rates.push_back(r);
    }
    return whole;
  }
  static int64_t number(std::string_view raw) {
    const auto x = number_of(raw);
    return x && *x >= 0 && *x < 9e18 ? std::llround(*x) : 0;
  }
  bool figures(LinkRate& rate) {
    return read_object(json_, [&](std::string_view key) {
      std::string_view raw;
      if (!json_.raw_value(raw)) return false;
      const auto x = number_of(raw);
      if (!x || *x < 0 || *x > 1e15) return true;
      if (key == "time" || key == "cpu_time") rate.time_ns = std::llround(*x * 1000);
      if (key == "alg_bw") rate.algbw_gbps = x;
      if (key == "bus_bw") rate.busbw_gbps = x;
      if (key == "nwrong") rate.wrong = std::llround(*x);
      return true;
    });
  }

  JsonReader json_;
  RunLog& out_;
  std::string op_;
  int devices_ = 0;
};

Result<Trace> read_test_json(const std::string& path, const ImportOptions&) {
  RunLog begun;
  begun.families = {"nccl_tests"}, begun.rate_notes["program"] = "nccl-tests";
  return read_result_json(path, kMostTestJson, std::move(begun),
                          [](JsonReader json, RunLog& log) { return TestJson(json, log).read(); });
}

bool looks_like_test_json(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  const auto says = [&](std::string_view word) { return head.find(word) != head.npos; };
  return begin != head.npos && head[begin] == '{' && says("\"results\"") && says("\"bus_bw\"");
}

}  // namespace

extern const Importer kNcclTestsJson = {
    .name = "nccl-tests",
    .noun = "nccl-tests result",
    .summary = "rates of collectives by size: nccl-tests' JSON (-J); its text is read as a log",
    .examples = "all_reduce.json",
    .sniff = looks_like_test_json,
    .read = read_test_json,
    .beside_traces = true};

}  // namespace profgpu
