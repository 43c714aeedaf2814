#include "view/registry.h"

#include "analyse/job/report.h"
#include "analyse/rank/telemetry.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

struct RankDocument {
  const RankReport& rank;

  template <class V>
  void fields(V&& v) const {
    v("rank", rank.rank), v("world_size", rank.world_size), v("host", unless_empty(rank.host));
    v("frameworks", rank.frameworks);
    for (const Section& section : sections()) v(section.name, section_value(rank, section.name));
  }
};

/// The contract that scripts rely on. Holds every row, whatever the options say.
struct ReportDocument {
  const Report& report;

  template <class V>
  void fields(V&& v) const {
    const std::vector<RankDocument> ranks(report.ranks.begin(), report.ranks.end());
    v("schema", report.schema), v("verdict", report.verdict);
    v("verdict_kind", verdict_kind_name(report.verdict_kind)), v("saving", report.saving);
    v("verdict_rule", unless_empty(report.verdict_rule));
    v("measured_steps", report.measured_steps), v("warmup_steps", report.warmup_steps);
    v("incomplete_steps", report.incomplete_steps);
    v("inputs", InFull<InputFile>{report.inputs}), v("ranks", InFull<RankDocument>{ranks});
    v("cluster", report.job ? value_of(*report.job) : Value());
    if (report.energy) v("job", Record().add("energy", value_of(*report.energy)));
    std::vector<Record> telemetry;
    for (const DeviceTelemetry& device : report.telemetry) telemetry.push_back(telemetry_record(device));
    if (!telemetry.empty()) v("telemetry", InFull<Record>{telemetry});
    if (!report.logs.empty()) v("logs", InFull<LogReport>{report.logs});
    if (report.flight) v("flight_recorder", value_of(*report.flight));
    v("findings", InFull<Finding>{report.findings}), v("checklist", report.checklist), v("next", report.next);
  }
};

}  // namespace

Value report_value(const Report& report) { return value_of(ReportDocument{report}); }
std::string json_report(const Report& report, const PresentOptions&) { return json_document(ReportDocument{report}); }

const Presenter kJsonPresenter{"json", "everything, for scripts", json_report};
extern const Presenter kTerminalPresenter;
extern const Presenter kMarkdownPresenter;
extern const Presenter kHtmlPresenter;
extern const Presenter kSarifPresenter;
extern const Presenter kGithubPresenter;

const std::vector<const Presenter*>& presenters() {
  static const std::vector<const Presenter*> all = {&kTerminalPresenter, &kJsonPresenter,  &kMarkdownPresenter,
                                                    &kHtmlPresenter,     &kSarifPresenter, &kGithubPresenter};
  return all;
}

const Presenter* find_presenter(std::string_view name) {
  for (const Presenter* presenter : presenters())
    if (presenter->name == name) return presenter;
  return nullptr;
}

}  // namespace profgpu
