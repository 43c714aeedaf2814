#include "view/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "analyse/report/input_kinds.h"
#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "view/device_lines.h"
#include "view/layout.h"
#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr size_t kMaxInputs = 2;   // more are summed up
constexpr size_t kMaxIssuesListed = 6;
constexpr int kMaxLinesOfText = 3;       // of one text from a file
constexpr int kPartGap = 3;

std::string counted_steps(const Report& report) {
  const int64_t count = report.measured_steps + report.warmup_steps + report.incomplete_steps;
  if (count <= 0) return {};
  if (is_whole_trace(report)) return has_times(report.ranks.front()) ? ", no steps marked" : "";
  std::string text = ", " + plural(count, "step", "steps");
  std::string left_out;
  if (report.warmup_steps > 0) append_listed(left_out, format_count(report.warmup_steps) + " warm-up");
  if (report.incomplete_steps > 0) append_listed(left_out, format_count(report.incomplete_steps) + " incomplete");
  if (!left_out.empty()) text += " (" + left_out + " left out)";
  return text;
}

std::string device_names(const Report& report) {
  std::vector<std::pair<std::string, int>> names;
  for (const RankReport& rank : report.ranks)
    for (const std::string& name : rank.device_names) {
      const auto it = std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == name; });
      it == names.end() ? (void)names.emplace_back(name, 1) : (void)++it->second;
    }
  return joined(names, ", ", [](const auto& n) { return (n.second > 1 ? std::to_string(n.second) + " × " : "") + n.first; });
}

// Path, what it is, the device. What does not fit beside the path goes below it.
Lines input_line(const std::string& path, const std::vector<std::string>& about, int width) {
  const std::string plain = sanitised(path);
  Line line(width > 0 ? truncated_front(plain, width) : plain, Style::kStrong);
  Lines out;
  for (const std::string& part : about) {
    if (part.empty()) continue;
    if (width > 0 && line.width() + kPartGap + display_width(sanitised(part)) > width) {
      out.push_back(std::move(line));
      append(out, wrapped_after(Line("  "), part, width, Style::kPlain, kMaxLinesOfText));
      line = std::move(out.back());
      out.pop_back();
    } else {
      line.skip(kPartGap).add(part);
    }
  }
  out.push_back(std::move(line));
  return out;
}

// "vLLM, CUDA graphs"
std::string frameworks(const Report& report) {
  const RankReport* rank = report.rank_in_focus();
  return rank ? joined(rank->frameworks) : "";
}

// "PyTorch trace (trace.json), 16 × NCCL flight recorder dump, training log (train.log)"; empty: all of one kind.
std::string kinds_of_inputs(const Report& report) {
  std::vector<std::pair<std::string, std::vector<const InputFile*>>> kinds;
  for (const InputFile& input : report.inputs) {
    const auto known = std::ranges::find_if(kinds, [&](const auto& kind) { return kind.first == input.summary; });
    if (known != kinds.end()) known->second.push_back(&input);
    else kinds.push_back({input.summary, {&input}});
  }
  if (kinds.size() < 2) return {};
  return joined(kinds, ", ", [](const auto& kind) {
    const std::string name = kind.first.empty() ? "other" : kind.first;
    if (kind.second.size() > 1) return fmt::format("{} × {}", kind.second.size(), name);
    return fmt::format("{} ({})", name, base_name(kind.second.front()->path));
  });
}

Lines summed_inputs(const Report& report, int width) {
  int64_t events = 0, bytes = 0;
  const std::string folder = folder_of_inputs(report);
  for (const InputFile& input : report.inputs) events += input.events, bytes += input.file_bytes;
  std::string files = plural(static_cast<int64_t>(report.inputs.size()), "file", "files");
  const int64_t ranks = std::max(std::ssize(report.ranks), report.flight ? report.flight->dumps : 0);
  if (!report.ranks.empty()) files += " of " + plural(ranks, "rank", "ranks");
  const std::string what = plural(events, "event", "events") + ", " + format_bytes(static_cast<double>(bytes)) +
                           counted_steps(report);
  const std::string counted = folder.empty() ? what : files + ", " + what;
  Lines out = input_line(folder.empty() ? files : folder, {counted, device_names(report), frameworks(report)}, width);
  if (const std::string kinds = kinds_of_inputs(report); !kinds.empty())
    append(out, wrapped_after(Line("  "), kinds, width, Style::kPlain, kMaxLinesOfText));
  return out;
}

