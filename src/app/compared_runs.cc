#include "app/compared_runs.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyse/report/document.h"
#include "app/analyze.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/text_source.h"
#include "view/registry.h"

namespace profgpu {
namespace {

std::string line_of(const std::filesystem::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

bool is_commit(const std::string& text) {
  return text.size() >= 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A branch that is not a file of its own stands in packed-refs, "<commit> <branch>".
std::string packed_commit(const std::filesystem::path& git, const std::string& branch) {
  std::ifstream in(git / "packed-refs");
  for (std::string line; std::getline(in, line);)
    if (line.size() > 41 && line.substr(41) == branch && is_commit(line.substr(0, 40))) return line.substr(0, 40);
  return "";
}

std::string commit_of(const std::filesystem::path& git) {
  const std::string head = line_of(git / "HEAD");
  if (!head.starts_with("ref: ")) return is_commit(head) ? head : "";
  const std::string commit = line_of(git / head.substr(5));
  return is_commit(commit) ? commit : packed_commit(git, head.substr(5));
}

// The commit that GITHUB_SHA, CI_COMMIT_SHA or .git of this or an outer folder names; empty if none.
std::string commit_here() {
  for (const char* name : {"GITHUB_SHA", "CI_COMMIT_SHA"})
    if (const char* value = std::getenv(name); value && is_commit(value)) return value;
  std::error_code error;
  for (auto folder = std::filesystem::current_path(error); !error; folder = folder.parent_path()) {
    if (std::filesystem::is_directory(folder / ".git", error)) return commit_of(folder / ".git");
    if (folder == folder.parent_path()) break;
  }
  return "";
}

}  // namespace

HistoryRun history_run(const std::string& name, const std::string& path, const RunSummary& run) {
  HistoryRun h;
  h.name = name;
  h.saved_unix_ns = unix_ns();
  h.path = path;
  h.commit = commit_here();
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) == 0) h.host = host;
  if (run.step_count > 0) {
    h.step_mean_ns = std::llround(run.mean_step_ns());
    h.steps = static_cast<int64_t>(run.steps_ns.size());
  }
  for (const char* field : {"peak_reserved_bytes", "peak_allocated_bytes"})
    if (const auto it = run.memory.find(field); it != run.memory.end() && !h.peak_memory_bytes)
      h.peak_memory_bytes = std::llround(it->second);
  return h;
}

namespace {

constexpr size_t kHead = 4096;
constexpr size_t kMaxText = size_t{1} << 30;   // a saved analysis is a few hundred kilobytes

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// What `analyze --json` wrote begins with its schema.
bool is_document(std::string_view head) {
  const size_t key = head.find("\"schema\"");
  return key != head.npos && key < 64 && head.find("\"profgpu.", key) != head.npos;
}

// The whole text if it is a document of ours; empty if it is something else.
Result<std::string> saved_document(const std::string& path) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string text(kHead, '\0');
  text.resize((*source)->read(text.data(), kHead));
  if (!is_document(text)) return std::string();
  for (size_t piece = size_t{1} << 20; (*source)->end() == TextSource::End::kOpen;) {
    if (text.size() > kMaxText) return Error{path + ": too large for a saved analysis"};
    const size_t had = text.size();
    text.resize(had + piece);
    text.resize(had + (*source)->read(text.data() + had, piece));
  }
  if ((*source)->end() != TextSource::End::kComplete) return Error{path + ": " + (*source)->problem()};
  return text;
}

Result<RunSummary> summary_of(const std::string& document, const std::string& label) {
  auto value = value_from_json(document);
  if (!value) return value.error().within(label);
  auto run = run_summary(*value, label);
  if (!run) return run.error().within(label);
  return run;
}

}  // namespace

Result<RunSummary> baseline_run(const std::string& file, const std::string& name) {
  auto history = History::open(file, false);
  if (!history) return history.error();
  auto document = history->latest_document(name);
  if (!document) return document.error();
  if (!document->empty()) return summary_of(*document, name);
  auto runs = history->runs("");
  if (!runs) return runs.error();
  std::vector<std::string> names;
  for (const HistoryRun& r : *runs) names.push_back(r.name);
  return Error{file + ": no baseline is called \"" + name + "\"",
               did_you_mean(name, names, "`profgpu history` lists them")};
}

Result<RunSummary> read_run(const std::string& path, const AnalyzeOptions& how, Progress& progress,
                            std::string* document) {
  if (!is_folder(path)) {
    auto saved = saved_document(path);
    if (!saved) return saved.error();
    if (!saved->empty() && how.chooses_steps())
      return Error{
          path + ": --steps cannot choose from a saved analysis",
          "give the trace itself, or save one of these steps: profgpu analyze --json --steps A:B -o FILE TRACE"};
    if (!saved->empty()) {
      auto run = summary_of(*saved, path);
      if (document) *document = *std::move(saved);
      return run;
    }
  }
  AnalyzeOptions options = how;
  options.paths = {path};
  options.page = false;
  auto report = make_report(options, progress);
  if (!report) return report.error();
  if (document) *document = json_report(*report, {});
  auto run = run_summary(report_value(*report), path);
  if (!run) return run.error().within(path);
  return run;
}

Result<Diff> diff_of(std::vector<RunSummary> runs, const std::vector<Gate>& gates) {
  Diff diff{std::move(runs), {}, {}};
  for (size_t i = 1; i < diff.runs.size(); ++i) {
    auto comparison = compare(diff.runs.front(), diff.runs[i]);
    if (!comparison) return comparison.error();
    diff.comparisons.push_back(*std::move(comparison));
  }
  const bool several = diff.comparisons.size() > 1;
  for (const Gate& gate : gates)
    for (size_t i = 0; i < diff.comparisons.size(); ++i) {
      GateResult& result = diff.gates.emplace_back(check_gate(gate, diff.comparisons[i]));
      if (several) result.detail = diff.runs[i + 1].label + ": " + result.detail;
    }
  return diff;
}

}  // namespace profgpu
