// The Report written out: the contract that scripts rely on. Holds every row, whatever the options say.
#include "analyse/telemetry.h"
#include "job/report.h"
#include "present/json_text.h"

namespace profgpu {
namespace {

void write_texts(JsonText& json, const std::vector<std::string>& texts) {
  json.open('[');
  for (const std::string& text : texts) json.element(), json.text(text);
  json.close(']');
}

// A field on a line; of a list of texts each text.
template <class T>
void write_fields(JsonText& json, const T& x) {
  x.fields([&]<class Field>(std::string_view name, const Field& field) {
    json.key(name);
    if constexpr (std::is_same_v<Field, std::vector<std::string>>) write_texts(json, field);
    else if constexpr (Named<Field>) json.value(value_of(field), Layout::kInline);
    else json.value(value_of(field));
  });
}

void write_item(JsonText& json, const InputFile& input) { write_fields(json, input); }
void write_item(JsonText& json, const Finding& finding) { write_fields(json, finding); }
void write_item(JsonText& json, const RankReport& rank) {
  json.key("rank"), json.integer(rank.rank);
  json.key("world_size"), json.integer_or_null(rank.world_size);
  json.key("host"), json.value(unless_empty(rank.host));
  for (const Section& section : sections()) json.key(section.name), json.value(section.value(rank));
}

template <class Item>
void write_array(JsonText& json, std::string_view key, const std::vector<Item>& items) {
  json.key(key), json.open('[');
  for (const Item& item : items) {
    json.element(), json.open('{');
    write_item(json, item);
    json.close('}');
  }
  json.close(']');
}

std::string write_json_report(const Report& report, const PresentOptions&) {
  JsonText json;
  json.open('{');
  json.key("schema"), json.text(report.schema);
  json.key("verdict"), json.text(report.verdict);
  json.key("measured_steps"), json.integer(report.measured_steps);
  json.key("warmup_steps"), json.integer(report.warmup_steps);
  write_array(json, "inputs", report.inputs);
  write_array(json, "ranks", report.ranks);
  json.key("cluster"), json.value(report.job ? value_of(*report.job) : Value());
  if (!report.telemetry.empty()) {
    json.key("telemetry"), json.open('[');
    for (const DeviceTelemetry& device : report.telemetry) json.element(), json.record(telemetry_record(device), Layout::kLines);
    json.close(']');
  }
  write_array(json, "findings", report.findings);
  json.key("checklist"), json.value(value_of(report.checklist));
  json.key("next"), write_texts(json, report.next);
  json.close('}');
  return json.take() + '\n';
}

}  // namespace

extern const Presenter kJsonPresenter;
const Presenter kJsonPresenter{"json", "everything, for scripts", write_json_report};

}  // namespace profgpu