struct Complaint {
  const InputFile* input;
  const Issue* issue;
  int64_t others = 0;   // inputs that have the same kind
};

// One of each kind, most severe first.
std::vector<Complaint> complaints_of(const Report& report) {
  std::vector<Complaint> out;
  std::map<std::string_view, size_t> seen;
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues) {
      const auto [it, is_new] = seen.try_emplace(issue.kind, out.size());
      if (is_new || out[it->second].input == &input) out.push_back({&input, &issue});
      else ++out[it->second].others;
    }
  std::stable_sort(out.begin(), out.end(),
                   [](const Complaint& a, const Complaint& b) { return a.issue->severity > b.issue->severity; });
  return out;
}

Lines complaint_lines(const Complaint& complaint, bool name_file, int width) {
  std::string text = complaint.issue->text;
  const std::string_view name = base_name(complaint.input->path);
  if (name_file && text.find(name) == text.npos) text = fmt::format("{}: {}", name, text);
  if (complaint.others > 0) text += " (and " + plural(complaint.others, "other file", "other files") + ")";
  return wrapped_after(Line("! ", severity_style(complaint.issue->severity)), text, width, Style::kPlain,
                       kMaxLinesOfText);
}

// Below the inputs, as it belongs to them.
Lines issue_lines(const Report& report, const PresentOptions& options) {
  const std::vector<Complaint> complaints = complaints_of(report);
  const size_t shown = options.verbose ? complaints.size() : std::min(complaints.size(), kMaxIssuesListed);
  Lines out;
  for (size_t i = 0; i < shown; ++i)
    append(out, complaint_lines(complaints[i], report.inputs.size() > 1, options.width));
  if (shown < complaints.size())
    out.push_back(more_line(complaints.size() - shown, "-v"));
  return out;
}

}  // namespace

namespace {

// Beside which file steps and devices are named: the last, except snapshots of memory beside traces that tell these.
size_t described_input(const Report& report) {
  for (size_t i = report.inputs.size(); i-- > 0;)
    if (!is_of_memory(report.inputs[i])) return i;
  return report.inputs.size() - 1;
}

Lines file_lines(const Report& report, const PresentOptions& options) {
  Lines out;
  if (report.inputs.size() > kMaxInputs) {
    out = summed_inputs(report, options.width);
  } else {
    const size_t described = described_input(report);
    for (size_t i = 0; i < report.inputs.size(); ++i) {
      const InputFile& input = report.inputs[i];
      const bool samples = input.format == "samples";
      std::string what = input.summary + (input.summary.empty() ? "" : ", ") +
                         plural(input.events, samples ? "row" : "event", samples ? "rows" : "events");
      const bool all = i == described;
      if (all) what += counted_steps(report);
      const std::vector<std::string> about{what, all ? device_names(report) : "", all ? frameworks(report) : ""};
      append(out, input_line(input.path, about, options.width));
    }
  }
  return out;
}

// The most severe notes that fit beside the files into `most` lines; of the others how many there are.
Lines brief_input_lines(const Report& report, const PresentOptions& options, size_t most) {
  Lines out = file_lines(report, options);
  if (out.size() > most) out.resize(most);
  const std::vector<Complaint> complaints = complaints_of(report);
  size_t shown = 0;
  for (; shown < complaints.size(); ++shown) {
    Lines lines = complaint_lines(complaints[shown], report.inputs.size() > 1, options.width);
    const bool last = shown + 1 == complaints.size();
    if (out.size() + lines.size() + (last ? 0 : 1) > most) break;
    append(out, std::move(lines));
  }
  if (shown == complaints.size()) return out;
  if (out.size() >= most) out.resize(most - 1);
  const auto left = static_cast<int64_t>(complaints.size() - shown);
  const std::string count = shown > 0 ? plural(left, "more note", "more notes") : plural(left, "note", "notes");
  out.push_back(Line("! ", severity_style(complaints[shown].issue->severity)).add(count + " about the input: --all"));
  return out;
}

}  // namespace

