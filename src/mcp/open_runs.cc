#include "mcp/open_runs.h"

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "view/registry.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOpen = 4;   // with SQL each holds its events

uint64_t file_stamp(const fs::path& path, uint64_t stamp) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error).time_since_epoch().count();
  const auto size = fs::file_size(path, error);
  return fnv1a(path.string() + '\n' + std::to_string(written) + '\n' + std::to_string(size), stamp);
}

bool same_options(const AnalyzeOptions& a, const AnalyzeOptions& b) {
  return a.paths == b.paths && a.analysis.first_step == b.analysis.first_step &&
         a.analysis.end_step == b.analysis.end_step;
}

}  // namespace

Status check_paths(const std::vector<std::string>& paths) {
  std::error_code error;
  for (const std::string& path : paths) {
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return Error{path + ": No such file or directory"};
    if (!fs::is_regular_file(status) && !fs::is_directory(status)) return Error{path + ": neither a file nor a folder"};
  }
  return ok();
}

uint64_t OpenRun::stamp_of(const std::vector<std::string>& paths) {
  uint64_t stamp = fnv1a("");
  std::error_code error;
  for (const std::string& path : paths) {
    stamp = file_stamp(path, stamp);
    std::vector<fs::path> inside;   // with those of folders of ranks
    if (fs::is_directory(path, error))
      for (fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
           !error && it != end; it.increment(error))
        inside.push_back(it->path());
    std::ranges::sort(inside);
    for (const fs::path& file : inside) stamp = file_stamp(file, stamp);
  }
  return stamp;
}

Result<std::unique_ptr<OpenRun>> OpenRun::read(AnalyzeOptions options, std::string id) {
  std::unique_ptr<OpenRun> run(new OpenRun(std::move(options), std::move(id)));
  if (Status there = check_paths(run->options_.paths); !there) return there.error();
  run->stamp_ = stamp_of(run->options_.paths);
  Progress progress;
  auto report = make_report(run->options_, progress);
  if (!report) return report.error();
  run->report_ = *std::move(report);
  run->document_ = report_value(run->report_);
  return run;
}

Result<SqlDatabase*> OpenRun::database() {
  if (database_) return database_.get();
  Progress progress;
  const LoadOptions load{.analysis = {options_.analysis.step_pattern}, .most_kept = SIZE_MAX,
                         .most_kept_bytes = kMinBytes};
  auto loaded = load_run(options_.paths, load, progress);
  if (!loaded) return loaded.error();
  loaded_ = std::make_unique<LoadedRun>(*std::move(loaded));
  rows_ = run_rows(*loaded_);
  auto database = SqlDatabase::open(rows_);
  if (!database) return database.error();
  database_ = *std::move(database);
  return database_.get();
}

Result<OpenRun*> OpenRuns::use(size_t index) {
  std::rotate(runs_.begin() + static_cast<ptrdiff_t>(index), runs_.begin() + static_cast<ptrdiff_t>(index) + 1,
              runs_.end());
  std::unique_ptr<OpenRun>& run = runs_.back();
  if (run->is_current()) return run.get();
  auto again = OpenRun::read(run->options(), run->id());
  if (!again) {
    runs_.pop_back();
    return again.error();
  }
  run = *std::move(again);
  return run.get();
}

Result<OpenRun*> OpenRuns::open(const AnalyzeOptions& options) {
  for (size_t i = 0; i < runs_.size(); ++i)
    if (same_options(runs_[i]->options(), options)) return use(i);
  auto run = OpenRun::read(options, "r" + std::to_string(opened_ + 1));
  if (!run) return run.error();
  ++opened_;
  if (runs_.size() == kMostOpen) runs_.erase(runs_.begin());
  runs_.push_back(*std::move(run));
  return runs_.back().get();
}

OpenRun* OpenRuns::with_id(const std::string& id) {
  const auto* run = first_where(runs_, [&](const auto& r) { return r->id() == id; });
  return run != nullptr ? run->get() : nullptr;
}

Result<OpenRun*> OpenRuns::find(const std::string& id_or_path) {
  for (size_t i = 0; i < runs_.size(); ++i)
    if (runs_[i]->id() == id_or_path) return use(i);
  AnalyzeOptions options;
  options.paths = {id_or_path};
  return open(options);
}

}  // namespace profgpu
