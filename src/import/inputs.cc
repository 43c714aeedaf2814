#include "import/inputs.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "import/recording_ranks.h"
#include "trace/sample_file.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

constexpr int kNoRank = -1;
constexpr int kUnassigned = 0;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// "r9" before "r10".
bool natural_less(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const size_t x = a.find_first_not_of("0123456789", i), y = b.find_first_not_of("0123456789", j);
      const std::string m = a.substr(i, std::min(x, a.size()) - i), n = b.substr(j, std::min(y, b.size()) - j);
      if (m.size() != n.size()) return m.size() < n.size();
      if (m != n) return m < n;
      i += m.size();
      j += n.size();
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

struct Listing {
  std::vector<std::string> files;
  bool folder = false;
};

Result<Listing> listed(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return Error{path + ": " + std::strerror(errno), errno == ENOENT ? "check the path" : ""};
  if (!S_ISDIR(info.st_mode)) return Listing{{path}, false};
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return Error{path + ": " + std::strerror(errno), "check the folder's permissions"};
  Listing listing{{}, true};
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.front() == '.') continue;
    const std::string file = path + (path.back() == '/' ? "" : "/") + name;
    if (::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode)) listing.files.push_back(file);
  }
  ::closedir(dir);
  std::sort(listing.files.begin(), listing.files.end(), natural_less);
  return listing;
}

struct Read {
  InputSource source;
  Trace trace;
  bool recording = false;
  std::vector<InputSource> beside = {};   // further files that the trace was made of
};

/// Files that are part of no trace.
struct Unused {
  std::vector<InputSource> sources;
  std::vector<std::string> left_out;   // why each
};

Interval extent(const Trace& trace) {
  if (trace.windows.empty()) return {};
  return {trace.windows.front().start + trace.base_time_ns, trace.windows.back().end + trace.base_time_ns};
}

std::set<std::string> processes(const Trace& trace) {
  std::set<std::string> all;
  for (const Thread& t : trace.threads)
    if (t.begin < t.end && t.process != "0") all.insert(t.process);
  return all;
}

// Largest and smallest N of ProfilerStep#N.
std::pair<int64_t, int64_t> step_numbers(const Trace& trace) {
  std::pair<int64_t, int64_t> range{INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    constexpr std::string_view kPrefix = "ProfilerStep#";
    if (!name.starts_with(kPrefix) || name.size() > kPrefix.size() + 15) continue;
    const int64_t n = std::strtoll(std::string(name.substr(kPrefix.size())).c_str(), nullptr, 10);
    range = {std::min(range.first, n), std::max(range.second, n)};
  }
  return range;
}

// What tells whether files are successive windows of one process.
struct WindowFacts {
  explicit WindowFacts(const Trace& t)
      : extent(profgpu::extent(t)), host(t.host_name), processes(profgpu::processes(t)), steps(step_numbers(t)) {}
  Interval extent;
  std::string host;
  std::set<std::string> processes;
  std::pair<int64_t, int64_t> steps;
};

// Why `later` cannot be a later window of the process that wrote `earlier`; empty if it can.
std::string not_successive(const WindowFacts& earlier, const WindowFacts& later) {
  if (earlier.extent.end > later.extent.start) return "their times overlap";
  if (!earlier.host.empty() && !later.host.empty() && earlier.host != later.host) return "they come from different hosts";
  const auto &a = earlier.processes, &b = later.processes;
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  if (!a.empty() && !b.empty() && both.empty()) return "they come from different processes";
  const auto &x = earlier.steps, &y = later.steps;
  if (x.first <= x.second && y.first <= y.second && y.first <= x.second) return "their step numbers do not go up";
  return "";
}

// Whether two files without a rank were written by one process, one after the other.
bool same_process(const WindowFacts& a, const WindowFacts& b) {
  const bool in_order = a.extent.start < b.extent.start;
  return !a.processes.empty() && a.processes == b.processes && not_successive(in_order ? a : b, in_order ? b : a).empty();
}