Lines input_lines(const Report& report, const PresentOptions& options) {
  Lines out = file_lines(report, options);
  append(out, issue_lines(report, options));
  return out;
}

namespace {

constexpr int kMinRanks = 8;   // shown even if --top is lower
constexpr size_t kMinTexts = 2;

Lines marked_lines(const std::vector<std::string>& texts, Style style, const PresentOptions& options) {
  Lines out;
  for (size_t i = 0; i < std::min(texts.size(), kMinTexts); ++i)
    append(out, wrapped_after(Line("  ! ", style), sanitised(texts[i]), options.width, style, 3));
  if (texts.size() > kMinTexts) out.push_back(more_line(texts.size() - kMinTexts, "--section cluster"));
  return out;
}

}  // namespace

Lines rank_lines(const Report& report, const PresentOptions& options) {
  const std::vector<RankStanding>& ranks = report.standings;
  if (ranks.empty()) return {};
  const int rows = first_screen_rows(options);
  const size_t shown = shown_rows(ranks.size(), rows > 0 ? std::max(kMinRanks, rows) : 0);
  const JobOverview job = job_overview(report);
  Lines out = wrapped_after(Line(), job.title, options.width, Style::kStrong, 3);
  append(out, marked_lines(job.missing, Style::kBad, options));
  Grid grid = value_grid(rank_table(ranks), {.rows = shown, .aligned = true});
  if (grid.columns().back().header.empty())   // the last column, if any rank is late
    for (std::vector<Cell>& row : grid.rows()) row.back().style = Style::kWarn;
  for (const Line& line : grid.lines(options.width - 2)) out.push_back(Line().skip(2).add(line));
  if (shown < ranks.size()) out.push_back(more_line(ranks.size() - shown, "--section cluster"));
  append(out, marked_lines(job.notes, Style::kWarn, options));
  for (const std::string& remark : job.remarks)
    append(out, wrapped_after(Line().skip(2), remark, options.width, Style::kPlain, 3));
  return out;
}

