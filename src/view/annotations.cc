#include "view/annotations.h"

#include <fmt/format.h>

#include <filesystem>

#include "analyse/job/report.h"
#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "analyse/rules/rule.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/version.h"
#include "view/json_text.h"
#include "view/overview.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

// Traces are recorded elsewhere: /home/alice/repo/src/train.py is src/train.py here. The longest end of the path that
// is a file below the current folder; empty: there is none.
std::string path_here(std::string_view recorded) {
  std::error_code error;
  const fs::path path{std::string(recorded)}, here = fs::current_path(error);
  for (auto first = path.begin(); first != path.end(); ++first) {
    fs::path end;
    bool plain = true;
    for (auto part = first; part != path.end(); ++part) {
      plain &= *part != ".." && *part != "." && !part->has_root_directory();
      end /= *part;
    }
    if (plain && fs::is_regular_file(here / end, error)) return end.string();
  }
  return {};
}

std::string in_repository(const Place& place) {
  const std::string here = path_here(place.file);
  return here.empty() ? place.file : here;
}

std::string percent_encoded(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (is_letter(c) || is_digit(c) || contains("-._~/", std::string_view(&c, 1))) out += c;
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string cost_text(const Report& report, const Finding& f) {
  const std::optional<double> cost = cost_of_step(report, f);
  if (!cost) return {};
  if (*cost == 0) return " (saves nothing alone)";
  return fmt::format(" (costs {}{}{})", format_duration(*cost), report.measured_steps > 0 ? " per step" : "",
                     f.cost_pct ? fmt::format(", {}", format_percent(*f.cost_pct, 0)) : "");
}

std::string finding_text(const Report& report, const Finding& f) {
  const std::string ranks = ranks_concerned(report, f);
  std::string text = (ranks.empty() ? "" : ranks + ": ") + f.what + cost_text(report, f) + ".";
  if (!f.why.empty()) text += " " + f.why;
  if (!f.fix.empty()) text += " Fix: " + f.fix.front() + ".";
  return sanitised(text);
}

// Of a workflow command: what ends its text, and within a property what ends that.
std::string command_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool separates = property && (c == ':' || c == ',');
    if (c == '%' || c == '\r' || c == '\n' || separates) out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else out += c;
  }
  return out;
}

std::string github_report(const Report& report, const PresentOptions&) {
  const bool healthy = report.verdict_kind == VerdictKind::kHealthy;
  std::string out = workflow_command(healthy ? Severity::kInfo : Severity::kWarning,
                                     fmt::format("profgpu: {}", verdict_kind_name(report.verdict_kind)),
                                     sanitised(report.verdict));
  for (const Finding& f : report.findings) {
    const Place* at = first_where(f.where, [](const Place& p) { return !p.file.empty(); });
    out += workflow_command(f.severity, "profgpu: " + f.rule, finding_text(report, f),
                            at != nullptr ? sanitised(in_repository(*at)) : "",
                            at != nullptr ? at->line : std::nullopt);
  }
  return out;
}

// SARIF 2.1.0 (OASIS), section 3.11: braces are placeholders, and brackets before a parenthesis a link.
std::string sarif_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '{' || c == '}') out += c;
    if (c == '(' && !out.empty() && out.back() == ']') out += ' ';
    out += c;
  }
  return out;
}

Record text_record(std::string_view text) { return Record().add("text", text); }

std::string_view sarif_level(Severity severity) {
  return severity == Severity::kCritical ? "error" : severity == Severity::kWarning ? "warning" : "note";
}

// Texts of rules are constants of this program.
Record sarif_rule(const Rule& rule) {
  std::string text = fmt::format("{}\n\nHow it is computed\n{}\n\nWhat to change, best first\n", rule.meaning,
                                 rule.computation);
  std::string markdown = fmt::format("{}\n\n**How it is computed**: {}\n\n**What to change**, best first\n\n",
                                     rule.meaning, rule.computation);
  for (const std::string_view advice : rule.advice) {
    text += fmt::format("- {}\n", advice);
    markdown += fmt::format("- {}\n", advice);
  }
  return Record()
      .add("id", rule.id)
      .add("shortDescription", text_record(rule.summary))
      .add("fullDescription", text_record(rule.meaning))
      .add("help", Record().add("text", text).add("markdown", markdown))
      .add("defaultConfiguration", Record().add("level", sarif_level(rule.severity)))
      .add("properties", Record().add("tags", List{"performance", "gpu"}));
}

