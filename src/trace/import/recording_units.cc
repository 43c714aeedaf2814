#include "trace/import/recording.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr int64_t kKeptBytes = 256 << 20;   // more recordings than this are read again, rank by rank

InputSource source_of(const RecordingFile& file) {
  return {file.path, std::string(kRecording.name), std::string(kRecording.noun),
          file.file_bytes, file.rows, -1, recording_issues(file)};
}

/// Only what grouping needs of a file with device rows; such a file is always part of a rank.
RecordingFile without_rows(RecordingFile file) {
  RecordingFile out;
  out.path = std::move(file.path);
  out.file_bytes = file.file_bytes;
  out.properties = std::move(file.properties);
  out.rows = file.rows;
  out.device_rows = file.device_rows;
  return out;
}

/// The recordings of one folder, as units.
class FolderUnits {
 public:
  explicit FolderUnits(InputUnits& all) : all_(all) {}
  void add(const InputUnit::File& name, RecordingFile file) {
    names_.push_back(name);
    files_.push_back(std::make_shared<const RecordingFile>(std::move(file)));
  }

  /// First, when all files are there. `keep`: units keep them open.
  void add_ranks(bool keep) {
    keep_ = keep;
    used_.resize(files_.size());
    const std::vector<RecordingGroup> groups = grouped(files_);
    for (const RecordingGroup& group : groups) add_rank(group, groups.size() > 1);
  }
  /// For a command in which no process recorded itself: what its threads did is known if they were sampled repeatedly.
  void add_threads() {
    InputUnit unit;
    unit.recording = true;
    for (size_t i = 0; i < files_.size(); ++i)
      if (files_[i]->of_host() && files_[i]->thread_samples.size() > 1) take(i, unit);
    if (!unit.files.empty()) all_.units.push_back(std::move(unit));
  }
  /// Files that are in no unit.
  void add_rest() {
    const bool none = std::none_of(used_.begin(), used_.end(), [](bool used) { return used; });
    for (size_t i = 0; i < files_.size(); ++i) {
      if (used_[i]) continue;
      const RecordingFile& file = *files_[i];
      if (none && file.of_host())   // of a command that ended early
        all_.left_out.push_back(file.path + ": no process was recorded, and no thread was sampled twice");
      else if (file.rows > 0 || (file.notes.empty() && !none))
        all_.others.push_back(source_of(file));
      else
        all_.left_out.push_back(empty_recording(file).message);
    }
  }

 private:
  void add_rank(const RecordingGroup& group, bool among_others) {
    std::vector<size_t> order = group.processes;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return files_[a]->device_rows > files_[b]->device_rows; });
    if (std::all_of(order.begin(), order.end(), [&](size_t i) { return files_[i]->rows == 0; })) return;
    InputUnit& unit = all_.units.emplace_back();
    unit.recording = true;
    unit.among_others = among_others;
    unit.rank = group.rank;
    for (const size_t i : order) take(i, unit);
    for (const size_t i : group.host_files) take(i, unit);
  }
  void take(size_t i, InputUnit& unit) {
    InputUnit::File& file = unit.files.emplace_back(names_[i]);
    file.of_host = files_[i]->of_host();
    file.counts = !used_[i];
    used_[i] = true;
    unit.bytes += files_[i]->file_bytes;
    if (keep_) unit.opened.push_back(files_[i]);
  }

  InputUnits& all_;
  std::vector<InputUnit::File> names_;
  RecordingFiles files_;
  std::vector<bool> used_;
  bool keep_ = true;
};

using PathByProcess = std::map<std::tuple<std::string, std::string, std::string, int64_t, bool>, std::string>;

// Refuses a file with the content of another one, renamed or compressed.
Status refuse_copy(const RecordingFile& file, PathByProcess& paths) {
  const std::string started = file.property("started_unix_ns");
  if (started.empty() && file.syncs.empty()) return ok();
  const int64_t begun = file.syncs.empty() ? 0 : file.syncs.front().unix_ns;
  const auto [it, fresh] =
      paths.try_emplace({file.property("host"), file.pid(), started, begun, file.of_host()}, file.path);
  if (fresh) return ok();
  if (it->second == file.path) return Error{file.path + ": given twice", "name it once, or its folder alone"};
  return Error{it->second + " and " + file.path + ": both are recordings of one process, from the same moment on",
               "one seems to be a copy of the other: leave one of them out"};
}

}  // namespace

Status add_recordings(const std::vector<InputUnit::File>& names, const ImportOptions& options, InputUnits& all) {
  std::map<std::string_view, FolderUnits> folders;   // by path
  PathByProcess paths;
  int64_t done = 0;
  for (const InputUnit::File& name : names) {
    auto file = open_recording(name.path);
    if (!file && name.named) return file.error();
    if (!file) {
      all.left_out.push_back(file.error().message);
      continue;
    }
    if (name.named && file->rows == 0) return empty_recording(*file);
    if (Status status = refuse_copy(*file, paths); !status) return status.error();
    done += file->file_bytes;
    if (options.progress) options.progress(done, done);
    FolderUnits& folder = folders.try_emplace(folder_of(name.path), all).first->second;
    const bool large = done > kKeptBytes && file->device_rows > 0;
    folder.add(name, large ? without_rows(*std::move(file)) : *std::move(file));
  }
  for (auto& [path, folder] : folders) folder.add_ranks(done <= kKeptBytes);
  // Beside ranks, traces or samples, they would be mistaken for a rank.
  if (all.units.empty())
    for (auto& [path, folder] : folders) folder.add_threads();
  for (auto& [path, folder] : folders) folder.add_rest();
  return ok();
}