namespace {

constexpr size_t kMaxPanelDevices = 8;

Panel step_panel(const Report& report, const RankReport& rank) {
  const StepOverview step = step_overview(rank);
  Panel panel{step.title + rank_suffix(report, rank), {}, {}};
  for (const Share& phase : step.phases) {
    const std::string pct = padded_left(format_percent(phase.pct), 6);
    const std::string ns = phase.ns ? format_duration(*phase.ns) + "  " : "";
    panel.rows.push_back({phase.name, phase.pct, ns + pct, Style::kWall});
  }
  return panel;
}

void add_idle(Panel& panel, const DeviceOverview& device, const std::string& label) {
  if (device.unrecorded_pct > 0)
    panel.rows.push_back({"not recorded", device.unrecorded_pct, format_percent(device.unrecorded_pct), Style::kFaint});
  if (!device.idle_pct || *device.idle_pct < 0.05) return;
  panel.rows.push_back({label, *device.idle_pct, format_percent(*device.idle_pct), Style::kIdle});
  for (const Share& cause : device.causes)
    panel.rows.push_back({"  " + cause.name, cause.pct, format_percent(cause.pct), Style::kIdle});
}

Panel device_panel(const DeviceOverview& device) {
  Panel panel{device.title, {}, device.notes};
  if (device.busy_pct) panel.rows.push_back({"busy", *device.busy_pct, format_percent(*device.busy_pct), Style::kBusy});
  add_idle(panel, device, "idle");
  return panel;
}

// The device that the most expensive finding of the rank names, else the busiest, which sets the pace.
size_t telling_device(const Report& report, const RankReport& rank) {
  for (const Finding& f : report.findings) {
    if (!f.seen.device || (f.seen.rank && *f.seen.rank != rank.rank)) continue;
    const auto named = std::ranges::find(rank.devices, *f.seen.device, &DeviceRow::id);
    if (named != rank.devices.end()) return static_cast<size_t>(named - rank.devices.begin());
  }
  return static_cast<size_t>(rank.busiest() - rank.devices.data());
}

// A bar per device; why it idles only for one.
Panel devices_panel(const Report& report, const RankReport& rank, const std::vector<DeviceOverview>& devices) {
  Panel panel{plural(static_cast<int64_t>(devices.size()), "GPU", "GPUs"), {}, {}};
  for (size_t i = 0; i < devices.size() && i < kMaxPanelDevices; ++i)
    if (const auto& pct = devices[i].busy_pct)
      panel.rows.push_back({devices[i].name + " busy", *pct, format_percent(*pct), Style::kBusy});
  const DeviceOverview& telling = devices[telling_device(report, rank)];
  add_idle(panel, telling, telling.name + " idle");
  panel.notes = telling.notes;
  if (devices.size() > kMaxPanelDevices)
    panel.notes.push_back("and " + format_count(static_cast<int64_t>(devices.size() - kMaxPanelDevices)) +
                          " more: --section devices");
  return panel;
}

}  // namespace

Lines distance_lines(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  const std::string sentence = rank ? distance_sentence(report, *rank) : "";
  return sentence.empty() ? Lines() : wrapped_after(Line(), sentence, layout_width(options));
}

Lines serving_lines(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank || !rank->serving) return {};
  const ReportPart part = serving_part(*rank->serving);
  Lines out{Line(part.title + rank_suffix(report, *rank), Style::kStrong)};
  append(out, value_grid(part.table, {.rows = part.table.rows.size(), .aligned = true}).lines(options.width));
  for (const std::string& text : part.sentences) append(out, wrapped_after(Line().skip(2), text, options.width));
  return out;
}

Lines log_lines(const Report& report, const PresentOptions& options) {
  Lines out;
  for (const ReportPart& part : run_parts(report, static_cast<size_t>(first_screen_rows(options)))) {
    append_apart(out, {Line(part.title, Style::kStrong)});
    for (const std::string& text : part.sentences)
      append(out, wrapped_after(Line().skip(2), sanitised(text), options.width));
    if (part.table.rows.empty()) continue;
    append(out, value_grid(part.table, {.rows = part.table.rows.size(), .aligned = true}).lines(options.width));
    if (part.left_out > 0) out.push_back(more_line(part.left_out, fmt::format("--section {}", part.section)));
  }
  return out;
}

// `savings_first`: before the categories, which the verdict has, too.
Lines snapshot_lines(const Report& report, const PresentOptions& options, bool savings_first) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank || !rank->snapshot) return {};
  const size_t shown =
      options.top > 0 ? static_cast<size_t>(first_screen_rows(options)) : rank->snapshot->peak.holders.size();
  const SnapshotParts parts = snapshot_parts(*rank->snapshot, rank->memory.capacity_bytes, shown);
  Lines out;
  // Of a snapshot alone it is the report's first sentence.
  if (report.verdict.find(parts.sentence) == std::string::npos)
    append(out, wrapped_after(Line(), parts.sentence, options.width, Style::kPlain));
  std::vector<const ReportPart*> shown_parts{&parts.devices, &parts.categories, &parts.savings, &parts.holders};
  if (savings_first) std::swap(shown_parts[1], shown_parts[2]);
  for (const ReportPart* part : shown_parts) {
    if (part->table.rows.empty() && part->sentences.empty()) continue;
    Lines lines{Line(part->title + rank_suffix(report, *rank), Style::kStrong)};
    if (!part->table.rows.empty())
      append(lines,
             value_grid(part->table, {.rows = part->table.rows.size(), .aligned = true}).lines(layout_width(options)));
    for (const std::string& text : part->sentences) append(lines, wrapped_after(Line().skip(2), text, options.width));
    append_apart(out, std::move(lines));
  }
  if (shown < rank->snapshot->peak.holders.size())
    out.push_back(more_line(rank->snapshot->peak.holders.size() - shown, "--section snapshot"));
  return out;
}

