// The Report written out: the contract that scripts rely on. Holds every row, whatever the options say.
#include "analyse/telemetry_record.h"
#include "job/report.h"
#include "present/json_text.h"

namespace profgpu {
namespace {

void write_issue(JsonText& json, const Issue& issue) {
  json.open('{', Layout::kInline);
  json.key("kind"), json.text(issue.kind);
  json.key("count"), json.integer(issue.count);
  json.key("severity"), json.text(severity_name(issue.severity));
  json.key("text"), json.text(issue.text);
  json.close('}');
}

void write_input(JsonText& json, const InputFile& input) {
  json.open('{');
  json.key("path"), json.text(input.path);
  json.key("format"), json.text(input.format);
  json.key("file_bytes"), json.integer(input.file_bytes);
  json.key("events"), json.integer(input.events);
  json.key("rank"), json.integer_or_null(input.rank);
  json.key("issues");
  json.open('[');
  for (const Issue& issue : input.issues) json.element(), write_issue(json, issue);
  json.close(']');
  json.close('}');
}

void write_rank(JsonText& json, const RankReport& rank) {
  json.open('{');
  json.key("rank"), json.integer(rank.rank);
  json.key("world_size"), json.integer_or_null(rank.world_size);
  json.key("host");
  rank.host.empty() ? json.null() : json.text(rank.host);
  for (const Section& section : sections()) json.key(section.name), json.value(section.value(rank));
  json.close('}');
}

void write_texts(JsonText& json, const std::vector<std::string>& texts) {
  json.open('[');
  for (const std::string& text : texts) json.element(), json.text(text);
  json.close(']');
}

void write_finding(JsonText& json, const Finding& finding) {
  json.open('{');
  json.key("rule"), json.text(finding.rule);
  json.key("severity"), json.text(severity_name(finding.severity));
  json.key("ranks");
  json.open('[', Layout::kInline);
  for (const int rank : finding.ranks) json.element(), json.integer(rank);
  json.close(']');
  json.key("value"), json.real_or_null(finding.value);
  json.key("threshold"), json.real_or_null(finding.threshold);
  json.key("unit"), json.text(finding.unit);
  json.key("what"), json.text(finding.what);
  json.key("why"), json.text(finding.why);
  json.key("fix"), write_texts(json, finding.fix);
  json.key("cost_ns"), json.integer_or_null(finding.cost_ns);
  json.key("cost_pct"), json.real_or_null(finding.cost_pct);
  json.key("evidence"), write_texts(json, finding.evidence);
  json.close('}');
}

void write_check(JsonText& json, const Check& check) {
  json.open('{', Layout::kInline);
  json.key("id"), json.text(check.id);
  json.key("question"), json.text(check.question);
  json.key("verdict"), json.text(verdict_name(check.verdict));
  json.key("value"), json.real_or_null(check.value);
  json.key("threshold"), json.real_or_null(check.threshold);
  json.close('}');
}

template <class Item>
void write_array(JsonText& json, std::string_view key, const std::vector<Item>& items,
                 void (*write_item)(JsonText&, const Item&)) {
  json.key(key);
  json.open('[');
  for (const Item& item : items) json.element(), write_item(json, item);
  json.close(']');
}

std::string write_json_report(const Report& report, const PresentOptions&) {
  JsonText json;
  json.open('{');
  json.key("schema"), json.text(report.schema);
  json.key("verdict"), json.text(report.verdict);
  json.key("measured_steps"), json.integer(report.measured_steps);
  json.key("warmup_steps"), json.integer(report.warmup_steps);
  write_array(json, "inputs", report.inputs, write_input);
  write_array(json, "ranks", report.ranks, write_rank);
  json.key("cluster"), json.value(report.job ? value_of(*report.job) : Value());
  if (!report.telemetry.empty()) {
    json.key("telemetry");
    json.open('[');
    for (const DeviceTelemetry& device : report.telemetry) json.element(), json.record(telemetry_record(device), Layout::kLines);
    json.close(']');
  }
  write_array(json, "findings", report.findings, write_finding);
  write_array(json, "checklist", report.checklist, write_check);
  json.key("next"), write_texts(json, report.next);
  json.close('}');
  std::string text = json.take();
  text += '\n';
  return text;
}

}  // namespace

extern const Presenter kJsonPresenter;
const Presenter kJsonPresenter{"json", "everything, for scripts", write_json_report};

}  // namespace profgpu
