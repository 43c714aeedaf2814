// The runs that a client looks at: read once, kept until others take their place or their files change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/analyze.h"
#include "app/export/sql_database.h"
#include "app/loaded_run.h"

namespace profgpu {

/// The error: a path is no file and no folder. A pipe or a device would keep the server waiting, "-" is its own input.
Status check_paths(const std::vector<std::string>& paths);

/// One run: its report, and once SQL is asked for its events.
class OpenRun {
 public:
  static Result<std::unique_ptr<OpenRun>> read(AnalyzeOptions options, std::string id);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::vector<std::string>& paths() const { return options_.paths; }
  [[nodiscard]] const AnalyzeOptions& options() const { return options_; }
  [[nodiscard]] const Report& report() const { return report_; }
  /// The document of `analyze --json`.
  [[nodiscard]] const Record& document() const { return *document_.record(); }
  /// The error: the files are not what they were.
  Result<SqlDatabase*> database();
  /// Whether the files are those that were read.
  [[nodiscard]] bool is_current() const { return stamp_ == stamp_of(options_.paths); }

 private:
  explicit OpenRun(AnalyzeOptions options, std::string id) : id_(std::move(id)), options_(std::move(options)) {}
  static uint64_t stamp_of(const std::vector<std::string>& paths);

  std::string id_;
  AnalyzeOptions options_;
  uint64_t stamp_ = 0;
  Report report_;
  Value document_;
  std::unique_ptr<LoadedRun> loaded_;
  RunRows rows_;
  std::unique_ptr<SqlDatabase> database_;
};

class OpenRuns {
 public:
  /// Reads the files unless they are open with the same options.
  Result<OpenRun*> open(const AnalyzeOptions& options);
  /// By id, else by path, which is opened.
  Result<OpenRun*> find(const std::string& id_or_path);
  /// Null: no open run has that id.
  OpenRun* with_id(const std::string& id);

 private:
  Result<OpenRun*> use(size_t index);
  std::vector<std::unique_ptr<OpenRun>> runs_;   // the one used last at the end
  int64_t opened_ = 0;
};

}  // namespace profgpu