namespace {

std::vector<Panel> time_panels(const Report& report) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank || !has_times(*rank)) return {};
  const bool untold = std::ranges::all_of(report.logs, [](const LogReport& log) { return log.breakdown.empty(); });
  if (!report.logs.empty() && untold && rank->devices.empty()) return {};   // a log without timers: one part, all other
  const std::vector<DeviceOverview> devices = device_overviews(*rank);
  std::vector<Panel> panels{step_panel(report, *rank)};
  if (devices.size() == 1) panels.push_back(device_panel(devices.front()));
  if (devices.size() > 1) panels.push_back(devices_panel(report, *rank, devices));
  return panels;
}

bool is_sum(const BarRow& row) { return row.style != Style::kWall && !row.label.starts_with(' '); }

// The `most` largest rows, in their order. What a device did in all comes before what it is made of.
Panel with_largest_rows(Panel panel, size_t most) {
  std::vector<size_t> order(panel.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
    return std::pair(is_sum(panel.rows[i]), panel.rows[i].pct);
  });
  order.resize(std::min(order.size(), most));
  std::ranges::sort(order);
  std::vector<BarRow> kept;
  for (const size_t i : order) kept.push_back(std::move(panel.rows[i]));
  panel.rows = std::move(kept);
  panel.notes.clear();
  return panel;
}

// "GPU 0 over 6 steps (1.07 s): busy 56.6 %, idle 43.4 %": a panel in a line or two.
Lines sums_lines(const Panel& panel, const std::string& of_rank, int width) {
  std::string sums;
  for (const BarRow& row : panel.rows)
    if (is_sum(row)) append_listed(sums, row.label + " " + row.value);
  return wrapped_after(Line(panel.title + of_rank + ": "), sums, width);
}

// In at most `most` lines. Where panels are below each other and do not fit, devices have a line each.
Lines brief_time_lines(const Report& report, const PresentOptions& options, size_t most) {
  constexpr size_t kMinRows = 3, kLeastRows = 2;
  const std::vector<Panel> panels = time_panels(report);
  Lines whole = panels_lines(panels, layout_width(options));
  if (whole.size() <= most) return whole;
  size_t rows = 0;
  for (const Panel& panel : panels) rows = std::max(rows, panel.rows.size());
  for (; rows >= kMinRows; --rows) {
    std::vector<Panel> cut;
    size_t left_out = 0;
    for (const Panel& panel : panels) {
      cut.push_back(with_largest_rows(panel, rows));
      left_out += panel.rows.size() - cut.back().rows.size();
    }
    Lines lines = panels_lines(cut, layout_width(options));
    if (left_out > 0) lines.push_back(more_line(left_out, "--all"));
    if (lines.size() <= most) return lines;
  }
  const RankReport* rank = report.rank_in_focus();
  Lines devices;
  for (size_t i = 1; i < panels.size(); ++i)
    append(devices, sums_lines(panels[i], rank ? rank_suffix(report, *rank) : "", layout_width(options)));
  for (rows = panels.empty() ? 0 : panels.front().rows.size(); rows >= kLeastRows; --rows) {
    Lines lines = panels_lines({with_largest_rows(panels.front(), rows)}, layout_width(options));
    if (const size_t left_out = panels.front().rows.size() - rows; left_out > 0)
      lines.push_back(more_line(left_out, "--all"));
    append(lines, devices);
    if (lines.size() <= most) return lines;
  }
  return devices.size() <= most ? devices : Lines();
}

}  // namespace

