#include <algorithm>
#include <map>

#include "present/first_screen.h"
#include "present/overview.h"
#include "present/wording.h"
#include "report/quantity.h"
#include "report/text.h"

namespace profgpu {
namespace {

constexpr size_t kMostInputs = 2;   // more are added up
constexpr size_t kMostIssuesListed = 6;
constexpr int kMostLinesOfText = 3;       // of one text from a file
constexpr int kPartGap = 3;

std::string counted_steps(const Report& report) {
  const bool whole = !report.ranks.empty() && report.ranks.front().steps.is_whole_trace();
  const int64_t count = report.measured_steps + report.warmup_steps;
  if (count <= 0) return {};
  if (whole) return ", no steps marked";
  std::string text = ", " + plural(count, "step", "steps");
  if (report.warmup_steps > 0) text += " (" + format_count(report.warmup_steps) + " warm-up left out)";
  return text;
}

std::string device_names(const Report& report) {
  std::vector<std::pair<std::string, int>> names;
  for (const RankReport& rank : report.ranks)
    for (const std::string& name : rank.device_names) {
      const auto it = std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == name; });
      it == names.end() ? (void)names.emplace_back(name, 1) : (void)++it->second;
    }
  std::string text;
  for (const auto& [name, count] : names)
    text += (text.empty() ? "" : ", ") + (count > 1 ? std::to_string(count) + " × " : std::string()) + name;
  return text;
}

// Path, what it is, the device; what does not fit beside the path goes below it.
Lines input_line(const std::string& path, const std::string& what, const std::string& device, int width) {
  const std::string plain = sanitised(path);
  Line line(width > 0 ? truncated_front(plain, width) : plain, Style::kStrong);
  Lines out;
  for (const std::string& part : {what, device}) {
    if (part.empty()) continue;
    if (width > 0 && line.width() + kPartGap + display_width(sanitised(part)) > width) {
      out.push_back(std::move(line));
      append(out, wrapped_after(Line("  "), part, width, Style::kPlain, kMostLinesOfText));
      line = std::move(out.back());
      out.pop_back();
    } else {
      line.skip(kPartGap).add(part);
    }
  }
  out.push_back(std::move(line));
  return out;
}

Lines summed_inputs(const Report& report, int width) {
  int64_t events = 0, bytes = 0;
  const std::string folder = folder_of_inputs(report);
  for (const InputFile& input : report.inputs) events += input.events, bytes += input.file_bytes;
  const std::string files = plural(static_cast<int64_t>(report.inputs.size()), "file", "files") + " of " +
                            plural(static_cast<int64_t>(report.ranks.size()), "rank", "ranks");
  const std::string what = plural(events, "event", "events") + ", " + format_bytes(static_cast<double>(bytes)) +
                           counted_steps(report);
  if (folder.empty()) return input_line(files, what, device_names(report), width);
  return input_line(folder, files + ", " + what, device_names(report), width);
}

std::string base_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

struct Complaint {
  const InputFile* input;
  const Issue* issue;
  int64_t others = 0;   // inputs that have the same kind
};

// One of each kind, the gravest first.
std::vector<Complaint> complaints_of(const Report& report) {
  std::vector<Complaint> out;
  std::map<std::string_view, size_t> seen;
  for (const InputFile& input : report.inputs)
    for (const Issue& issue : input.issues) {
      const auto [it, is_new] = seen.try_emplace(issue.kind, out.size());
      if (is_new)
        out.push_back({&input, &issue});
      else if (out[it->second].input != &input)
        ++out[it->second].others;
      else
        out.push_back({&input, &issue});
    }
  std::stable_sort(out.begin(), out.end(),
                   [](const Complaint& a, const Complaint& b) { return a.issue->severity > b.issue->severity; });
  return out;
}

Style complaint_style(Severity severity) {
  if (severity == Severity::kCritical) return Style::kStrongBad;
  return severity == Severity::kWarning ? Style::kWarn : Style::kFaint;
}

Lines complaint_lines(const Complaint& complaint, bool name_file, int width) {
  std::string text = complaint.issue->text;
  const std::string name = base_name(complaint.input->path);
  if (name_file && text.find(name) == std::string::npos) text.insert(0, name + ": ");
  if (complaint.others > 0) text += " (and " + plural(complaint.others, "other file", "other files") + ")";
  return wrapped_after(Line("! ", complaint_style(complaint.issue->severity)), text, width, Style::kPlain, kMostLinesOfText);
}

// Below the inputs, as it belongs to them.
Lines issue_lines(const Report& report, const PresentOptions& options) {
  const std::vector<Complaint> complaints = complaints_of(report);
  const size_t shown = options.verbose ? complaints.size() : std::min(complaints.size(), kMostIssuesListed);
  Lines out;
  for (size_t i = 0; i < shown; ++i)
    append(out, complaint_lines(complaints[i], report.inputs.size() > 1, options.width));
  if (shown < complaints.size())
    out.push_back(more_line(complaints.size() - shown, "--section inputs"));
  return out;
}

}  // namespace

Lines input_lines(const Report& report, const PresentOptions& options) {
  Lines out;
  if (report.inputs.size() > kMostInputs) {
    out = summed_inputs(report, options.width);
  } else {
    for (size_t i = 0; i < report.inputs.size(); ++i) {
      const InputFile& input = report.inputs[i];
      std::string what = input.summary + (input.summary.empty() ? "" : ", ") + plural(input.events, "event", "events");
      const bool last = i + 1 == report.inputs.size();
      if (last) what += counted_steps(report);
      append(out, input_line(input.path, what, last ? device_names(report) : "", options.width));
    }
  }
  append(out, issue_lines(report, options));
  return out;
}

}  // namespace profgpu
