// Baselines and what came after them: runs by name, in one SQLite file. Several jobs may write at once; each save is
// one transaction, and waits up to ten seconds for others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/report/document.h"
#include "base/result.h"

struct sqlite3;

namespace profgpu {

struct HistoryRun {
  int64_t id = 0;
  std::string name;
  int64_t saved_unix_ns = 0;
  std::string path, host, commit;   ///< empty: unknown
  std::optional<int64_t> step_mean_ns, steps, peak_memory_bytes;

  template <class V>
  void fields(V&& v) const {
    v("id", id), v("name", name), v("saved_unix_ns", saved_unix_ns), v("path", unless_empty(path));
    v("host", unless_empty(host)), v("commit", unless_empty(commit)), v("steps", steps);
    v("step_mean_ns", step_mean_ns), v("peak_memory_bytes", peak_memory_bytes);
  }
};

class History {
 public:
  /// An error if the file is missing (and not to be made), damaged, locked, of another program or of a newer profgpu.
  static Result<History> open(const std::string& path, bool make);

  /// `document`: what `analyze --json` printed. Its id is returned.
  Result<int64_t> save(const HistoryRun& run, const std::string& document);
  /// In the order in which they were saved; of all names if `name` is empty.
  Result<std::vector<HistoryRun>> runs(const std::string& name);
  /// The document of the run of that name that was saved last; empty if there is none.
  Result<std::string> latest_document(const std::string& name);
  /// The document of one run; empty if there is none.
  Result<std::string> document(int64_t id);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  History(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  [[nodiscard]] Error failure(const std::string& doing) const;
  Status check_or_make();
  Status check_or_make_locked();

  std::unique_ptr<sqlite3, Close> db_;
  std::string path_;
};

}  // namespace profgpu