Lines time_lines(const Report& report, const PresentOptions& options) {
  return panels_lines(time_panels(report), layout_width(options));
}

namespace {

constexpr int kCheckGap = 3;

std::string name_of(const Check& check) {
  std::string name = check.id;
  std::replace(name.begin(), name.end(), '-', ' ');
  return check.brief.empty() ? name : check.brief;
}

}  // namespace

Lines checklist_lines(const Report& report, const PresentOptions& options) {
  const auto unknown = [](const Check& c) { return c.verdict == Verdict::kUnknown; };
  if (std::ranges::all_of(report.checklist, unknown) && !report.logs.empty()) return {};   // a log answers none
  if (report.checklist.empty()) return {};
  Line line("Checklist   ", Style::kStrong);
  const int indent = line.width();
  Lines out;
  for (const Check& check : report.checklist) {
    std::string name = sanitised(name_of(check));
    // On a narrow terminal, the verdict comes without its limit.
    if (indent + 2 + display_width(name) > layout_width(options)) name.resize(std::min(name.size(), name.rfind(" (")));
    const int cells = 2 + display_width(name);
    if (line.width() > indent && line.width() + kCheckGap + cells > layout_width(options)) {
      out.push_back(std::move(line));
      line = Line().skip(indent);
    }
    if (line.width() > indent) line.skip(kCheckGap);
    line.add(check_mark(check), verdict_style(check.verdict));
    line.add(name, check.verdict == Verdict::kUnknown ? Style::kFaint : Style::kPlain);
  }
  out.push_back(std::move(line));
  return out;
}

namespace {

constexpr double kNoteworthyPct = 1;   // of all kernels' time; the first screen leaves out less
constexpr int kReadableTable = 140;

// The first column's header is the title.
Lines first_lines(Table table, size_t shown, const char* section, const PresentOptions& options) {
  for (std::vector<Value>& row : table.rows) row.front() = "  " + *row.front().text();
  Lines out = value_grid(table, {.rows = shown, .aligned = true}).lines(std::min(options.width, kReadableTable));
  if (shown < table.rows.size())
    out.push_back(more_line(table.rows.size() - shown, std::string("--section ") + section));
  return out;
}

}  // namespace

Table top_kernels(const RankReport& rank, std::string title) {
  Table table{{std::move(title), "GPU", "calls", "total_ns", "mean_ns", "kernel_pct"}, {}};
  std::vector<std::string_view> full;
  for (const KernelRow& k : rank.kernels) full.emplace_back(k.text);
  const std::vector<std::string> names = distinct_short_names(full);
  for (size_t i = 0; i < names.size(); ++i) {
    const KernelRow& k = rank.kernels[i];
    table.rows.push_back({names[i], k.device, k.count, k.total_ns, whole_ns(k.mean_ns), k.kernel_pct});
  }
  if (rank.devices.size() < 2) drop_column(table, 1);
  return table;
}

// Without times: what the ops compute and move at least.
Table ops_by_work(const RankReport& rank, std::string title) {
  Table table{{std::move(title), "calls", "flops", "bytes"}, {}};
  for (const OpRow& o : rank.ops) table.rows.push_back({o.text, o.calls, o.flops, o.bytes});
  return table;
}

Table top_ops(const RankReport& rank, std::string title) {
  const bool timed = std::ranges::any_of(rank.ops, [](const OpRow& o) { return o.cpu_total_ns != 0; });
  if (!timed) return ops_by_work(rank, std::move(title));
  Table table{{std::move(title), "calls", "cpu_self_ns", "on_gpu_ns"}, {}};
  for (const OpRow& o : rank.ops) table.rows.push_back({o.text, o.calls, o.cpu_self_ns, o.device_total_ns});
  if (std::ranges::none_of(rank.ops, [](const OpRow& o) { return o.device_total_ns != 0; })) drop_column(table, 3);
  return table;
}

