#include "view/document.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/paste.h"
#include "analyse/report/quantity.h"
#include "view/device_lines.h"
#include "view/terminal.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr size_t kMaxIssuesShown = 10, kMaxRanksShown = 32;
constexpr int kMaxCells = 200;   // of a text in a table

Run strong(std::string text) { return {std::move(text), Run::As::kStrong}; }
Run code(std::string text) { return {std::move(text), Run::As::kCode}; }

// What can be pasted is code, the rest of the change around it is not.
std::vector<Run> change(const std::string& fix, const std::optional<std::string>& paste) {
  if (!paste) return {{"change: "}, {fix, Run::As::kLines}};
  const size_t at = fix.find(*paste);
  std::vector<Run> runs{{"change: " + fix.substr(0, at)}, code(*paste)};
  if (at + paste->size() < fix.size()) runs.push_back({fix.substr(at + paste->size())});
  return runs;
}

std::string per_step_text(const Report& report) { return is_whole_trace(report) ? "" : " per step"; }

ListItem finding_item(const Report& report, const Finding& f) {
  const std::optional<double> cost = cost_of_step(report, f);
  const std::string ranks = ranks_concerned(report, f);
  ListItem item{{strong(f.rule), {fmt::format(" ({})", severity_name(f.severity))}}};
  if (cost && *cost == 0) {
    item.runs.push_back({" saves nothing alone"});
  } else if (cost) {
    item.runs.insert(item.runs.end(), {{" costs "}, strong(format_duration(*cost, 2)), {per_step_text(report)}});
    if (f.cost_pct) item.runs.push_back({" (" + format_percent(*f.cost_pct, 0) + ")"});
  }
  item.runs.push_back({": " + (ranks.empty() ? "" : ranks + ": ") + f.what});
  const std::vector<std::optional<std::string>> paste = pasteable(f.fix);
  for (size_t i = 0; i < f.fix.size(); ++i) item.below.push_back(change(f.fix[i], paste[i]));
  for (const std::string& text : f.evidence) item.below.push_back({{text}});
  for (const Place& p : f.where)
    item.below.push_back({{fmt::format("in {}: {}{}", location_text(p), format_duration(per_step(report, f, p.ns)),
                                       per_step_text(report))}});
  return item;
}

constexpr size_t kMostDevices = 64;   // of a rank: a list of thousands tells nobody anything

ListItem device_item(const DeviceOverview& d) {
  std::string text;
  if (d.busy_pct) text += " busy " + format_percent(*d.busy_pct);
  if (d.unrecorded_pct > 0) text += ", not recorded " + format_percent(d.unrecorded_pct);
  if (d.idle_pct) text += ", idle " + format_percent(*d.idle_pct);
  for (size_t i = 0; i < d.causes.size(); ++i)
    text += (i ? ", " : ": ") + d.causes[i].name + " " + format_percent(d.causes[i].pct);
  for (const std::string& note : d.notes) text += "; " + note;
  return {{strong(d.name), {text}}};
}

class Document {
 public:
  Document(const Report& report, const PresentOptions& options, int rows, Renderer& to)
      : report_(report),
        to_(to),
        rank_(report.rank_in_focus()),
        rows_(static_cast<size_t>(std::max(options.top == PresentOptions{}.top ? rows : options.top, 0))),
        first_rows_(static_cast<size_t>(std::max(first_screen_rows(options), 0))),
        parts_(static_cast<size_t>(std::max(options.top, 0))) {}

  void whole(bool all_sections) {
    inputs();
    if (!report_.verdict.empty()) to_.paragraph({strong(report_.verdict)});
    ranks();
    times();
    distance();
    serving();
    snapshot();
    parts(run_parts(report_, first_rows_ > 0 ? first_rows_ : SIZE_MAX), 0);
    telemetry();
    findings();
    checklist();
    if (all_sections) {
      cluster(1);   // ranks() shows the first part
      rank_sections();
    } else if (rank_) {
      top("Top kernels", top_kernels(*rank_, "name"));
      top("Top ops", top_ops(*rank_, "name"));
    }
    if (report_.next.empty()) return;
    heading("Next");
    std::vector<ListItem> commands;
    for (const std::string& command : report_.next) commands.push_back({{code(command)}});
    to_.list(commands);
  }

