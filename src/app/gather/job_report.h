// What is kept of each rank, and what a report of all makes of it. RankResult: all that a report needs of one rank;
// what it was made from may go after it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyse/job/rank_digest.h"
#include "analyse/job/report.h"
#include "analyse/job/work_comparison.h"
#include "analyse/rank/rank_report.h"
#include "analyse/report/report.h"
#include "analyse/rules/rule.h"
#include "trace/import/input_units.h"

namespace profgpu {

/// What tells of a job as a whole, beside its ranks' traces: what it printed, and what NCCL
/// wrote down when it hung.
struct JobNotes {
  std::vector<std::shared_ptr<const RunLog>> logs;          ///< in the order of the paths
  std::vector<std::shared_ptr<const FlightDump>> flights;   ///< likewise

  /// Takes what a part's trace has of it; each log once, however many ranks it is of.
  void take(const Trace& trace);
  void take(JobNotes others);
  [[nodiscard]] bool empty() const { return logs.empty() && flights.empty(); }
};

struct RankResult {
  RankReport report;
  RankDigest digest;
  RankDiagnosis diagnosis;
  std::vector<Issue> issues;   ///< of the trace as a whole

  /// A rank is read before its number is known.
  void number(int rank);
};

RankResult reduced(int rank, const Facts& facts, const Thresholds& thresholds, int threads);

Issue issue_of(const TraceIssue& issue);

// What came of reading one unit of an input.

struct UnitOutcome {
  std::optional<Error> error;                ///< a file that the user named cannot be read
  std::vector<std::string> left_out;
  std::vector<InputPart> parts;
  /// Of all parts that are traces, where they are one rank for all that they say themselves.
  std::optional<RankResult> result;
  std::optional<RankOutline> outline;        ///< with the result, where asked for
  std::unique_ptr<TraceFacts> trace;         ///< likewise
  /// First and last step, where the options choose none of them; stays in its process.
  std::optional<std::pair<int64_t, int64_t>> not_chosen = {};
  std::vector<SampleLog> samples;            ///< of parts that are samples, in their order
  JobNotes notes;                            ///< of all parts
};

/// What one of several processes read.
struct ShareRead {
  uint64_t names = 0;                        ///< of all files that it saw
  std::vector<std::pair<size_t, UnitOutcome>> outcomes;   ///< by place of the unit
};

/// For other processes. Samples and notes are left out: whoever needs them reads them again. So are outlines and traces,
/// which nobody asks several processes for.
std::string encoded(const ShareRead& share);
/// The error: not what encoded() wrote.
Result<ShareRead> decoded_share(const std::string& bytes);

// Where the ranks of a job lie, so that one is read again whose trace was dropped.

class RankFiles {
 public:
  RankFiles() = default;
  RankFiles(std::vector<InputUnit> units, std::map<int, std::vector<size_t>> by_rank,
            const std::vector<InputPart>& parts, const std::vector<size_t>& unit_of);

  /// All windows of a rank that is there. The error: its files are not what they were.
  [[nodiscard]] Result<Trace> read(int rank) const;

 private:
  struct Window {
    size_t unit = 0, index = 0;   ///< InputPart::index
    std::string path;
    int64_t events = 0;
    Interval extent;
  };
  std::vector<InputUnit> units_;
  std::map<int, std::vector<Window>> windows_;   ///< of each rank, in order of time
};

// What was read of a job, as a report.

struct JobRead {
  std::vector<InputSource> sources;   ///< in the order of the paths; of a folder, by name
  std::vector<RankResult> ranks;      ///< by rank; none: samples alone
  SampleLog samples;                  ///< of sample files, as they have them
  EnergyRates rates;                  ///< as the user gave them
  MeasuredMachine peaks, machine;     ///< of --peaks; of this machine
  JobNotes notes;
  std::map<std::string, int> stated_ranks;   ///< by path, of dumps beside a log: they are no traces of those ranks
  /// See analyse_ranks(). Null: one rank, or to be worked out.
  std::unique_ptr<const Job> job;
  RankFiles files;                    ///< of the ranks
  std::map<int, RankOutline> outlines;                  ///< by rank, where JobOptions has them made
  std::map<int, std::unique_ptr<TraceFacts>> traces;    ///< by rank, where JobOptions has them kept
};

/// Works out `read.job` of several ranks' digests.
void analyse_ranks(JobRead& read);

/// Those of the ranks' hosts, on the first rank's clock where `read.job` has been worked out; of samples alone all.
JobSamples samples_of_ranks(const JobRead& read);

/// Everything but what is worth doing next.
Report job_report(JobRead read, const Thresholds& thresholds);

}  // namespace profgpu