Lines top_lines(const Report& report, const PresentOptions& options) {
  const RankReport* rank = report.rank_in_focus();
  if (!rank) return {};
  // Both tables' numbers begin in the same column.
  const auto title = [&](const char* what) {
    return padded_right(what + rank_suffix(report, *rank), std::clamp(layout_width(options) - 52, 24, 64));
  };
  Lines out;
  size_t shown = shown_rows(rank->kernels.size(), first_screen_rows(options));
  while (shown > 1 && rank->kernels[shown - 1].kernel_pct < kNoteworthyPct) --shown;
  if (shown > 0) append(out, first_lines(top_kernels(*rank, title("Top kernels")), shown, "kernels", options));
  shown = shown_rows(rank->ops.size(), first_screen_rows(options));
  if (shown > 0) append_apart(out, first_lines(top_ops(*rank, title("Top ops")), shown, "ops", options));
  return out;
}

size_t shown_rows(size_t rows, int top) { return top > 0 ? std::min(rows, static_cast<size_t>(top)) : rows; }

int layout_width(const PresentOptions& options) { return options.width > 0 ? options.width : PresentOptions{}.width; }

// Tables that share a screen show half as many rows, unless --top is given.
int first_screen_rows(const PresentOptions& options) {
  return options.top == PresentOptions{}.top ? options.top / 2 : options.top;
}

Line more_line(size_t count, std::string_view where) {
  return Line("  … and " + std::to_string(count) + " more: " + std::string(where), Style::kFaint);
}

namespace {

constexpr int kReadableProse = 120;  // longer lines of prose are hard to read on any screen

Lines verdict_lines(const Report& report, const PresentOptions& options) {
  if (report.verdict.empty()) return {};
  return wrapped_after(Line(), report.verdict, std::min(options.width, kReadableProse), Style::kStrong, 5);
}

Lines telemetry_lines(const Report& report, const PresentOptions& options) {
  if (report.telemetry.empty()) return {};
  return device_lines(report.telemetry, report.ranks.empty() ? "" : "samples while the trace was recorded",
                      layout_width(options));
}

Lines first_screen(const Report& report, const PresentOptions& options) {
  std::vector<Lines> parts = {input_lines(report, options), verdict_lines(report, options)};
  // Samples alone have no ranks, phases or kernels.
  if (!report.ranks.empty()) {
    parts.push_back(rank_lines(report, options));
    parts.push_back(serving_lines(report, options));   // who serves thinks in engine steps, not in phases
    parts.push_back(time_lines(report, options));
    parts.push_back(distance_lines(report, options));
    parts.push_back(snapshot_lines(report, options, false));
  }
  parts.push_back(log_lines(report, options));
  parts.push_back(telemetry_lines(report, options));
  parts.push_back(finding_lines(report, options, false));
  if (!report.ranks.empty()) {
    parts.push_back(checklist_lines(report, options));
    parts.push_back(top_lines(report, options));
  }
  parts.push_back(next_lines(report.next, layout_width(options)));
  Lines out;
  for (Lines& part : parts) append_apart(out, std::move(part));
  return out;
}

constexpr size_t kScreenRows = 24;     // with the prompt below
constexpr size_t kMaxBriefFindings = 3, kMaxInputLines = 3, kMaxJobLines = 5, kMaxServingLines = 5;

// Titles and headers of tables.
bool is_heading(const Line& line) {
  return std::ranges::all_of(line.spans(), [](const Line::Span& span) {
    const bool blank = span.text.find_first_not_of(' ') == std::string::npos;
    return blank || span.style == Style::kStrong || span.style == Style::kFaint;
  });
}

// In at most `most` lines. A heading stays only if two of its rows do.
Lines first_of(Lines lines, size_t most) {
  if (lines.size() <= most) return lines;
  const Lines whole = lines;
  lines.resize(most > 0 ? most - 1 : 0);
  size_t block = lines.size(), rows = 0;   // where the last one begins
  for (; block > 0 && lines[block - 1].width() > 0; --block) rows += is_heading(lines[block - 1]) ? 0 : 1;
  if (rows < 2) lines.resize(block);
  while (!lines.empty() && lines.back().width() == 0) lines.pop_back();
  if (lines.empty()) return {};
  const auto hidden = std::count_if(whole.begin() + static_cast<ptrdiff_t>(lines.size()), whole.end(),
                                    [](const Line& line) { return line.width() > 0 && !is_heading(line); });
  if (hidden > 0) lines.push_back(more_line(static_cast<size_t>(hidden), "--all"));
  return lines;
}

/// Parts of a screen of 24 lines, each after an empty line.
class BriefScreen {
 public:
  /// Lines that another part may have.
  [[nodiscard]] size_t room() const { return used_ + reserved_ < kRows ? kRows - used_ - reserved_ : 0; }
  void reserve(const Lines& lines) { reserved_ += cost(lines); }
  void release(const Lines& lines) { reserved_ -= cost(lines); }
  void add(Lines lines) {
    if (lines.empty()) return;
    used_ += cost(lines);
    append_apart(out_, std::move(lines));
  }
  Lines take() { return std::move(out_); }

