#include "cli/compared_run.h"

#include <sys/stat.h>

#include "analyse/report/document.h"
#include "base/text_source.h"
#include "cli/make_report.h"
#include "view/registry.h"

namespace profgpu {
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

}  // namespace

Result<std::string> run_document(const std::string& path, const AnalyzeOptions& how, Progress& progress) {
  if (!is_folder(path)) {
    auto saved = saved_document(path);
    if (!saved) return saved.error();
    if (!saved->empty() && how.chooses_steps())
      return Error{
          path + ": --steps cannot choose from a saved analysis",
          "give the trace itself, or save one of these steps: profgpu analyze --json --steps A:B -o FILE TRACE"};
    if (!saved->empty()) return saved;
  }
  AnalyzeOptions options = how;
  options.paths = {path};
  options.format = "json";
  auto report = make_report(options, progress);
  if (!report) return report.error();
  for (const Presenter* p : presenters())
    if (p->name == options.format) return p->write(*report, {});
  return Error{"no presenter writes JSON"};
}

Result<RunSummary> read_run(const std::string& document, const std::string& label) {
  auto value = value_from_json(document);
  if (!value) return value.error().within(label);
  auto run = run_summary(*value, label);
  if (!run) return run.error().within(label);
  return run;
}

}  // namespace profgpu
