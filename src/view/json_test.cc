#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/text.h"
#include "view/json_text.h"
#include "view/registry.h"
#include "view/sample_report_test.h"

namespace profgpu {
namespace {

// A strict reader of RFC 8259 that only says yes or no; the project's own reader forgives too much for this.
class Strict {
 public:
  static bool accepts(std::string_view text) {
    Strict s{text};
    return s.value(0) && (s.blank(), s.text_.empty());
  }

 private:
  explicit Strict(std::string_view text) : text_(text) {}
  void blank() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n\r\t"), text_.size())); }
  bool take(std::string_view s) {
    if (!text_.starts_with(s)) return false;
    text_.remove_prefix(s.size());
    return true;
  }
  bool value(int depth) {
    blank();
    if (depth > 50 || text_.empty()) return false;
    if (text_[0] == '{') return members('}', depth);
    if (text_[0] == '[') return members(']', depth);
    if (text_[0] == '"') return string();
    return take("null") || take("true") || take("false") || number();
  }
  bool members(char end, int depth) {
    text_.remove_prefix(1);
    blank();
    if (take(std::string(1, end))) return true;
    do {
      blank();
      if (end == '}' && !(string() && take(": "))) return false;
      if (!value(depth + 1)) return false;
      blank();
    } while (take(","));
    return take(std::string(1, end));
  }
  bool string() {
    if (!take("\"")) return false;
    while (!text_.empty() && text_[0] != '"') {
      if (static_cast<unsigned char>(text_[0]) < 0x20) return false;
      size_t n = utf8_sequence(text_);
      if (n == 0) return false;
      if (text_[0] == '\\') {
        if (text_.size() < 6 || std::string_view("\"\\nrtu").find(text_[1]) == std::string_view::npos) return false;
        n = text_[1] == 'u' ? 6 : 2;
        if (n == 6 && text_.substr(2, 4).find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
      }
      text_.remove_prefix(n);
    }
    return take("\"");
  }
  bool number() {
    take("-");
    const size_t digits = text_.find_first_not_of("0123456789");
    if (digits == 0 || (text_[0] == '0' && digits > 1)) return false;
    const size_t n = std::min(text_.find_first_not_of("0123456789.e+-"), text_.size());
    text_.remove_prefix(n);
    return n > 0;
  }
  std::string_view text_;
};

std::string json_of(const Report& report, const PresentOptions& options = {}) {
  return find_presenter("json")->write(report, options);
}

std::string json_of(const Value& value, Layout layout = Layout::kInline) {
  JsonText json;
  json.value(value, layout);
  return json.take();
}

TEST(JsonText, WritesNumbersExactly) {
  EXPECT_EQ(json_of(Value(int64_t{1718000000000000123})), "1718000000000000123");
  EXPECT_EQ(json_of(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(json_of(0.1), "0.1");
  EXPECT_EQ(json_of(39.66666666666667), "39.66666666666667");
  EXPECT_EQ(json_of(5.0), "5");
  EXPECT_EQ(json_of(NAN), "null");
  EXPECT_EQ(json_of(-INFINITY), "null");
  EXPECT_EQ(json_of(Value()), "null");
  EXPECT_EQ(json_of(false), "false");
}

TEST(JsonText, EscapesText) {
  EXPECT_EQ(json_of("a\"b\\c\n\t\r"), R"("a\"b\\c\n\t\r")");
  EXPECT_EQ(json_of("\x1b[31m\x7f"), R"("\u001b[31m\u007f")");
  EXPECT_EQ(json_of("\xc2\x9b\u202E"), R"("\u009b\u202e")");
  EXPECT_EQ(json_of("\xff日本🙂"), "\"\uFFFD日本🙂\"");
  EXPECT_EQ(json_of(std::string(1, '\0')), R"("\u0000")");
}

TEST(JsonText, WritesOneRowALine) {
  const Table table{{"a", "b"}, {{1, Table{{"c"}, {{2}, {3}}}}, {Value(List{4, "x"})}}};
  EXPECT_EQ(json_of(table, Layout::kLines),
            "[\n  {\"a\": 1, \"b\": [{\"c\": 2}, {\"c\": 3}]},\n  {\"a\": [4, \"x\"], \"b\": null}\n]");
  EXPECT_EQ(json_of(Table{{"a"}, {}}, Layout::kLines), "[]");
  EXPECT_EQ(json_of(Record(), Layout::kLines), "{}");
  EXPECT_EQ(json_of(Record().add("t", Table{{"a"}, {{1}}}), Layout::kLines), "{\n  \"t\": [\n    {\"a\": 1}\n  ]\n}");
}

TEST(Json, HasTheShapeOfTheContract) {
  Report report;
  report.inputs = {{"a.json", "kineto", "PyTorch trace", 10, 2, {}, {{"cut", 1, Severity::kWarning, "it ends"}}}};
  report.findings = {{"r", Severity::kCritical, {3}, 1.5, {}, "%", "w", "y", {"f"}, {}, {}, {}, {}, false, {{"load", "a.py", 3, "", 5, 2}}}};
  report.checklist = {{"c", "q", Verdict::kFail, {}, 80, "brief"}};
  EXPECT_EQ(json_of(report), R"({
  "schema": "profgpu.analysis.v1",
  "verdict": "",
  "verdict_kind": "inconclusive",
  "saving": null,
  "verdict_rule": null,
  "measured_steps": 0,
  "warmup_steps": 0,
  "incomplete_steps": 0,
  "inputs": [
    {
      "path": "a.json",
      "format": "kineto",
      "file_bytes": 10,
      "events": 2,
      "rank": null,
      "issues": [
        {"kind": "cut", "count": 1, "severity": "warning", "text": "it ends"}
      ]
    }
  ],
  "ranks": [],
  "cluster": null,
  "findings": [
    {
      "rule": "r",
      "severity": "critical",
      "ranks": [3],
      "value": 1.5,
      "threshold": null,
      "unit": "%",
      "what": "w",
      "why": "y",
      "fix": [
        "f"
      ],
      "paste": [null],
      "cost_ns": null,
      "cost_pct": null,
      "steps": 0,
      "evidence": [],
      "where": [
        {"name": "load", "file": "a.py", "line": 3, "module": null, "ns": 5, "count": 2}
      ],
      "seen": {"at": "steps", "of": null, "rank": null, "device": null, "step": null, "start_ns": null, "duration_ns": null}
    }
  ],
  "checklist": [
    {"id": "c", "question": "q", "verdict": "fail", "value": null, "threshold": 80, "record": null, "applies": true}
  ],
  "next": []
}
)");
}

TEST(Json, ARankIsItsSections) {
  Report report;
  RankReport& rank = report.ranks.emplace_back();
  rank.rank = 3;
  rank.devices = {{.id = 1, .name = "", .span_ns = 100, .busy_ns = 25, .idle_ns = 75, .window_ns = 200}};
  rank.launch.launches = 1;
  const std::string text = json_of(report);
  EXPECT_NE(
      text.find(
          R"(
    {
      "rank": 3,
      "world_size": null,
      "host": null,
      "frameworks": [],
      "devices": [
        {"id": 1, "name": null, "span_ns": 100, "busy_ns": 25, "idle_ns": 75, "compute_ns": 0, "communication_ns": 0, )"
          R"("memory_ns": 0, "exposed_communication_ns": 0, "exposed_memory_ns": 0, "overlap_pct": null, "utilization_pct": 25, )"
          R"("window_ns": 200, "window_idle_ns": 175, "window_utilization_pct": 12.5}
      ],
      "use": [],
      "steps": [],
      "phases": [],
      "average_step": null,
      "serving": null,
      "idle": [],
      "kernels": [],
      "ops": [],
      "work": null,
      "limits": {
        "device": null,
        "source": null,
        "reason": null,
        "memory_gbps": null,
        "cache_bytes": null,
        "link_gbps": null,
        "host_link_gbps": null,
        "peak_clock_mhz": null,
        "clock_mhz": null,
        "peaks": []
      },
      "roofline": {
        "known_pct": null,
        "mfu_pct": null,
        "hfu_pct": null,
        "mbu_pct": null,
        "mbu_is_lower_bound": null,
        "clock_mfu_pct": null,
        "mfu_is_lower_bound": null,
        "missing": [],
        "ops": [],
        "kernels": []
      },
      "counters": null,
      "distance": {
        "steps": 0,
        "wall_ns": 0,
        "left_out_ns": 0,
        "limit_ns": null,
        "times_limit": null,
        "times_limit_is_lower_bound": null,
        "known_pct": null,
        "parts": []
      },
      "model": null,
      "energy": null,
      "launch": {
        "launches": 1,
        "median_latency_ns": null,)"),
      std::string::npos)
      << text;
}

TEST(Json, IsAlwaysJson) {
  for (const Report& report : {Report(), sample_report(), cpu_only_report(), cluster_report(), hostile_report()}) {
    const std::string text = json_of(report);
    EXPECT_TRUE(Strict::accepts(text));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
  EXPECT_FALSE(Strict::accepts("{\"a\": 01}"));
  EXPECT_FALSE(Strict::accepts("{\"a\": \"\x01\"}"));
}

TEST(Json, HoldsEveryRowWhateverTheOptions) {
  PresentOptions options;
  options.top = 1;
  options.width = 20;
  options.section = "kernels";
  EXPECT_EQ(json_of(sample_report(), options), json_of(sample_report()));
}

}  // namespace
}  // namespace profgpu
