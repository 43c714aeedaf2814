#include "trace/import/input_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"
#include "trace/import/separate_runs.h"

namespace profgpu {
namespace {

constexpr int kNoRank = InputSource::kNoRank;

// Why `later` cannot be a later window of the process that wrote `earlier`; empty if it can.
std::string not_successive(const WindowFacts& earlier, const WindowFacts& later) {
  if (earlier.extent.end > later.extent.start) return "their times overlap";
  if (!earlier.host.empty() && !later.host.empty() && earlier.host != later.host)
    return "they come from different hosts";
  const auto &a = earlier.processes, &b = later.processes;
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  if (!a.empty() && !b.empty() && both.empty()) return "they come from different processes";
  if (earlier.first_step <= earlier.last_step && later.first_step <= later.last_step &&
      later.first_step <= earlier.last_step)
    return "their step numbers do not go up";
  return "";
}

// Whether a job whose log ends goes on in a later log: it was started again from one of its checkpoints. Its steps
// begin after where the earlier one's began, and not beyond what that left to do.
bool goes_on_in(const WindowFacts& earlier, const WindowFacts& later) {
  const bool logs = earlier.log.dated && later.log.dated && earlier.log.family == later.log.family;
  if (!logs || earlier.extent.end > later.extent.start) return false;
  const int64_t steps = std::max<int64_t>(earlier.last_step - earlier.first_step, 1);
  return later.first_step > earlier.first_step && later.first_step - earlier.last_step <= steps;
}

bool overlaps(const WindowFacts& a, const WindowFacts& b) {
  return a.extent.start < b.extent.end && b.extent.start < a.extent.end;
}

// Of each dated log, which job it is of: those of one follow each other.
using JobsOfLogs = std::map<const InputPart*, size_t>;

JobsOfLogs jobs_of_logs(const std::vector<InputPart*>& parts) {
  std::vector<const InputPart*> logs;
  std::ranges::copy_if(parts, std::back_inserter(logs), [](const InputPart* p) { return p->window.log.dated; });
  std::ranges::stable_sort(logs, {}, [](const InputPart* p) { return p->window.extent.start; });
  std::vector<std::vector<const InputPart*>> jobs;
  JobsOfLogs job_of;
  for (const InputPart* log : logs) {
    const auto goes_on = [&](const std::vector<const InputPart*>& job) {
      return std::ranges::none_of(job, [&](const InputPart* p) { return overlaps(p->window, log->window); }) &&
             std::ranges::any_of(job, [&](const InputPart* p) { return goes_on_in(p->window, log->window); });
    };
    auto job = std::ranges::find_if(jobs, goes_on);
    if (job == jobs.end()) job = jobs.insert(job, std::vector<const InputPart*>());
    job->push_back(log);
    job_of[log] = static_cast<size_t>(job - jobs.begin());
  }
  return job_of;
}

// Whether two files without a rank were written by one process, one after the other.
bool same_process(const WindowFacts& a, const WindowFacts& b) {
  const bool in_order = a.extent.start < b.extent.start;
  return !a.processes.empty() && a.processes == b.processes &&
         not_successive(in_order ? a : b, in_order ? b : a).empty();
}

// Recordings, and the traces that PyTorch wrote of the same processes meanwhile: each such set is one rank.
using Links = std::map<const InputPart*, std::vector<InputPart*>>;

// "node1-4711-memory.pickle" and "node1-4711-oom.pickle" are of "node1-4711.pgt": `profgpu run --memory` names them so.
bool is_named_after(const InputPart& snapshot, const InputPart& recording) {
  std::string_view stem = recording.source.path, name = snapshot.source.path;
  if (!stem.ends_with(".pgt")) return false;
  stem.remove_suffix(4);
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name.starts_with("-memory") || name.starts_with("-oom");
}

Links traces_of_recordings(std::vector<InputPart>& parts) {
  std::map<std::string, std::vector<InputPart*>> recordings;   // by pid
  for (InputPart& p : parts)
    for (const std::string& pid : p.window.processes)
      if (p.recording) recordings[pid].push_back(&p);
  const auto may_be_of = [](const InputPart& trace, const InputPart& recording) {
    const bool same_host = trace.window.host.empty() || trace.window.host == recording.window.host;
    return same_host && recording.life.start < trace.window.extent.end &&
           trace.window.extent.start < recording.life.end;
  };
  Links links;
  for (InputPart& trace : parts) {
    if (trace.recording) continue;
    std::set<InputPart*> found;
    for (const std::string& pid : trace.window.processes)
      if (const auto it = recordings.find(pid); it != recordings.end())
        for (InputPart* r : it->second)
          if (may_be_of(trace, *r)) found.insert(r);
    for (InputPart& r : parts)
      if (trace.only_snapshot && r.recording && is_named_after(trace, r)) found.insert(&r);
    if (found.size() != 1) continue;
    links[*found.begin()].push_back(&trace);
    links[&trace].push_back(*found.begin());
  }
  return links;
}

void give_rank(InputPart& part, int rank, const Links& links) {
  part.source.rank = rank;
  if (const auto it = links.find(&part); it != links.end())
    for (InputPart* linked : it->second)
      if (linked->source.rank == kNoRank) give_rank(*linked, rank, links);
}

// As recorded, else by name. A recording's name begins with that of its host, which may look like a rank.
int own_rank(const InputPart& p) { return p.stated_rank.value_or(p.recording ? kNoRank : rank_in_name(p.source.path)); }

void say_of_snapshot(InputPart& snapshot, std::string text) {
  snapshot.source.issues.push_back({TraceIssueKind::kNote, 1, std::move(text)});
}

// A snapshot of memory without a rank is of the one trace or recording within whose time it was taken, or of the only
// one. Where that does not tell, a number of its own would make it one more rank: it is left out. Whether there are
// ranks that it may be of.
bool give_rank_of_traces(InputPart& snapshot, const std::vector<InputPart>& parts) {
  std::set<int> all, meanwhile;
  for (const InputPart& p : parts) {
    if (p.only_snapshot || p.source.rank == kNoRank) continue;
    all.insert(p.source.rank);
    const Interval& time = p.window.extent;
    if (time.start <= snapshot.window.extent.end && snapshot.window.extent.start <= time.end)
      meanwhile.insert(p.source.rank);
  }
  const std::set<int>& found = all.size() == 1 ? all : meanwhile;
  const bool timed = snapshot.window.extent.end > 0;
  if (found.size() == 1) {
    snapshot.source.rank = *found.begin();
    if (timed && meanwhile.empty())
      say_of_snapshot(snapshot, fmt::format("joined with rank {}, the only one here: it has no event of the time of that "
                                            "rank's trace",
                                            snapshot.source.rank));
  } else if (!all.empty()) {
    snapshot.of_no_rank = true;
    say_of_snapshot(snapshot, "this snapshot was left out: neither its name nor its time tells which rank it is of; name "
                              "it by its rank (snapshot-rank1.pickle), or give it alone");
  }
  return !all.empty();
}

// Of several files without a rank: the nearest folders above that tell them apart, as worker0/log/trace.json and
// worker1/log/trace.json. Folders that all of them share are no rank.
void name_by_folders(std::vector<InputPart*>& unnamed, std::set<int>& taken, const Links& links) {
  constexpr size_t kMaxLevels = 8;
  if (unnamed.size() < 2 || std::ranges::any_of(unnamed, [](const InputPart* p) { return p->recording; })) return;
  for (size_t level = 1; level <= kMaxLevels; ++level) {
    std::set<int> ranks = taken;
    for (const InputPart* p : unnamed) ranks.insert(rank_in_folder(p->source.path, level));
    if (ranks.contains(-1) || ranks.size() < taken.size() + unnamed.size()) continue;
    for (InputPart* p : unnamed) give_rank(*p, rank_in_folder(p->source.path, level), links);
    taken = std::move(ranks);
    unnamed.clear();
    return;
  }
}

// Of files of which nothing says which ranks they are: two that are certainly of different runs.
Status of_one_run(const std::vector<InputPart*>& guessed) {
  constexpr size_t kMostCompared = 64;
  for (size_t i = 1; i < std::min(guessed.size(), kMostCompared); ++i)
    for (size_t j = 0; j < i; ++j) {
      const InputPart &a = *guessed[j], &b = *guessed[i];
      const std::string why = why_separate_runs(a, b);
      if (why.empty()) continue;
      const std::string hint = fmt::format(
          "give one run at a time, or compare two: `profgpu diff {} {}`; if they are ranks of one job, name them by "
          "rank (rank0{})", base_name(a.source.path), base_name(b.source.path),
          std::string_view(a.source.path).substr(std::min(a.source.path.rfind('.'), a.source.path.size())));
      return Error{fmt::format("{} and {}: of separate runs: {}", a.source.path, b.source.path, why), hint};
    }
  return ok();
}

// As recorded, else by name, else that of another file of the same process, else the next free one.
Status assign_ranks(std::vector<InputPart>& parts, const Links& links) {
  std::set<int> taken;
  std::vector<InputPart*> unnamed;
  for (InputPart& p : parts) {
    if (p.of_no_rank) {
      p.source.rank = kNoRank;
      continue;
    }
    p.source.rank = p.only_snapshot && links.contains(&p) ? kNoRank : own_rank(p);   // that of its recording
    if (p.source.rank >= 0) taken.insert(p.source.rank);
    else unnamed.push_back(&p);
  }
  for (InputPart& p : parts)
    if (p.source.rank != kNoRank) give_rank(p, p.source.rank, links);
  name_by_folders(unnamed, taken, links);
  int next = 0;
  std::vector<InputPart*> guessed;
  std::map<std::set<std::string>, std::vector<const InputPart*>> by_process;
  const JobsOfLogs jobs = jobs_of_logs(unnamed);
  std::map<size_t, int> rank_of_job;
  std::ranges::stable_partition(unnamed, [](const InputPart* p) { return !p->only_snapshot; });
  for (InputPart* p : unnamed) {
    if (p->only_snapshot && (p->source.rank >= 0 || give_rank_of_traces(*p, parts))) continue;
    auto& others = by_process[p->window.processes];
    for (size_t i = 0; i < others.size() && p->source.rank < 0; ++i)
      if (same_process(others[i]->window, p->window)) give_rank(*p, others[i]->source.rank, links);
    const auto job = jobs.find(p);
    if (job != jobs.end() && p->source.rank < 0)
      if (const auto known = rank_of_job.find(job->second); known != rank_of_job.end())
        give_rank(*p, known->second, links);
    others.push_back(p);
    if (p->source.rank >= 0) continue;
    while (taken.contains(next)) ++next;
    taken.insert(next);
    give_rank(*p, next, links);
    if (job != jobs.end()) rank_of_job[job->second] = next;
    guessed.push_back(p);
  }
  if (taken.size() > 1)
    for (InputPart* p : guessed)
      p->source.issues.push_back(
          {TraceIssueKind::kNote, 1,
           fmt::format("neither the file nor its name states a rank: assumed rank {}", p->source.rank)});
  // One run may have recorded programs that ran one after the other.
  std::erase_if(guessed, [](const InputPart* p) { return p->only_snapshot || p->recording; });
  return of_one_run(guessed);
}

// The recording of the same rank during which a trace was written; null: none.
const InputPart* recording_of(const InputPart& trace, const Links& links) {
  const auto it = links.find(&trace);
  return it != links.end() && it->second.front()->source.rank == trace.source.rank ? it->second.front() : nullptr;
}

// Joins a trace that PyTorch wrote while its process was recorded with the recording, unless it has less detail. Any
// other trace has no known relation to the recording, and replaces it.
void settle(std::vector<InputPart>& parts, const Links& links, std::vector<size_t>& of_rank) {
  const auto recordings =
      std::stable_partition(of_rank.begin(), of_rank.end(), [&](size_t i) { return !parts[i].recording; });
  if (recordings == of_rank.begin() || recordings == of_rank.end()) return;
  const auto say = [&](InputPart& part, int64_t count, std::string text) {
    part.source.issues.push_back({TraceIssueKind::kNote, count, std::move(text)});
  };
  const auto stranger = std::find_if(of_rank.begin(), recordings, [&](size_t i) {
    return !parts[i].only_snapshot && recording_of(parts[i], links) == nullptr;
  });
  if (stranger != recordings) {
    say(parts[*stranger], of_rank.end() - recordings,
        fmt::format(
            "this trace replaces the recording of its rank ({}), which was not analyzed: they are not of the same "
            "process at the same time",
            parts[*recordings].source.path));
    of_rank.erase(recordings, of_rank.end());
    return;
  }
  std::erase_if(of_rank, [&](size_t i) {
    InputPart& trace = parts[i];
    if (trace.recording || trace.only_snapshot) return false;
    const InputPart& recording = *recording_of(trace, links);
    const bool less_detail = recording.on_device && !trace.on_device;
    if (less_detail)
      say(trace, 1,
          fmt::format("this trace was left out, since it has no device activity and the recording of its process ({}) "
                      "has; to analyze it, give it alone",
                      recording.source.path));
    else
      say(trace, 1,
          fmt::format(
              "PyTorch's own trace of {:.3g} s, joined with the recording beside it ({}): operators are known only "
              "during the trace",
              static_cast<double>(trace.window.extent.length()) / 1e9, recording.source.path));
    return less_detail;
  });
}

Status in_order_of_time(int rank, const std::vector<InputPart>& parts, std::vector<size_t>& of_rank) {
  std::stable_sort(of_rank.begin(), of_rank.end(), [&](size_t a, size_t b) {
    return parts[a].window.extent.start < parts[b].window.extent.start;
  });
  for (size_t i = 0; i < of_rank.size(); ++i) {
    const InputPart& a = parts[of_rank[i]];
    const auto next = std::find_if(of_rank.begin() + static_cast<int64_t>(i) + 1, of_rank.end(), [&](size_t n) {
      return parts[n].recording == a.recording && !parts[n].only_snapshot;
    });
    if (next == of_rank.end() || a.only_snapshot) continue;
    const InputPart& b = parts[*next];
    const std::string why = not_successive(a.window, b.window);
    const auto goes_on = [&](size_t earlier) { return goes_on_in(parts[earlier].window, b.window); };
    if (why.empty() || (!overlaps(a.window, b.window) && std::any_of(of_rank.begin(), next, goes_on))) continue;
    // A copy, renamed or compressed, has the same content.
    const bool copied = a.window.extent.start == b.window.extent.start && a.window.extent.end == b.window.extent.end &&
                        a.window.processes == b.window.processes;
    const bool named = !a.stated_rank && !b.stated_rank;
    return Error{fmt::format("{} and {}: both {} rank {}, but they are not successive windows of it: {}", a.source.path,
                             b.source.path, named ? "are named as" : "state", rank, why),
                 copied ? "one seems to be a copy of the other: leave one of them out"
                 : named
                     ? "if each host counts its ranks from 0, name the files by the ranks of the whole job"
                     : "give one run at a time; compare files of different runs with `profgpu diff`"};
  }
  return ok();
}

// Of several snapshots of a rank the last one is analyzed.
void note_earlier_snapshots(std::vector<InputPart>& parts, const std::vector<size_t>& of_rank) {
  std::vector<InputPart*> snapshots;
  for (const size_t i : of_rank)
    if (parts[i].only_snapshot) snapshots.push_back(&parts[i]);
  const auto last = std::ranges::max_element(snapshots.rbegin(), snapshots.rend(), {},
                                             [](const InputPart* p) { return p->window.extent.end; });
  for (InputPart* p : snapshots)
    if (p != *last)
      p->source.issues.push_back(
          {TraceIssueKind::kNote, 1,
           fmt::format("this snapshot was not analyzed, since a later one of its rank is there ({}); "
                       "`profgpu diff` compares them",
                       (*last)->source.path)});
}

// "2; a.json: an empty file; b.json: not a trace": how many, and why the first ones were left out.
std::string left_out_text(const std::vector<std::string>& left_out) {
  constexpr size_t kMaxNamed = 5;
  std::string text = std::to_string(left_out.size());
  for (size_t i = 0; i < left_out.size() && i < kMaxNamed; ++i) text += "; " + left_out[i];
  if (left_out.size() > kMaxNamed) text += fmt::format("; and {} more", left_out.size() - kMaxNamed);
  return text;
}

}  // namespace

std::vector<size_t> windows_of_one_rank(const std::vector<InputPart>& parts) {
  std::vector<size_t> places;
  for (size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].of_no_rank) places.push_back(i);
  const bool alike = std::all_of(places.begin(), places.end(),
                                 [&](size_t i) { return own_rank(parts[i]) == own_rank(parts[places.front()]); });
  return alike && in_order_of_time(kNoRank, parts, places) ? places : std::vector<size_t>();
}