  void section(const std::string& name) {
    if (name == "findings") return findings(true);
    if (name == "checklist") return checklist();
    if (name == "inputs") return inputs();
    if (name == "cluster") return cluster(0);
    if (name == "log" || name == "hang") return parts(run_parts(report_, rows_ > 0 ? rows_ : SIZE_MAX), 0);
    if (const auto own = section_parts(report_, name, rows_ > 0 ? rows_ : SIZE_MAX); !own.empty())
      return parts(own, 0);
    const Section* section = find_section(name);
    for (const RankReport& rank : report_.ranks)
      if (section) rank_section(*section, rank, section_value(rank, section->name));
  }

 private:
  void heading(const std::string& text) { to_.heading(2, {{text}}); }
  void bullets(const std::vector<std::string>& texts, bool warning = false) {
    std::vector<ListItem> items;
    for (const std::string& text : texts) items.push_back({warning ? Runs{{"", Run::As::kWarning}, {text}} : Runs{{text}}});
    to_.list(items);
  }
  void more(size_t shown, size_t all) {
    if (all > shown) to_.paragraph({{fmt::format("… and {} more", all - shown)}});
  }
  void table(const Table& t, const Origin& origin, Holds holds = Holds::kName) {
    const Grid grid = value_grid(t, {rows_ > 0 ? rows_ : t.rows.size(), origin, holds, kMaxCells});
    to_.table(grid);
    more(grid.rows().size(), t.rows.size());
  }

  void inputs() {
    const std::vector<InputFile>& all = report_.inputs;
    if (all.empty()) return;
    const auto others = static_cast<int64_t>(all.size()) - 1;
    to_.heading(1, {code(all.front().path), {others > 0 ? " and " + plural(others, "other file", "other files") : ""}});
    std::vector<std::string> issues;
    for (const InputFile& input : all)
      for (const Issue& issue : input.issues)
        issues.push_back((others > 0 && !issue.text.starts_with(input.path) ? input.path + ": " : "") + issue.text);
    const size_t count = issues.size();
    issues.resize(std::min(count, kMaxIssuesShown));
    bullets(issues, true);
    more(issues.size(), count);
  }

  void ranks() {
    const std::vector<RankStanding>& all = report_.standings;
    if (all.empty()) return;
    const Grid grid = value_grid(rank_table(all), {kMaxRanksShown, {}, Holds::kWords});   // the latest come first
    const JobOverview job = job_overview(report_);
    heading(job.title);
    bullets(job.missing, true);
    to_.table(grid);
    more(grid.rows().size(), all.size());
    bullets(job.notes, true);
    bullets(job.remarks);
  }

  void times() {
    if (!rank_ || !has_times(*rank_)) return;
    const StepOverview step = step_overview(*rank_);
    Grid grid({{""}, {"time", true}, {"share", true}});
    std::vector<double> bars;
    for (const Share& share : step.phases) {
      grid.add_row({{share.name, Style::kPlain, Holds::kWords},
                    {format_value(share.ns, Unit::kNanoseconds)},
                    {format_percent(share.pct)}});
      bars.push_back(share.pct);
    }
    if (!grid.empty()) heading(step.title + rank_suffix(report_, *rank_)), to_.table(grid, bars);
    std::vector<ListItem> devices;
    const std::vector<DeviceOverview> all = device_overviews(*rank_);
    const size_t shown = std::min(all.size(), kMostDevices);
    for (size_t i = 0; i < shown; ++i) devices.push_back(device_item(all[i]));
    if (shown < all.size())
      devices.push_back({{{fmt::format("… and {} more: --section use", format_count(all.size() - shown))}}});
    to_.list(devices);
  }

  void distance() {
    const std::string sentence = rank_ ? distance_sentence(report_, *rank_) : "";
    if (!sentence.empty()) to_.paragraph({{sentence}});
  }

  void telemetry() {
    if (report_.telemetry.empty()) return;
    heading(report_.ranks.empty() ? "Devices" : "Devices while the trace was recorded");
    to_.table(device_grid(report_.telemetry));
    std::vector<std::string> notes;
    for (const DeviceTelemetry& t : report_.telemetry)
      for (const std::string& text : {errors_text(t), t.notes_text()})
        if (!text.empty()) notes.push_back("GPU " + t.device_label() + ": " + text);
    bullets(notes, true);
  }