// A rank for each file: as recorded, else as named, else that of another window of the same process, else the next that
// is free.
void assign_ranks(std::vector<Read>& all) {
  std::set<int> taken;
  std::vector<Read*> unnamed;
  for (Read& r : all) {
    if (r.source.rank == kNoRank) continue;
    // A recording's name begins with its host's, which may look like a rank.
    const int named = r.recording ? kNoRank : rank_in_name(r.source.path);
    r.source.rank = r.trace.distributed.rank.value_or(named);
    if (r.source.rank >= 0) {
      taken.insert(r.source.rank);
    } else {
      unnamed.push_back(&r);
    }
  }
  int next = 0;
  std::vector<WindowFacts> facts;
  for (size_t i = 0; i < unnamed.size(); ++i) {
    facts.emplace_back(unnamed[i]->trace);
    for (size_t j = 0; j < i && unnamed[i]->source.rank < 0; ++j)
      if (same_process(facts[j], facts[i])) unnamed[i]->source.rank = unnamed[j]->source.rank;
    if (unnamed[i]->source.rank >= 0) continue;
    while (taken.contains(next)) ++next;
    taken.insert(unnamed[i]->source.rank = next);
  }
}

// Samples of devices belong to no rank, but to whoever ran there.
SampleLog take_samples(std::vector<Read>& all) {
  std::vector<SampleLog> logs;
  for (Read& r : all) {
    if (!r.trace.only_samples()) continue;
    r.source.rank = kNoRank;
    logs.push_back(std::move(r.trace.samples));
  }
  return joined_samples(std::move(logs));
}

// Samples alone stand as one rank.
RankTrace rank_of_samples(std::vector<Read>& all, SampleLog samples) {
  RankTrace rank{0, std::move(all.front().trace)};
  rank.trace.events = samples.ticks;
  rank.trace.windows = {{samples.first_ns, samples.last_ns}};
  rank.trace.samples = std::move(samples);
  for (Read& r : all) r.source.rank = 0;
  return rank;
}

// A PyTorch trace says more than a recording of the same rank: the recording is left out.
void prefer_traces(std::vector<Read*>& files) {
  const auto recordings = std::stable_partition(files.begin(), files.end(), [](const Read* r) { return !r->recording; });
  if (recordings == files.begin() || recordings == files.end()) return;
  files.front()->source.issues.push_back(
      {TraceIssueKind::kNote, files.end() - recordings,
       fmt::format("this trace stands for its rank; the recording beside it ({}) was not analysed",
                   (*recordings)->source.path)});
  files.erase(recordings, files.end());
}

Result<RankTrace> join(int rank, std::vector<Read*> files) {
  prefer_traces(files);
  std::sort(files.begin(), files.end(),
            [](const Read* a, const Read* b) { return extent(a->trace).start < extent(b->trace).start; });
  std::vector<WindowFacts> facts;
  for (const Read* r : files) facts.emplace_back(r->trace);
  for (size_t i = 0; i + 1 < files.size(); ++i) {
    const std::string why = not_successive(facts[i], facts[i + 1]);
    if (why.empty()) continue;
    return Error{fmt::format("{} and {}: both say they are rank {}, but they are not successive windows of it: {}",
                             files[i]->source.path, files[i + 1]->source.path, rank, why),
                 "give one run at a time; files of different runs can be compared with each other, not joined"};
  }
  std::vector<Trace> windows;
  for (Read* r : files) windows.push_back(std::move(r->trace));
  return RankTrace{rank, joined_windows(std::move(windows))};
}

Status join_ranks(std::vector<Read>& all, Inputs& inputs) {
  assign_ranks(all);
  std::map<int, std::vector<Read*>> by_rank;
  for (Read& r : all)
    if (r.source.rank != kNoRank) by_rank[r.source.rank].push_back(&r);
  for (const auto& [rank, files] : by_rank) {
    auto joined = join(rank, files);
    if (!joined) return joined.error();
    inputs.ranks.push_back(*std::move(joined));
  }
  return ok();
}

// What `profgpu run` writes beside recordings, and is none.
bool describes_run(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name == "summary.json" || name == "session.json" ||
         (name.ends_with(".json") && (name.starts_with("session-") || name.starts_with("summary-")));
}