 private:
  static constexpr size_t kRows = kScreenRows;   // the prompt's, for the empty line before the first part
  static size_t cost(const Lines& lines) { return lines.empty() ? 0 : lines.size() + 1; }

  Lines out_;
  size_t used_ = 0, reserved_ = 0;
};

// What to do next, and how to see everything.
Lines last_lines(const Report& report, const PresentOptions& options) {
  std::vector<std::string> next = report.next;
  next.resize(std::min<size_t>(next.size(), 1));
  Lines lines = next_lines(next, layout_width(options));
  if (lines.empty()) lines.emplace_back();
  const std::string all = next.empty() ? "everything: --all" : "   (everything: --all)";
  if (lines.back().width() + display_width(all) > layout_width(options)) lines.push_back(Line().skip(3));
  lines.back().add(all, Style::kFaint);
  return lines;
}

// Verdict, step, the most expensive findings and what to do next, on a screen of 24 lines.
Lines brief_screen(const Report& report, const PresentOptions& options) {
  BriefScreen screen;
  screen.add(brief_input_lines(report, options, kMaxInputLines));
  screen.add(verdict_lines(report, options));
  Lines findings = brief_finding_lines(report, options, kMaxBriefFindings, false);
  const Lines last = last_lines(report, options);
  screen.reserve(findings);
  screen.reserve(last);
  const auto room = [&](size_t most = kScreenRows) {   // behind an empty line
    return std::min(most, screen.room() > 0 ? screen.room() - 1 : 0);
  };
  if (!report.ranks.empty()) {
    screen.add(first_of(rank_lines(report, options), room(kMaxJobLines)));
    screen.add(first_of(serving_lines(report, options), room(kMaxServingLines)));
    screen.add(brief_time_lines(report, options, room()));
    screen.add(first_of(snapshot_lines(report, options, true), room()));
  }
  screen.add(first_of(log_lines(report, options), room()));
  screen.add(first_of(telemetry_lines(report, options), room()));
  // What the less expensive ones could be changed by takes the room that is left.
  screen.release(findings);
  if (Lines with_fixes = brief_finding_lines(report, options, kMaxBriefFindings, true); with_fixes.size() <= room())
    findings = std::move(with_fixes);
  screen.add(std::move(findings));
  if (!report.ranks.empty()) screen.add(first_of(top_lines(report, options), room()));
  screen.release(last);
  screen.add(last);
  return screen.take();
}

std::string write_terminal(const Report& report, const PresentOptions& options) {
  const Lines lines = options.section.empty()       ? first_screen(report, options)
                      : options.section == "brief" ? brief_screen(report, options)
                                                   : section_lines(report, options);
  return rendered(lines, options.width, options.colour);
}

}  // namespace

extern const Presenter kTerminalPresenter{"terminal", "one screen for a person, or one section in full", write_terminal};

}  // namespace profgpu