  void findings(bool alone = false) {
    if (report_.findings.empty() && (alone || !report_.ranks.empty())) to_.paragraph({{"No findings."}});
    if (report_.findings.empty()) return;
    heading("Findings, most expensive first");
    std::vector<ListItem> items;
    for (const Finding& f : report_.findings) items.push_back(finding_item(report_, f));
    to_.list(items, true);
  }

  void checklist() {
    if (report_.checklist.empty()) return;
    heading("Checklist");
    std::vector<std::string> texts;
    for (const Check& c : report_.checklist)
      texts.push_back(std::string(check_mark(c)) + (c.brief.empty() ? c.question : c.brief));
    bullets(texts);
  }

  void serving() {
    if (!rank_ || !rank_->serving) return;
    const ReportPart part = serving_part(*rank_->serving);
    heading(part.title + rank_suffix(report_, *rank_));
    table(part.table, {}, Holds::kWords);
    bullets(part.sentences);
  }

  void snapshot() {
    if (!rank_ || !rank_->snapshot) return;
    const size_t lines = rows_ > 0 ? rows_ : rank_->snapshot->peak.holders.size();
    const SnapshotParts parts = snapshot_parts(*rank_->snapshot, rank_->memory.capacity_bytes, lines);
    if (report_.verdict.find(parts.sentence) == std::string::npos) to_.paragraph({{parts.sentence}});
    for (const ReportPart* part : {&parts.devices, &parts.categories, &parts.savings, &parts.holders}) {
      if (part->table.rows.empty() && part->sentences.empty()) continue;
      heading(part->title + rank_suffix(report_, *rank_));
      if (!part->table.rows.empty()) table(part->table, {}, Holds::kWords);
      bullets(part->sentences);
    }
  }

  void cluster(size_t first) { parts(cluster_parts(report_, parts_), first); }

  void parts(const std::vector<ReportPart>& all, size_t first) {
    for (size_t i = first; i < all.size(); ++i) {
      heading(all[i].title);
      bullets(all[i].sentences);
      if (!all[i].table.rows.empty()) table(all[i].table, {}, Holds::kWords);
      if (all[i].left_out > 0) more(0, all[i].left_out);
    }
  }

  void value(const Value& v, const Origin& origin) {
    const Record* record = v.record();
    if (const Table* t = v.table()) {
      if (t->rows.empty()) to_.paragraph({{"Nothing in this trace."}});
      else table(*t, origin);
    } else if (!record) {
      to_.paragraph({{cell_text("", v, origin)}});
    } else {
      if (const Grid grid = record_grid(*record, {0, origin, Holds::kName, kMaxCells}); !grid.empty()) to_.table(grid);
      for (const auto& [name, field] : record->fields)
        if (field.table() || field.record()) to_.heading(3, {{part_title(name)}}), value(field, origin);
    }
  }

  void rank_section(const Section& section, const RankReport& rank, const Value& content) {
    heading(std::string(section.title) + rank_suffix(report_, rank));
    value(content, origin_of(rank));
  }

  // Those with content, of the rank that the first screen examines.
  void rank_sections() {
    for (const Section& section : sections()) {
      if (!rank_ || std::string_view(section.name) == "serving") continue;   // serving() shows it
      if (section.name == "energy" && rank_->energy) {
        if (report_.energy && report_.energy->ranks > 1) parts({job_energy_part(*report_.energy)}, 0);
        parts(energy_parts(report_, *rank_), 0);
        continue;
      }
      const Value content = section_value(*rank_, section.name);
      if (content.record() || (content.table() && !content.table()->rows.empty()))
        rank_section(section, *rank_, content);
    }
  }

  void top(const std::string& title, const Table& all) {
    if (all.rows.empty()) return;
    heading(title);
    to_.table(value_grid(all, {first_rows_ > 0 ? first_rows_ : all.rows.size(), {}, Holds::kName, kMaxCells}));
  }

  const Report& report_;
  Renderer& to_;
  const RankReport* rank_;
  size_t rows_, first_rows_, parts_;   // of long tables, of the top kernels and ops, of cluster parts; 0: all
};

}  // namespace

void render_report(const Report& report, const PresentOptions& options, bool sections, int rows, Renderer& to) {
  Document(report, options, rows, to).whole(sections);
}

void render_section(const Report& report, const PresentOptions& options, Renderer& to) {
  Document(report, options, options.top, to).section(options.section);
}

}  // namespace profgpu
