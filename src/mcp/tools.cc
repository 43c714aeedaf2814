#include "mcp/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analyse/report/document.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/rule.h"
#include "app/analyze.h"
#include "app/compared_runs.h"
#include "app/words.h"
#include "base/text.h"
#include "mcp/pages.h"
#include "view/overview.h"
#include "view/terminal.h"

namespace profgpu {
namespace {

using Kind = ToolParameter::Kind;

constexpr int64_t kMinChars = 500, kMaxChars = 100'000, kMaxLimit = 1000;
constexpr int64_t kQuery_ns = 30'000'000'000;   // a query that runs for longer is stopped
constexpr size_t kTopFindings = 3;
constexpr size_t kMaxChanges = 10;   // of findings, in a comparison at first sight; part findings has all

const ToolParameter kRun{"run", Kind::kText, "id from open_run, or the path of a file or folder", true};
const ToolParameter kOffset{"offset", Kind::kWhole, "rows to skip; next_offset of the page before"};
const ToolParameter kLimit{"limit", Kind::kWhole, "rows at most (default 20)"};
const ToolParameter kChars{"max_chars", Kind::kWhole, "characters of the answer at most (default 8000)"};
const ToolParameter kContains{"contains", Kind::kText, "only rows with this in a text; case does not matter"};
const ToolParameter kKey{"key", Kind::kText, "only the row with this key, in full"};
const ToolParameter kRank{"rank", Kind::kWhole, "rank of the job (default: the one to look into first)"};

PageOptions page_of(const ToolArguments& arguments) {
  PageOptions page;
  page.offset = arguments.whole("offset", 0, 0, INT64_MAX / 2);
  page.limit = arguments.whole("limit", page.limit, 1, kMaxLimit);
  page.max_chars = arguments.whole("max_chars", page.max_chars, kMinChars, kMaxChars);
  page.contains = arguments.text("contains");
  page.key = arguments.text("key");
  return page;
}

List sections_of(const OpenRun& run) {
  List names;
  const auto add = [&](const Record& record, auto&& wanted) {
    for (const auto& [name, value] : record.fields)
      if (wanted(name) && (value.record() != nullptr || value.table() != nullptr || value.list() != nullptr))
        names.emplace_back(name);
  };
  add(run.document(), [](std::string_view name) { return name != "ranks" && name != "next"; });
  const List* ranks = run.document().at("ranks").list();
  if (ranks != nullptr && !ranks->empty())
    add(*ranks->front().record(), [](std::string_view name) { return name != "frameworks" && name != "measured"; });
  return names;
}

List issues_of(const Report& report) {
  List issues;
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues)
      if (issue.severity != Severity::kInfo && issues.size() < kTopFindings)
        issues.emplace_back(shortened(input.path + ": " + issue.text, 300));
  return issues;
}

Record brief_finding(const Report& report, const Finding& f) {
  Record brief;
  brief.add("key", "findings:" + f.rule).add("severity", severity_name(f.severity)).add("what", shortened(f.what, 300));
  if (const auto cost = cost_of_step(report, f)) brief.add("cost_per_step_ns", whole_ns(*cost));
  if (f.cost_pct) brief.add("cost_pct", short_real(*f.cost_pct));
  if (!f.fix.empty()) brief.add("fix", shortened(f.fix.front(), 300));
  return brief;
}

void add_verdict(Record& answer, const OpenRun& run) {
  const Report& report = run.report();
  answer.add("run", run.id()).add("verdict", report.verdict);
  answer.add("verdict_kind", verdict_kind_name(report.verdict_kind));
  answer.add("verdict_rule", unless_empty(report.verdict_rule));
  answer.add("measured_steps", report.measured_steps);
  List findings;
  for (const Finding& f : report.findings)
    if (findings.size() < kTopFindings) findings.emplace_back(brief_finding(report, f));
  answer.add("findings_total", report.findings.size()).add("most_expensive", std::move(findings));
  List failed;
  for (const Check& check : report.checklist)
    if (check.verdict == Verdict::kFail) failed.emplace_back(check.id);
  answer.add("checks_failed", std::move(failed));
  if (List issues = issues_of(report); !issues.empty()) answer.add("input_issues", std::move(issues));
}

Result<Record> open_run(const ToolCall& call) {
  AnalyzeOptions options;
  options.paths = call.arguments.texts("paths");
  if (options.paths.empty()) return Error{"paths is empty", "give the path of a trace, or of a job's folder"};
  if (const std::string steps = call.arguments.text("steps"); !steps.empty())
    if (Status set = set_option(options, "--steps", std::span(&steps, 1)); !set) return set.error();
  auto run = call.runs.open(options);
  if (!run) return run.error();
  Record answer;
  add_verdict(answer, **run);
  List ranks;
  for (const RankReport& rank : (*run)->report().ranks)
    if (ranks.size() < 64) ranks.emplace_back(rank.rank);
  return answer.add("ranks", (*run)->report().ranks.size()).add("rank_numbers", std::move(ranks))
      .add("sections", sections_of(**run));
}

Result<Record> verdict_tool(const ToolCall& call) {
  auto run = call.runs.find(call.arguments.text("run"));
  if (!run) return run.error();
  Record answer;
  add_verdict(answer, **run);
  return answer;
}

Result<Record> findings_tool(const ToolCall& call) {
  auto run = call.runs.find(call.arguments.text("run"));
  if (!run) return run.error();
  PageOptions page = page_of(call.arguments);
  if (const std::string rule = call.arguments.text("rule"); !rule.empty()) {
    if (find_rule(rule) == nullptr) return no_such_rule(rule);
    page.key = "findings:" + rule;
  }
  Record answer;
  answer.add("run", (*run)->id()).add("measured_steps", (*run)->report().measured_steps);
  add_page(answer, (*run)->document().at("findings"), "findings", page);
  return answer;
}

// The rank that was asked for, else the one in focus. The error names those that there are.
Result<const Record*> rank_of_call(const ToolCall& call, const OpenRun& run) {
  const Report& report = run.report();
  const List* ranks = run.document().at("ranks").list();
  if (ranks == nullptr || ranks->empty()) return Error{"this run has no ranks, only " + joined(run.paths())};
  const auto focus = static_cast<size_t>(std::max(report.focus, 0));
  if (!call.arguments.has("rank")) return (*ranks)[std::min(focus, ranks->size() - 1)].record();
  const int64_t wanted = call.arguments.whole("rank", 0, INT64_MIN, INT64_MAX);
  for (size_t i = 0; i < ranks->size(); ++i)
    if (report.ranks[i].rank == wanted) return (*ranks)[i].record();
  std::vector<int> known;
  for (const RankReport& rank : report.ranks) known.push_back(rank.rank);
  return Error{fmt::format("there is no rank {}", wanted), "there are " + ranks_text(known)};
}

Result<Record> paged_section(const ToolCall& call, const OpenRun& run, const std::string& name) {
  Record answer;
  answer.add("run", run.id()).add("section", name);
  const Value* value = &value_at(run.document(), name);
  if (value->is_null()) {
    auto rank = rank_of_call(call, run);
    if (!rank) return rank.error();
    answer.add("rank", (*rank)->at("rank"));
    value = &value_at(**rank, name);
  }
  if (value->is_null()) {
    std::vector<std::string> names;
    for (const Value& section : sections_of(run)) names.push_back(*section.text());
    const bool known = std::ranges::find(kReportSections, name) != std::end(kReportSections) || find_section(name);
    return Error{(known ? "nothing was recorded for section \"" : "there is no section \"") + name + "\"",
                 did_you_mean(name, names, "sections of this run: " + joined(names))};
  }
  add_page(answer, *value, name, page_of(call.arguments));
  return answer;
}

Result<Record> section_tool(const ToolCall& call) {
  auto run = call.runs.find(call.arguments.text("run"));
  if (!run) return run.error();
  return paged_section(call, **run, call.arguments.text("name"));
}

// A section's own figures, and rows of the table in it that says most: `rows`. Further pages have rows only.
Result<Record> section_with_rows(const ToolCall& call, const OpenRun& run, const std::string& section,
                                 const std::string& rows) {
  auto rank = rank_of_call(call, run);
  if (!rank) return rank.error();
  const Value& table = value_at(**rank, rows);
  const PageOptions page = page_of(call.arguments);
  if (!table.is_null() && (page.offset > 0 || !page.key.empty())) return paged_section(call, run, rows);
  auto answer = paged_section(call, run, section);
  if (!answer || table.is_null()) return answer;
  answer->add("rows_of", rows);
  add_page(*answer, table, rows, page);
  return answer;
}

// Whether the call chooses rows.
bool asks_for_rows(const ToolArguments& arguments) {
  constexpr std::array<std::string_view, 4> kOfPages = {"offset", "limit", "contains", "key"};
  return std::ranges::any_of(kOfPages, [&](std::string_view name) { return arguments.has(name); });
}

Result<Record> memory_tool(const ToolCall& call) {
  auto run = call.runs.find(call.arguments.text("run"));
  if (!run) return run.error();
  auto rank = rank_of_call(call, **run);
  if (!rank) return rank.error();
  const std::string name = call.arguments.text("part");
  if (!name.empty()) return paged_section(call, **run, name);
  if (!(*rank)->at("snapshot").is_null()) return section_with_rows(call, **run, "snapshot", "snapshot.peak.holders");
  if (asks_for_rows(call.arguments)) return section_with_rows(call, **run, "memory", "memory.timeline");
  return paged_section(call, **run, "memory");
}

Result<Record> roofline_tool(const ToolCall& call) {
  auto run = call.runs.find(call.arguments.text("run"));
  if (!run) return run.error();
  auto rank = rank_of_call(call, **run);
  if (!rank) return rank.error();
  const Table* kernels = value_at(**rank, "roofline.kernels").table();
  const bool host_alone = kernels == nullptr || kernels->rows.empty();
  return section_with_rows(call, **run, "roofline", host_alone ? "roofline.ops" : "roofline.kernels");
}

Value datum_value(const Datum& cell) {
  switch (cell.kind()) {
    case Datum::Kind::kNull: return {};
    case Datum::Kind::kInteger: return cell.integer();
    case Datum::Kind::kReal: return cell.real();
    case Datum::Kind::kText: return shortened(cell.text(), 1000);
  }
  return {};
}

Result<Record> sql_tool(const ToolCall& call) {
  auto run = call.runs.find(call.arguments.text("run"));
  if (!run) return run.error();
  auto database = (*run)->database();
  if (!database) return database.error();
  SqlError wrong;
  const auto answer = (*database)->query(call.arguments.text("sql"), wrong, kQuery_ns);
  if (!answer) return Error{wrong.message, "the resource profgpu://docs/sql lists tables and columns"};
  const PageOptions page = page_of(call.arguments);
  List columns, rows;
  for (const std::string& column : answer->columns()) columns.emplace_back(column);
  Record out;
  out.add("run", (*run)->id()).add("columns", std::move(columns));
  int64_t at = 0, left = page.max_chars - static_cast<int64_t>(compact_json(out).size());
  std::optional<int64_t> next;
  auto more = answer->next();
  for (; more && *more; more = answer->next(), ++at) {
    if (at < page.offset) continue;
    List cells;
    for (const Datum& cell : answer->row()) cells.push_back(datum_value(cell));
    const auto size = static_cast<int64_t>(compact_json(Record().add("", cells)).size());
    if (static_cast<int64_t>(rows.size()) == page.limit || (size > left && !rows.empty())) {
      next = at;
      break;
    }
    left -= size;
    rows.emplace_back(std::move(cells));
  }
  if (!more) return Error{more.error().message, "ask for less: a where clause, an aggregate, fewer joins"};
  out.add("offset", page.offset).add("rows", std::move(rows));
  if (next) out.add("next_offset", *next);
  return out;
}

// An open run as it was read, else what the path holds: a saved analysis too.
Result<RunSummary> run_to_compare(const ToolCall& call, std::string_view which) {
  const std::string given = call.arguments.text(which);
  OpenRun* open = call.runs.with_id(given);
  Progress progress;
  if (open == nullptr) {
    if (Status there = check_paths({given}); !there) return there.error();
    return read_run(given, AnalyzeOptions(), progress);
  }
  auto summary = run_summary(Value(open->document()), joined(open->paths()));
  return summary ? summary : Result<RunSummary>(summary.error().within(given));
}

Result<Diff> diff_of_call(const ToolCall& call) {
  std::vector<Gate> gates;
  for (const std::string& text : call.arguments.texts("fail_on")) {
    auto gate = parse_gate(text);
    if (!gate) return gate.error();
    gates.push_back(*std::move(gate));
  }
  std::vector<RunSummary> both;
  for (const std::string_view which : {"before", "after"}) {
    auto run = run_to_compare(call, which);
    if (!run) return run.error();
    both.push_back(*std::move(run));
  }
  return diff_of(std::move(both), gates);
}

Result<Record> diff_tool(const ToolCall& call) {
  auto diff = diff_of_call(call);
  if (!diff) return diff.error();
  const Record document = diff_record(*diff);
  const PageOptions page = page_of(call.arguments);
  const std::string part = call.arguments.text("part");
  Record answer;
  if (!part.empty()) {
    const Value& value = value_at(document, part);
    if (value.is_null())
      return Error{"a comparison has no part \"" + part + "\"", "call diff without part to see them"};
    answer.add("part", part);
    add_page(answer, value, part, page);
    return answer;
  }
  List parts;
  for (const auto& [name, value] : document.fields) {
    const Table* table = value.table();
    const bool plain = !value.is_null() && table == nullptr && value.list() == nullptr;
    if (table != nullptr && !table->rows.empty()) parts.emplace_back(name);
    else if (plain && name != "schema") answer.add(name, value);
  }
  Table real = *document.at("findings").table();
  std::erase_if(real.rows, [&](const auto& row) { return row[1].text() != nullptr && *row[1].text() == "same"; });
  real.rows.resize(std::min(real.rows.size(), kMaxChanges));
  answer.add("findings_changed", std::move(real)).add("gates", document.at("gates")).add("notes", document.at("notes"));
  answer.add("parts", std::move(parts));
  Record waterfall;
  PageOptions few = page;
  few.limit = 6;
  few.max_chars = std::max(kMinChars, page.max_chars - static_cast<int64_t>(compact_json(answer).size()));
  add_page(waterfall, document.at("waterfall"), "waterfall", few);
  return answer.add("waterfall", std::move(waterfall));
}

Result<Record> explain_tool(const ToolCall& call) {
  auto text = call.explain(call.arguments.text("rule"));
  if (!text) return text.error();
  return Record().add("text", *text);
}

std::string_view json_type(Kind kind) {
  return kind == Kind::kText ? "string" : kind == Kind::kTexts ? "array" : "integer";
}

std::string_view kind_words(Kind kind) {
  return kind == Kind::kText ? "a string" : kind == Kind::kTexts ? "an array of strings" : "a whole number";
}

bool is_of(Kind kind, const Value& value) {
  if (kind == Kind::kText) return value.text() != nullptr;
  if (kind == Kind::kWhole) return value.integer() != nullptr;
  return value.text() != nullptr ||
         (value.list() != nullptr && std::ranges::all_of(*value.list(), [](const Value& v) { return v.text(); }));
}

}  // namespace

