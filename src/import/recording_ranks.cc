#include "import/recording_ranks.h"

#include <algorithm>
#include <map>

#include "base/text_source.h"
#include "import/recording.h"

namespace profgpu {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

InputSource source_of(const RecordingFile& file) {
  return {file.path, kRecording.name, kRecording.noun, file.file_bytes, file.rows, -1, recording_issues(file)};
}

class FolderReader {
 public:
  FolderReader(std::vector<RecordingFile> files, const ImportOptions& options, RecordedRanks& all)
      : files_(std::move(files)), options_(options), all_(all), used_(files_.size()) {}

  void read() {
    const std::vector<RecordingGroup> groups = grouped(files_);
    for (const RecordingGroup& group : groups) read_rank(group, groups.size() > 1);
    for (size_t i = 0; i < files_.size(); ++i) {
      if (used_[i]) continue;
      const RecordingFile& file = files_[i];
      if (file.rows > 0 && all_.ranks.empty())
        all_.left_out.push_back(file.path + ": samples of threads, but no process was recorded");
      else if (file.rows > 0 || (file.notes.empty() && !all_.ranks.empty()))
        all_.others.push_back(source_of(file));
      else
        all_.left_out.push_back(empty_recording(file).message);
    }
  }

 private:
  void read_rank(const RecordingGroup& group, bool among_others) {
    std::vector<size_t> order = group.processes;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return files_[a].device_rows > files_[b].device_rows; });
    const auto says_nothing = [&](size_t i) { return files_[i].rows == 0; };
    if (std::all_of(order.begin(), order.end(), says_nothing)) return;
    RankRecording recording;
    RecordedRank& rank = all_.ranks.emplace_back();
    rank.rank = group.rank;
    for (const size_t i : order) {
      recording.processes.push_back(&files_[i]);
      if (among_others) recording.pids.insert(files_[i].pid());
      take(i, rank);
    }
    for (const size_t i : group.host_files) {
      recording.host_files.push_back(&files_[i]);
      if (!used_[i]) take(i, rank);
    }
    rank.trace = recorded_trace(recording, options_);
    for (TraceIssue& issue : rank.trace.issues) rank.sources.front().issues.push_back(std::move(issue));
    rank.trace.issues.clear();
  }
  void take(size_t i, RecordedRank& rank) {
    used_[i] = true;
    rank.sources.push_back(source_of(files_[i]));
  }

  std::vector<RecordingFile> files_;
  const ImportOptions& options_;
  RecordedRanks& all_;
  std::vector<bool> used_;
};

}  // namespace

bool holds_recording(const std::string& path) {
  auto source = open_text(path);
  if (!source) return false;
  char head[8];
  return is_recording({head, (*source)->read(head, sizeof head)});
}

Result<RecordedRanks> read_recordings(const std::vector<RecordingPath>& paths, const ImportOptions& options) {
  RecordedRanks all;
  std::map<std::string, std::vector<RecordingFile>> by_folder;
  int64_t done = 0;
  for (const RecordingPath& p : paths) {
    auto file = open_recording(p.path);
    if (!file && p.named) return file.error();
    if (!file) {
      all.left_out.push_back(file.error().message);
      continue;
    }
    if (p.named && file->rows == 0) return empty_recording(*file);
    done += file->file_bytes;
    if (options.progress) options.progress(done, done);
    by_folder[folder_of(p.path)].push_back(*std::move(file));
  }
  for (auto& [folder, files] : by_folder) FolderReader(std::move(files), options, all).read();
  return all;
}

}  // namespace profgpu
