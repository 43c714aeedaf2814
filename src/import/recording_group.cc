#include <algorithm>
#include <map>

#include "import/recording.h"

namespace profgpu {
namespace {

constexpr size_t kNone = SIZE_MAX;

/// Processes of one host by their ids.
class Grouping {
 public:
  explicit Grouping(const std::vector<RecordingFile>& files) : files_(files), group_of_(files.size(), kNone) {
    for (size_t i = 0; i < files_.size(); ++i)
      if (!files_[i].of_host() && files_[i].number("pid") > 0)
        by_pid_[{files_[i].property("host"), files_[i].number("pid")}] = i;
  }

  std::vector<RecordingGroup> groups() {
    std::map<std::pair<std::string, int64_t>, size_t> of_rank;
    for (size_t i = 0; i < files_.size(); ++i) {
      const RecordingFile& f = files_[i];
      const int64_t rank = f.number("rank");
      if (f.of_host() || rank < 0 || rank > INT32_MAX) continue;
      const auto [it, added] = of_rank.try_emplace({f.property("host"), rank}, groups_.size());
      if (added) groups_.emplace_back().rank = static_cast<int>(rank);
      join(i, it->second);
    }
    for (size_t i = 0; i < files_.size(); ++i)
      if (is_free(i) && files_[i].device_rows > 0) groups_.emplace_back(), join(i, groups_.size() - 1);
    join_children();
    join_others();
    join_host_files();
    return std::move(groups_);
  }

 private:
  [[nodiscard]] bool is_free(size_t i) const { return group_of_[i] == kNone && !files_[i].of_host(); }
  void join(size_t file, size_t group) {
    group_of_[file] = group;
    groups_[group].processes.push_back(file);
    groups_[group].has_device_rows |= files_[file].device_rows > 0;
  }

  // The file of the process that started it; kNone: not among the files.
  [[nodiscard]] size_t parent(size_t i) const {
    const auto it = by_pid_.find({files_[i].property("host"), files_[i].number("ppid")});
    return it == by_pid_.end() || it->second == i ? kNone : it->second;
  }

  // Children, then their children, until none is found.
  void join_children() {
    for (bool found = true; found;) {
      found = false;
      for (size_t i = 0; i < files_.size(); ++i) {
        const size_t p = is_free(i) ? parent(i) : kNone;
        if (p == kNone || group_of_[p] == kNone) continue;
        join(i, group_of_[p]);
        found = true;
      }
    }
  }

  // What is left has no device activity and no parent in a group. It goes with the only group; where there is none at
  // all, each process that says something and was not started by another such one is a rank.
  void join_others() {
    const bool none = groups_.empty();
    for (size_t i = 0; i < files_.size(); ++i) {
      if (!is_free(i) || files_[i].rows == 0) continue;
      const size_t p = parent(i);
      if (none && (p == kNone || files_[p].rows == 0)) groups_.emplace_back(), join(i, groups_.size() - 1);
      else if (!none && groups_.size() == 1) join(i, 0);
    }
    join_children();
  }

  void join_host_files() {
    for (size_t i = 0; i < files_.size(); ++i) {
      if (!files_[i].of_host()) continue;
      for (RecordingGroup& g : groups_)
        if (std::any_of(g.processes.begin(), g.processes.end(),
                        [&](size_t p) { return files_[p].property("host") == files_[i].property("host"); }))
          g.host_files.push_back(i);
    }
  }

  const std::vector<RecordingFile>& files_;
  std::map<std::pair<std::string, int64_t>, size_t> by_pid_;   // by host and pid
  std::vector<size_t> group_of_;
  std::vector<RecordingGroup> groups_;
};

}  // namespace

std::vector<RecordingGroup> grouped(const std::vector<RecordingFile>& files) { return Grouping(files).groups(); }

}  // namespace profgpu