Result<UnitRead> read_recording(const InputUnit& unit, const ImportOptions& options) {
  RecordingFiles files = unit.opened;
  UnitRead read;
  if (files.empty())
    for (const InputUnit::File& name : unit.files) {
      auto file = open_recording(name.path);
      if (!file && name.named) return file.error();
      if (!file) read.left_out.push_back(file.error().message);
      else files.push_back(std::make_shared<const RecordingFile>(*std::move(file)));
    }
  RankRecording recording;
  InputPart part;
  for (size_t i = 0; i < files.size(); ++i) {
    const RecordingFile& file = *files[i];
    if (file.of_host()) {
      recording.host_files.push_back(&file);
    } else {
      recording.processes.push_back(&file);
      if (unit.among_others) recording.pids.insert(file.pid());
    }
    const auto name =
        std::find_if(unit.files.begin(), unit.files.end(), [&](const auto& f) { return f.path == file.path; });
    if (name != unit.files.end() && name->counts) part.beside.push_back(source_of(file));
  }
  const bool of_threads = std::all_of(unit.files.begin(), unit.files.end(), [](const auto& f) { return f.of_host; });
  if (recording.processes.empty() && (recording.host_files.empty() || !of_threads)) return read;
  part.index = unit.files.front().index;
  part.recording = true;
  part.stated_rank = unit.rank;
  part.source = std::move(part.beside.front());
  part.beside.erase(part.beside.begin());
  Trace trace = recorded_trace(recording, options);
  for (TraceIssue& issue : trace.issues) part.source.issues.push_back(std::move(issue));
  trace.issues.clear();
  trace.distributed.rank = unit.rank;
  if (unit.clocks) trace.clock = unit.clocks->of(trace.host_name);
  part.on_device = trace.activity.size() > 0;
  part.window = window_facts(trace);
  part.life = part.window.extent;
  for (const RecordingFile* process : recording.processes)
    for (const wire::ClockSync& s : process->syncs)
      part.life = {std::min(part.life.start, s.unix_ns), std::max(part.life.end, s.unix_ns)};
  read.parts.push_back({std::move(part), std::move(trace)});
  return read;
}

namespace {

constexpr size_t kNone = SIZE_MAX;

/// Processes of one host by their ids.
class Grouping {
 public:
  explicit Grouping(const RecordingFiles& files) : files_(files), group_of_(files.size(), kNone) {
    for (size_t i = 0; i < files_.size(); ++i)
      if (!files_[i]->of_host() && files_[i]->number("pid") > 0)
        by_pid_[{files_[i]->property("host"), files_[i]->number("pid")}] = i;
  }

  std::vector<RecordingGroup> groups() {
    std::map<std::pair<std::string, int64_t>, size_t> of_rank;
    for (size_t i = 0; i < files_.size(); ++i) {
      const RecordingFile& f = *files_[i];
      const int64_t rank = f.number("rank");
      if (f.of_host() || rank < 0 || rank > INT32_MAX) continue;
      const auto [it, added] = of_rank.try_emplace({f.property("host"), rank}, groups_.size());
      if (added) groups_.emplace_back().rank = static_cast<int>(rank);
      join(i, it->second);
    }
    for (size_t i = 0; i < files_.size(); ++i)
      if (is_free(i) && files_[i]->device_rows > 0) groups_.emplace_back(), join(i, groups_.size() - 1);
    join_children();
    join_others();
    join_host_files();
    return std::move(groups_);
  }

 private:
  [[nodiscard]] bool is_free(size_t i) const { return group_of_[i] == kNone && !files_[i]->of_host(); }
  void join(size_t file, size_t group) {
    group_of_[file] = group;
    groups_[group].processes.push_back(file);
  }

  // The file of the process that started it; kNone: not among the files.
  [[nodiscard]] size_t parent(size_t i) const {
    const auto it = by_pid_.find({files_[i]->property("host"), files_[i]->number("ppid")});
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

  // The remaining files have no device activity and no parent in a group. They join the only group; if there is no
  // group, each process with events that was not started by another such process is a rank.
  void join_others() {
    const bool none = groups_.empty();
    for (size_t i = 0; i < files_.size(); ++i) {
      if (!is_free(i) || files_[i]->rows == 0) continue;
      const size_t p = parent(i);
      if (none && (p == kNone || files_[p]->rows == 0)) groups_.emplace_back(), join(i, groups_.size() - 1);
      else if (!none && groups_.size() == 1) join(i, 0);
    }
    join_children();
  }

  void join_host_files() {
    for (size_t i = 0; i < files_.size(); ++i) {
      if (!files_[i]->of_host()) continue;
      for (RecordingGroup& g : groups_)
        if (std::any_of(g.processes.begin(), g.processes.end(),
                        [&](size_t p) { return files_[p]->property("host") == files_[i]->property("host"); }))
          g.host_files.push_back(i);
    }
  }

  const RecordingFiles& files_;
  std::map<std::pair<std::string, int64_t>, size_t> by_pid_;   // by host and pid
  std::vector<size_t> group_of_;
  std::vector<RecordingGroup> groups_;
};

}  // namespace

std::vector<RecordingGroup> grouped(const RecordingFiles& files) { return Grouping(files).groups(); }

}  // namespace profgpu