Status add_recordings(const std::vector<RecordingPath>& paths, const ImportOptions& options, std::vector<Read>& all,
                      Unused& unused) {
  auto recorded = read_recordings(paths, options);
  if (!recorded) return recorded.error();
  for (RecordedRank& rank : recorded->ranks) {
    rank.trace.distributed.rank = rank.rank;
    Read& r = all.emplace_back();
    r.recording = true;
    r.source = rank.sources.front();
    r.source.rank = kUnassigned;
    r.beside.assign(rank.sources.begin() + 1, rank.sources.end());
    r.trace = std::move(rank.trace);
  }
  unused.sources = std::move(recorded->others);
  unused.left_out.insert(unused.left_out.end(), recorded->left_out.begin(), recorded->left_out.end());
  return ok();
}

Status read_all(const std::vector<std::string>& paths, const ImportOptions& options, std::vector<Read>& all,
                Unused& unused) {
  std::vector<RecordingPath> recordings;
  for (const std::string& path : paths) {
    auto listing = listed(path);
    if (!listing) return listing.error();
    if (listing->folder && listing->files.empty()) return Error{path + ": an empty folder"};
    const size_t before = recordings.size();
    std::erase_if(listing->files, [&](const std::string& file) {
      const bool found = holds_recording(file);
      if (found) recordings.push_back({file, !listing->folder});
      return found;
    });
    if (listing->folder && recordings.size() > before) std::erase_if(listing->files, describes_run);
    for (const std::string& file : listing->files) {
      auto imported = import_file(file, options);
      if (!imported) {
        if (!listing->folder) return imported.error();
        unused.left_out.push_back(imported.error().message);
        continue;
      }
      Read& r = all.emplace_back();
      r.source = {file, imported->importer->name, imported->importer->noun, imported->file_bytes,
                  imported->trace.events, 0, imported->trace.issues};
      r.trace = std::move(imported->trace);
      r.trace.issues.clear();
    }
  }
  return add_recordings(recordings, options, all, unused);
}

}  // namespace

int rank_in_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1);
  for (const std::string_view word : {"rank", "worker", "r"}) {
    for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
      if (at > 0 && is_letter(name[at - 1])) continue;
      size_t i = at + word.size();
      if (i < name.size() && word != "r" && (name[i] == '-' || name[i] == '_')) ++i;
      size_t end = i;
      while (end < name.size() && is_digit(name[end])) ++end;
      if (end == i || end - i > 6 || (end < name.size() && is_letter(name[end]))) continue;
      return std::atoi(std::string(name.substr(i, end - i)).c_str());
    }
  }
  return -1;
}

Result<Inputs> read_inputs(const std::vector<std::string>& paths, const ImportOptions& options) {
  std::vector<Read> all;
  Unused unused;
  if (Status status = read_all(paths, options, all, unused); !status) return status.error();
  const std::vector<std::string>& left_out = unused.left_out;
  if (all.empty())
    return Error{fmt::format("{}: no trace in it (files: {}; the first: {})", paths.front(), left_out.size(),
                             left_out.front()),
                 "`profgpu formats` lists what it reads"};
  if (!left_out.empty())
    all.front().source.issues.push_back({TraceIssueKind::kOther, static_cast<int64_t>(left_out.size()),
                                         fmt::format("files beside it that were left out: {}; the first: {}",
                                                     left_out.size(), left_out.front())});
  Inputs inputs;
  inputs.samples = take_samples(all);
  if (std::all_of(all.begin(), all.end(), [](const Read& r) { return r.source.rank == kNoRank; }))
    inputs.ranks.push_back(rank_of_samples(all, std::exchange(inputs.samples, {})));
  else if (Status status = join_ranks(all, inputs); !status)
    return status.error();
  for (Read& r : all) {
    for (InputSource& source : r.beside) source.rank = r.source.rank;
    inputs.sources.push_back(std::move(r.source));
    std::move(r.beside.begin(), r.beside.end(), std::back_inserter(inputs.sources));
  }
  std::move(unused.sources.begin(), unused.sources.end(), std::back_inserter(inputs.sources));
  return inputs;
}

}  // namespace profgpu
