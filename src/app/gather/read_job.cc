#include "app/gather/read_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "app/gather/job_report.h"
#include "base/hash.h"
#include "trace/import/input_units.h"
#include "trace/radix_sort.h"
#include "trace/sample_file.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

bool keeps(const std::vector<InputUnit>& units, const JobOptions& options) {
  int64_t bytes = 0;
  for (const InputUnit& unit : units) bytes += unit.bytes;
  return units.size() <= options.most_kept && bytes <= options.most_kept_bytes;
}

/// Largest first, so that no large one is left for the end.
std::vector<size_t> by_size(const std::vector<InputUnit>& units) {
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return units[a].bytes > units[b].bytes; });
  return order;
}

/// The units that the processes of this one's host read, in the order in which they are taken: each goes to the host
/// that has least for each of its processes so far.
std::vector<size_t> share_of(const Processes& processes, const std::vector<InputUnit>& units) {
  std::map<int, double> load;
  std::map<int, int> on;
  for (const int host : processes.hosts) {
    load[host] = 0;
    ++on[host];
  }
  const int here = processes.hosts[static_cast<size_t>(processes.place)];
  std::vector<size_t> ours;
  for (const size_t i : by_size(units)) {
    const auto least =
        std::min_element(load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    least->second += static_cast<double>(units[i].bytes + 1) / on[least->first];   // empty files are shared out too
    if (least->first == here) ours.push_back(i);
  }
  return ours;
}

/// Bytes that several units have come so far, as one figure.
class UnitProgress {
 public:
  /// `sharing` processes read them, each about as much of them as the others.
  UnitProgress(Progress& progress, const std::vector<InputUnit>& units, const std::vector<size_t>& ours,
               int64_t sharing)
      : progress_(progress) {
    int64_t total = 0;
    for (const size_t i : ours) total += units[i].bytes;
    progress.total_bytes = total / sharing;
    progress.done_bytes = 0;
  }
  /// For one unit; successive files of it start again.
  std::function<void(int64_t, int64_t)> of_unit() {
    auto last = std::make_shared<int64_t>(0);
    return [this, last](int64_t done, int64_t) {
      progress_.done_bytes += done >= *last ? done - *last : done;
      *last = done;
    };
  }

 private:
  Progress& progress_;
};

constexpr int kNotNumbered = 0;   // which rank it is is known when all are read

// First and last step of the whole trace; none: it has no steps.
std::optional<std::pair<int64_t, int64_t>> steps_of(const Trace& trace, AnalysisOptions options) {
  options.first_step = 0, options.end_step = INT64_MAX;
  const Facts all(trace, options);
  const std::vector<Step>& steps = all.get<Steps>().steps;
  if (steps.empty()) return std::nullopt;
  const auto [first, last] = std::ranges::minmax(steps, {}, &Step::index);
  return std::pair(first.index, last.index);
}

Error no_steps_left(const JobOptions& options, int rank, const UnitOutcome& of_files) {
  const auto bound = [](int64_t step, int64_t open) { return step == open ? "" : std::to_string(step); };
  const std::string chosen = bound(options.analysis.first_step, 0) + ":" + bound(options.analysis.end_step, INT64_MAX);
  const auto& all = of_files.not_chosen;
  const std::string there = all ? fmt::format("; the trace has steps {} to {}", all->first, all->second) : "";
  return {fmt::format("{}: --steps {} selects no step of rank {}{}", options.paths.front(), chosen, rank, there),
          "`--section steps` lists them with their numbers"};
}

// Sets what `out` has of a rank's trace; nothing where no step is left.
void reduce(Trace read, const JobOptions& options, int threads, bool keep, UnitOutcome& out) {
  auto trace = std::make_unique<TraceFacts>(std::move(read), options.analysis);
  const Facts& facts = trace->facts;
  // Nearly all that follows needs the steps; what operators compute does not.
  if (!options.outline) side_by_side(threads, [&] { facts.get<Steps>(); }, [&] { facts.get<OpWorks>(); });
  if (facts.get<Steps>().steps.empty()) {
    out.not_chosen = steps_of(trace->trace, options.analysis);
    return;
  }
  if (options.outline) {
    out.result.emplace().digest = rank_digest(kNotNumbered, facts);
    out.outline = options.outline(facts);
  } else {
    out.result = reduced(kNotNumbered, facts, options.thresholds, threads);
  }
  if (keep) out.trace = std::move(trace);
}

UnitOutcome read_outcome(const InputUnit& unit, const JobOptions& options, const ImportOptions& import, bool keep,
                         Progress& progress) {
  UnitOutcome out;
  const auto begin = std::chrono::steady_clock::now();
  auto read = read_unit(unit, import);
  progress.read_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();   // of the last one
  if (!read) {
    out.error = read.error();
    return out;
  }
  out.left_out = std::move(read->left_out);
  std::vector<Trace> traces;
  for (ReadPart& r : read->parts) {
    if (r.part.has_samples) out.samples.push_back(std::move(r.trace.samples));
    out.notes.take(r.trace);
    traces.push_back(std::move(r.trace));
    out.parts.push_back(std::move(r.part));
  }
  std::vector<Trace> windows;
  for (const size_t i : windows_of_one_rank(out.parts)) windows.push_back(std::move(traces[i]));
  if (!windows.empty()) reduce(joined_windows(std::move(windows)), options, import.threads, keep, out);
  return out;
}

/// Outcomes of the units that this process took of its host's.
std::vector<std::pair<size_t, UnitOutcome>> read_share(std::vector<InputUnit>& units, const Processes& processes,
                                                       const JobOptions& options, Progress& progress) {
  const std::vector<size_t> ours = share_of(processes, units);
  const auto on_host = static_cast<size_t>(std::count(processes.hosts.begin(), processes.hosts.end(),
                                                      processes.hosts[static_cast<size_t>(processes.place)]));
  std::vector<std::pair<size_t, UnitOutcome>> outcomes;
  std::mutex outcomes_mutex;
  UnitProgress bytes(progress, units, ours, static_cast<int64_t>(on_host));
  // A launcher may have bound the process to some of them; then there are no more to share.
  const size_t seen = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 64);
  const size_t cores = std::clamp<size_t>(seen / on_host, 1, 16);
  const size_t workers = std::clamp<size_t>(ours.size(), 1, cores);
  uint64_t own = 0;
  std::atomic_ref<uint64_t> taken(processes.taken != nullptr ? *processes.taken : own);
  const bool keep = keeps(units, options);
  const auto work = [&] {
    for (size_t i = taken++; i < ours.size(); i = taken++) {
      ImportOptions import;
      // The last ones share the cores that the others have left.
      import.threads = static_cast<int>(std::max<size_t>(1, cores / std::min(workers, ours.size() - i)));
      import.progress = bytes.of_unit();
      UnitOutcome outcome = read_outcome(units[ours[i]], options, import, keep, progress);
      units[ours[i]].opened.clear();
      const std::lock_guard lock(outcomes_mutex);
      outcomes.emplace_back(ours[i], std::move(outcome));
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < workers; ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return outcomes;
}

/// Puts the outcomes of all units together.
class Assembly {
 public:
  Assembly(InputUnits units, std::vector<UnitOutcome> outcomes, const JobOptions& options)
      : units_(std::move(units)), outcomes_(std::move(outcomes)), options_(options) {}

  Result<JobRead> job() {
    std::vector<std::string> left_out = units_.left_out;
    for (UnitOutcome& o : outcomes_) {
      if (o.error) return *o.error;
      left_out.insert(left_out.end(), o.left_out.begin(), o.left_out.end());
    }
    for (size_t u = 0; u < outcomes_.size(); ++u)
      for (InputPart& p : outcomes_[u].parts) {
        unit_of_.push_back(u);
        parts_.push_back(std::move(p));
      }
    if (parts_.empty()) return nothing_to_read(options_.paths, left_out);
    auto by_rank = parts_by_rank(parts_);
    if (!by_rank) return by_rank.error();
    JobRead job;
    if (Status status = read_again_what_was_left_out(); !status) return status.error();
    add_samples(job);
    job.rates = options_.analysis.rates, job.peaks = options_.analysis.peaks, job.machine = options_.analysis.machine;
    const bool keep = keeps(units_.units, options_);
    job.files = RankFiles(std::move(units_.units), *by_rank, parts_, unit_of_);
    for (const auto& [rank, of_rank] : *by_rank) {
      auto read = rank_of(rank, of_rank, job.files, keep);
      if (!read) return read.error();
      job.ranks.push_back(*std::move(read->result));
      if (read->outline) job.outlines.emplace(rank, *std::move(read->outline));
      if (read->trace) job.traces.emplace(rank, std::move(read->trace));
    }
    if (job.ranks.empty())
      for (InputPart& p : parts_) p.source.rank = p.stated_rank.value_or(0);
    for (const InputPart& p : parts_)
      if (p.of_no_rank && p.stated_rank) job.stated_ranks[p.source.path] = *p.stated_rank;
    job.sources = sources_of(std::move(parts_), units_, left_out);
    return job;
  }

 private:
  Result<UnitOutcome> rank_of(int rank, const std::vector<size_t>& of_rank, const RankFiles& files, bool keep) {
    UnitOutcome& first = outcomes_[unit_of_[of_rank.front()]];
    UnitOutcome of_files;
    if (first.result && read_together(of_rank)) {
      of_files = std::move(first);
    } else {   // the rank's files lay apart, or together with another's
      auto trace = files.read(rank);
      if (!trace) return trace.error();
      reduce(*std::move(trace), options_, 2, keep, of_files);
    }
    if (!of_files.result) return no_steps_left(options_, rank, of_files);
    of_files.result->number(rank);
    return of_files;
  }

  // Whether the parts are all traces of one unit.
  [[nodiscard]] bool read_together(const std::vector<size_t>& of_rank) const {
    const size_t unit = unit_of_[of_rank.front()];
    size_t traces = 0;
    for (size_t i = 0; i < parts_.size(); ++i) traces += unit_of_[i] == unit && !parts_[i].of_no_rank;
    return traces == of_rank.size() &&
           std::all_of(of_rank.begin(), of_rank.end(), [&](size_t i) { return unit_of_[i] == unit; });
  }

  // Samples and notes of units that another process read.
  Status read_again_what_was_left_out() {
    std::set<size_t> missing;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const UnitOutcome& o = outcomes_[unit_of_[i]];
      if ((parts_[i].has_samples && o.samples.empty()) || (parts_[i].has_notes && o.notes.empty()))
        missing.insert(unit_of_[i]);
    }
    for (const size_t u : missing) {
      auto read = read_unit(units_.units[u], {});
      if (!read) return read.error();
      for (ReadPart& r : read->parts) {
        outcomes_[u].notes.take(r.trace);
        if (r.part.has_samples) outcomes_[u].samples.push_back(std::move(r.trace.samples));
      }
    }
    return ok();
  }

  void add_samples(JobRead& job) {
    std::vector<SampleLog> logs;
    for (UnitOutcome& o : outcomes_) {
      std::move(o.samples.begin(), o.samples.end(), std::back_inserter(logs));
      job.notes.take(std::move(o.notes));
    }
    job.samples = joined_samples(std::move(logs));
  }

  InputUnits units_;
  std::vector<UnitOutcome> outcomes_;
  const JobOptions& options_;
  std::vector<InputPart> parts_;
  std::vector<size_t> unit_of_;   // of each part
};

/// The same on every process that sees the same files.
uint64_t names_of(const InputUnits& units) {
  uint64_t hash = fnv1a("");
  for (const InputUnit& unit : units.units)
    for (const InputUnit::File& file : unit.files) hash = fnv1a(file.path + '\n', hash);
  return hash;
}

Error other_files(const std::string& path, size_t process) {
  return {path + ": process " + std::to_string(process) + " sees other files there",
          "give a folder that every node sees, such as one on a shared file system"};
}

}  // namespace