const std::vector<Tool>& tools() {
  static const std::vector<Tool> all = {
      {"open_run", "Open a run",
       "Read traces, recordings, memory snapshots, logs or device samples and diagnose them. Answers with the verdict, "
       "the most expensive findings, and the sections that can be asked for.",
       {{"paths", Kind::kTexts, "files, or one folder of a job", true},
        {"steps", Kind::kText, "only steps A to B - 1, as A:B"}},
       open_run},
      {"verdict", "Verdict",
       "Where the time goes and what fixing it would gain. verdict_kind inconclusive means that the evidence is not "
       "enough: the verdict then says what to record.",
       {kRun}, verdict_tool},
      {"findings", "Findings",
       "Findings, most expensive first, each with what, why, fix, cost, evidence and lines of code.",
       {kRun, {"rule", Kind::kText, "only this rule's, in full"}, kOffset, kLimit, kChars, kContains, kKey},
       findings_tool},
      {"section", "Section of the report",
       "Rows of one section, such as kernels, ops, idle, steps, collectives, threads, or of a path within it, such as "
       "snapshot.peak.holders.",
       {kRun, {"name", Kind::kText, "a section, as open_run lists them, or a path", true}, kRank, kOffset, kLimit,
        kChars, kContains, kKey},
       section_tool},
      {"memory", "Memory",
       "Device memory: of a memory snapshot who holds it at the peak, growth, out of memory; else what the trace has.",
       {kRun, {"part", Kind::kText, "a path below, such as snapshot.peak.holders"}, kRank, kOffset, kLimit, kChars,
        kContains, kKey},
       memory_tool},
      {"roofline", "Roofline",
       "Kernels with their FLOP and bytes against the device's limits: which are bound by compute, which by memory, and "
       "what each could reach.",
       {kRun, kRank, kOffset, kLimit, kChars, kContains, kKey}, roofline_tool},
      {"sql", "SQL",
       "One read-only SQLite query over kernels, ranges, gaps, steps and more. Add order by, so that pages follow each "
       "other. Times are nanoseconds.",
       {kRun, {"sql", Kind::kText, "SELECT ..., WITH ... or EXPLAIN ...", true}, kOffset, kLimit, kChars}, sql_tool},
      {"diff", "Compare two runs",
       "Is the second run faster, is the difference real, and what is it made of.",
       {{"before", Kind::kText, "path, id from open_run, or a saved analysis", true},
        {"after", Kind::kText, "the same of the other run", true},
        {"fail_on", Kind::kTexts, "gates, such as step_time > +3%"},
        {"part", Kind::kText, "rows of one part: kernels, waterfall, ops ..."}, kOffset, kLimit, kChars, kContains,
        kKey},
       diff_tool},
      {"explain", "Explain a rule", "What a finding's rule means, how it is computed, and every remedy.",
       {{"rule", Kind::kText, "as findings name it", true}}, explain_tool},
  };
  return all;
}