Record sarif_file(const std::string& path) {
  if (path.starts_with('/')) return Record().add("uri", "file://" + percent_encoded(path));
  return Record().add("uri", percent_encoded(path)).add("uriBaseId", "%SRCROOT%");
}

Record sarif_location(const Place& place) {
  Record physical = Record().add("artifactLocation", sarif_file(in_repository(place)));
  if (place.line && *place.line > 0) physical.add("region", Record().add("startLine", *place.line));
  return Record()
      .add("physicalLocation", std::move(physical))
      .add("logicalLocations", List{Record().add("name", sanitised(place.name)).add("kind", "function")});
}

// Viewers want a place for every result: without a line of code it is the trace.
Record sarif_result(const Report& report, const Finding& f, size_t rule) {
  std::vector<Record> places;
  for (const Place& p : f.where)
    if (!p.file.empty()) places.push_back(sarif_location(p));
  const std::string file = report.inputs.empty() ? "trace" : report.inputs.front().path;
  if (places.empty())
    places.push_back(Record().add("physicalLocation", Record().add("artifactLocation", sarif_file(file))));
  std::string seat = f.rule;   // the same for the same fault in the next run
  if (!f.where.empty()) seat += '\n' + f.where.front().file + '\n' + f.where.front().name;
  Record result;
  result.add("ruleId", f.rule).add("ruleIndex", rule).add("level", sarif_level(f.severity));
  result.add("message", text_record(sarif_text(finding_text(report, f))));
  result.add("locations", List{places.front()});
  if (places.size() > 1) result.add("relatedLocations", List(places.begin() + 1, places.end()));
  result.add("partialFingerprints", Record().add("profgpu/v1", fmt::format("{:016x}", fnv1a(seat))));
  return result.add("properties", Record()
                                      .add("ranks", value_of(f.ranks))
                                      .add("cost_ns", f.cost_ns)
                                      .add("cost_pct", f.cost_pct)
                                      .add("fix", value_of(f.fix))
                                      .add("evidence", value_of(f.evidence)));
}

std::string sarif_report(const Report& report, const PresentOptions&) {
  List results, described;
  std::vector<const Rule*> used;
  for (const Finding& f : report.findings) {
    const Rule* rule = find_rule(f.rule);
    if (rule == nullptr) continue;
    const auto known = std::ranges::find(used, rule);
    const auto index = static_cast<size_t>(known - used.begin());
    if (known == used.end()) {
      used.push_back(rule);
      described.emplace_back(sarif_rule(*rule));
    }
    results.emplace_back(sarif_result(report, f, index));
  }
  Record driver;
  driver.add("name", "profgpu").add("version", kVersion).add("semanticVersion", kVersion).add("rules", described);
  const Record run =
      Record()
          .add("tool", Record().add("driver", std::move(driver)))
          .add("results", results)
          .add("properties", Record()
                                 .add("verdict", sanitised(report.verdict))
                                 .add("verdict_kind", verdict_kind_name(report.verdict_kind)));
  return json_document(Record()
                           .add("$schema", "https://json.schemastore.org/sarif-2.1.0.json")
                           .add("version", "2.1.0")
                           .add("runs", List{run}));
}

}  // namespace

std::string workflow_command(Severity severity, std::string_view title, std::string_view text, std::string_view file,
                             std::optional<int64_t> line) {
  const std::string_view level =
      severity == Severity::kCritical ? "error" : severity == Severity::kWarning ? "warning" : "notice";
  std::string place;
  if (!file.empty()) place = fmt::format("file={},", command_text(file, true));
  if (!file.empty() && line && *line > 0) place += fmt::format("line={},", *line);
  return fmt::format("::{} {}title={}::{}\n", level, place, command_text(title, true), command_text(text, false));
}

extern const Presenter kSarifPresenter, kGithubPresenter;
const Presenter kSarifPresenter{"sarif", "SARIF 2.1.0, for code scanning and editors", sarif_report};
const Presenter kGithubPresenter{"github", "annotations of GitHub Actions", github_report};

}  // namespace profgpu