Error nothing_to_read(const std::vector<std::string>& paths, const std::vector<std::string>& left_out) {
  return {fmt::format("{}: no trace in it (files: {})", paths.front(), left_out_text(left_out)),
          "`profgpu formats` lists what it reads"};
}

Result<std::map<int, std::vector<size_t>>> parts_by_rank(std::vector<InputPart>& parts) {
  const Links links = traces_of_recordings(parts);
  if (Status status = assign_ranks(parts, links); !status) return status.error();
  std::map<int, std::vector<size_t>> by_rank;
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].source.rank != kNoRank) by_rank[parts[i].source.rank].push_back(i);
  for (auto& [rank, of_rank] : by_rank) {
    settle(parts, links, of_rank);
    if (Status status = in_order_of_time(rank, parts, of_rank); !status) return status.error();
    note_earlier_snapshots(parts, of_rank);
  }
  return by_rank;
}

std::vector<InputSource> sources_of(std::vector<InputPart> parts, const InputUnits& units,
                                    const std::vector<std::string>& left_out) {
  std::sort(parts.begin(), parts.end(), [](const InputPart& a, const InputPart& b) { return a.index < b.index; });
  if (!left_out.empty() && !parts.empty())
    parts.front().source.issues.push_back({TraceIssueKind::kOther, static_cast<int64_t>(left_out.size()),
                                           "files left out: " + left_out_text(left_out)});
  std::vector<InputSource> sources;
  for (InputPart& p : parts) {
    for (InputSource& source : p.beside) source.rank = p.source.rank;
    sources.push_back(std::move(p.source));
    std::move(p.beside.begin(), p.beside.end(), std::back_inserter(sources));
  }
  sources.insert(sources.end(), units.others.begin(), units.others.end());
  return sources;
}

}  // namespace profgpu