Result<std::optional<JobRead>> read_job(const JobOptions& options, const Processes& processes, Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  auto units = find_units(options.paths, {});
  std::vector<std::pair<size_t, UnitOutcome>> outcomes;
  if (units) outcomes = read_share(units->units, processes, options, progress);
  if (processes.count > 1) {
    // Who found nothing takes part as well: the others wait for it.
    ShareRead mine;
    if (units) mine = {names_of(*units), std::move(outcomes)};
    const std::vector<std::string> all = processes.gather(encoded(mine));
    if (processes.place != 0) return std::optional<JobRead>();
    outcomes = std::move(mine.outcomes);
    for (size_t i = 1; units && i < all.size(); ++i) {
      auto theirs = decoded_share(all[i]);
      if (!theirs) return theirs.error();
      if (theirs->names != mine.names) return other_files(options.paths.front(), i);
      std::move(theirs->outcomes.begin(), theirs->outcomes.end(), std::back_inserter(outcomes));
    }
  }
  if (!units) return units.error();
  std::vector<UnitOutcome> in_order(units->units.size());
  for (auto& [unit, outcome] : outcomes) in_order[unit] = std::move(outcome);
  if (units->units.size() > 1)
    progress.read_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  progress.stage = "analyzing";
  auto job = Assembly(*std::move(units), std::move(in_order), options).job();
  if (!job) return job.error();
  return std::optional<JobRead>(*std::move(job));
}

}  // namespace profgpu