Record tool_record(const Tool& tool) {
  Record properties;
  List required;
  for (const ToolParameter& p : tool.parameters) {
    Record property;
    property.add("type", json_type(p.kind)).add("description", p.help);
    if (p.kind == Kind::kTexts) property.add("items", Record().add("type", "string"));
    properties.add(std::string(p.name), std::move(property));
    if (p.required) required.emplace_back(p.name);
  }
  const Record schema = Record()
                            .add("type", "object")
                            .add("properties", std::move(properties))
                            .add("required", std::move(required))
                            .add("additionalProperties", false);
  const Record hints = Record().add("readOnlyHint", true).add("openWorldHint", false).add("idempotentHint", true);
  return Record()
      .add("name", tool.name)
      .add("title", tool.title)
      .add("description", tool.help)
      .add("inputSchema", schema)
      .add("annotations", hints);
}

Result<ToolArguments> ToolArguments::read(const Value& given, const std::vector<ToolParameter>& known) {
  ToolArguments arguments;
  if (!given.is_null() && given.record() == nullptr) return Error{"arguments is no object"};
  if (given.record() != nullptr) arguments.given_ = *given.record();
  for (const auto& [name, value] : arguments.given_.fields) {
    const auto* parameter = first_where(known, [&](const ToolParameter& p) { return p.name == name; });
    if (parameter == nullptr) {
      std::vector<std::string> names;
      for (const ToolParameter& p : known) names.emplace_back(p.name);
      return Error{"unknown argument \"" + shortened(name) + "\"",
                   did_you_mean(name, names, "arguments: " + joined(names))};
    }
    if (!value.is_null() && !is_of(parameter->kind, value))
      return Error{fmt::format("{} must be {}", name, kind_words(parameter->kind))};
  }
  for (const ToolParameter& p : known)
    if (p.required && !arguments.has(p.name)) return Error{fmt::format("{} is missing", p.name), std::string(p.help)};
  return arguments;
}

std::string ToolArguments::text(std::string_view name) const {
  const std::string* text = given_.at(name).text();
  return text != nullptr ? *text : std::string();
}

std::vector<std::string> ToolArguments::texts(std::string_view name) const {
  std::vector<std::string> all;
  const Value& value = given_.at(name);
  if (value.text() != nullptr) all.push_back(*value.text());
  if (value.list() != nullptr)
    for (const Value& item : *value.list()) all.push_back(*item.text());
  return all;
}

int64_t ToolArguments::whole(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const {
  const int64_t* whole = given_.at(name).integer();
  return whole != nullptr ? std::clamp(*whole, least, most) : otherwise;
}

}  // namespace profgpu
