#include <gtest/gtest.h>

#include "view/document.h"
#include "view/overview.h"
#include "view/registry.h"
#include "view/sample_report_test.h"

namespace profgpu {
namespace {

// cluster_report() with a job that is otherwise.
template <class Change>
Report with(Change change) {
  Job job = *cluster_report().job;
  change(job);
  return with_job(cluster_report(), std::move(job));
}

Report healthy() {
  return with([](Job& job) { job.stragglers.clear(), job.missing.clear(); });
}

std::string section(const Report& report, int width, int top = 10, const char* presenter = "terminal") {
  PresentOptions options;
  options.width = width;
  options.top = top;
  options.section = "cluster";
  return find_presenter(presenter)->write(report, options);
}

TEST(JobOverview, NamesTheKindOfJob) {
  EXPECT_EQ(job_overview(healthy()).title, "4 ranks on 2 hosts: data parallel (DDP), 55 % of communication hidden");
  EXPECT_EQ(job_overview(cluster_report()).title, "4 ranks on 2 hosts: data parallel (DDP)")
      << "what others wait for a late rank is not communication that could be hidden";
  EXPECT_EQ(job_overview(sample_report()).title, "");
}

TEST(JobOverview, SaysHowManyRanksAreNotHere) {
  const Report report = with([](Job& job) { job.world_size = 64; });
  EXPECT_EQ(job_overview(report).title.substr(0, 24), "4 of 64 ranks on 2 hosts");
}

TEST(JobOverview, NamesGroupsAndTheBubble) {
  const Report report = with([](Job& job) {
    const auto way = [](ParallelKind kind, int64_t size, int64_t groups) {
      Parallelism p;
      p.kind = kind, p.group_size = size, p.groups = groups, p.ranks = {0, 1, 2, 3}, p.communication_ns_per_step = 100;
      return p;
    };
    job.stragglers.clear(), job.missing.clear();
    job.parallelism = {way(ParallelKind::kPipeline, 4, 2), way(ParallelKind::kFsdpOrZero3, 2, 4),
                       way(ParallelKind::kUnknown, 2, 4)};
    job.parallelism.front().pipeline.emplace().bubble_pct = 51.25;
  });
  EXPECT_EQ(job_overview(report).title, "4 ranks on 2 hosts: pipeline parallel in groups of 4 (bubble 51 % of a step), "
                                        "FSDP or ZeRO-3 in groups of 2");
}

TEST(JobOverview, NamesRanksThatNeverCameTogether) {
  EXPECT_EQ(
      job_overview(cluster_report()).missing,
      (std::vector<std::string>{
          "ranks 1, 3 never arrived at all_reduce 1234 of group 0, step 5: 2 other ranks wait in it to the end of "
          "their traces",
          "rank 0: no record of 2 calls to all_gather of group 1 and later, which 1 other rank made: the trace "
          "lost it, or the rank took another branch"}));
}

TEST(JobOverview, SaysWhatAStepWouldTakeAndWhoseClockIsApart) {
  EXPECT_EQ(job_overview(cluster_report()).remarks,
            (std::vector<std::string>{"A step of 176 ms would take 164 ms with rank 2 like the others, at most 167 ms "
                                      "without transfers",
                                      "Clocks: rank 2's is 3.00 ms ahead of the first rank's and drifts by 20 ppm; "
                                      "aligned to within 1.59 µs"}));
  const Report close =
      with([](Job& job) { job.clocks = {{.rank = 1, .offset_ns = -1'500, .error_ns = 200, .method = "collectives"}}; });
  EXPECT_EQ(job_overview(close).remarks.size(), 1u) << "nobody needs to know of 1.5 µs";
}

TEST(JobOverview, SaysThatClocksAreUncertain) {
  const auto vague = [](const char* method) {
    return with([&](Job& job) { job.clocks = {{.rank = 1, .error_ns = 28'900'000, .method = method}}; });
  };
  EXPECT_EQ(job_overview(vague("collectives")).notes.back(),
            "clocks are aligned only to within 28.9 ms, so waits of ranks for each other are as uncertain");
  EXPECT_EQ(job_overview(vague("steps")).notes.size(), 1u) << "the report's own note says it";
}

TEST(JobOverview, FirstScreenNamesTheWorstFirst) {
  PresentOptions options;
  options.width = 80;
  const std::string text = find_presenter("terminal")->write(cluster_report(), options);
  EXPECT_NE(text.find("4 ranks on 2 hosts: data parallel (DDP)\n"
                      "  ! ranks 1, 3 never arrived at all_reduce 1234 of group 0, step 5: 2 other\n"),
            std::string::npos) << text;
  EXPECT_NE(text.find("  ! rank 3: nothing ties its clock to rank 0's\n"), std::string::npos) << text;
}

std::vector<int> order(const Report& report) {
  std::vector<int> ranks;
  for (const RankStanding& rank : report.standings) ranks.push_back(rank.rank);
  return ranks;
}

TEST(RankStandings, BeginWithLateRanksThenLongSteps) {
  EXPECT_EQ(order(cluster_report()), (std::vector{2, 0, 1, 3})) << "steps that are alike tell nothing";
  EXPECT_EQ(order(with([](Job& job) { job.step_mean_ns = {{0, 100}, {1, 300}, {2, 200}, {3, 400}}; })),
            (std::vector{2, 3, 1, 0}));
}

TEST(RankStandings, TheFirstScreenLooksIntoAWholeRankWithADevice) {
  Report report = with([](Job& job) { job.stragglers.clear(); });
  const auto in_focus = [](Report of) {
    compare_ranks(of);
    return of.rank_in_focus()->rank;
  };
  EXPECT_EQ(in_focus(report), 0);
  for (const char* kind : {"truncated", "dropped"}) {
    Report damaged = report;
    damaged.inputs.push_back(
        {.path = "r0", .format = "", .summary = "", .rank = 0, .issues = {{kind, 1, Severity::kWarning, "cut"}}});
    EXPECT_EQ(in_focus(damaged), 2) << kind << ": rank 1 is damaged too";
  }
  report.ranks[0].devices.clear();
  EXPECT_EQ(in_focus(report), 2);
  for (RankReport& rank : report.ranks) rank.devices.clear();
  EXPECT_EQ(in_focus(report), 0) << "none is better";
}

TEST(RankStandings, AMeanStepThatTheHangIsInSaysSo) {
  EXPECT_FALSE(cluster_report().ranks[0].average_step->includes_hang) << "176.5 ms are not more than 1 % above 176";
  EXPECT_TRUE(with([](Job& job) { job.step_mean_ns[0] = 170'000'000; }).ranks[0].average_step->includes_hang);
  EXPECT_FALSE(with([](Job& job) { job.step_mean_ns[0] = 170'000'000, job.missing.clear(); })
                   .ranks[0]
                   .average_step->includes_hang);
}

TEST(RankStandings, AFindingThatNamesItsRanksIsNotNamedTwice) {
  Finding finding;
  finding.ranks = {2};
  finding.what = "the loader is slow";
  EXPECT_EQ(ranks_concerned(cluster_report(), finding), "rank 2");
  finding.names_ranks = true;
  EXPECT_EQ(ranks_concerned(cluster_report(), finding), "");
}

TEST(ReportParts, AreReadable) {
  EXPECT_EQ("\n" + section(cluster_report(), 80), R"(
4 ranks on 2 hosts: data parallel (DDP)
- ranks 1, 3 never arrived at all_reduce 1234 of group 0, step 5: 2 other ranks
  wait in it to the end of their traces
- rank 0: no record of 2 calls to all_gather of group 1 and later, which 1 other
  rank made: the trace lost it, or the rank took another branch
- rank 3: nothing ties its clock to rank 0's
rank  host    mean step  GPU busy
   2  node-b     176 ms    71.2 %  late by 12.3 ms per step (7 %): slow input
   0  node-a     176 ms    71.2 %
   1  node-a     176 ms    71.2 %
   3  node-b     176 ms    71.2 %

Rank 2 compared with the others: slow input
- late in 4 of 5 steps, most in step 4: 14.0 ms
- data loading 15.6 ms a step, others 3.30 ms
a step's       rank 2   others' median
data loading   15.6 ms  3.30 ms
kernels        160      160
SM clock, MHz  –        1,980

What if
- At most: not all ranks of all collectives are in the input.
a step                         would take    saved  of step
without transfers, at most         167 ms  9.00 ms    5.1 %
if work were launched in time      176 ms   100 µs    0.1 %
with rank 2 like the others        164 ms  12.1 ms    6.9 %

Critical path: the chain of work that sets the length of 5 steps
- 95 % on rank 2, 5 % on rank 0
- not examined: rank 3
time spent on   total  of steps
compute        700 ms    79.5 %
transfers      180 ms    20.5 %

The longest step, 4 (179 ms): its longest segments
     at  rank  time spent on    lasts  call
30.0 ms     2  compute         140 ms
   0 ns     2  data loading   30.0 ms
 170 ms     0  transfer       9.00 ms  all_reduce

How the ranks share the work, for each step
- data parallel (DDP): gradients all-reduced in buckets; 5 buckets per step of
  24.0 MiB; the last ends 569 µs after the last overlapping compute; each group
  spans 2 hosts; inferred from the pattern of calls, not from names
                     groups        calls    moved    takes  exposed  hidden
data parallel (DDP)  1 of 4 ranks      5  194 MiB  20.0 ms  9.00 ms  55.0 %

Collectives by size, all ranks together
- Some calls are without all ranks of their group: waits are lower bounds, rates
  are of complete calls.
name        ranks  over     calls   message     wait  transfer     busbw
all_reduce      4  network     25  24.0 MiB  1.77 ms    128 µs  346 GB/s

Sends from rank to rank, times of the mean call
from  to  calls   message  receiver waits  sender waits  transfer      rate
   0   2     20  16.0 MiB          660 µs          0 ns   54.0 µs  311 GB/s

Clocks, against the first rank's
ranks  host    is ahead  to within  drift ppm  aligned by
0–1    node-a      0 ns     200 ns          0  reference
2      node-b   3.00 ms    1.59 µs        -20  collectives
3      node-b      –          –             –  none
)");
}

TEST(ReportParts, WithoutAnythingKnownThereAreRanks) {
  const std::vector<ReportPart> parts = cluster_parts(with([](Job& job) { job = Job(); }), 10);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].table.rows.size(), 4u);
  EXPECT_TRUE(cluster_parts(sample_report(), 10).empty());
}

TEST(ReportParts, TopLimitsRowsAndLateRanks) {
  const Report report = with([](Job& job) {
    job.stragglers.resize(3, job.stragglers.front());
    job.stragglers[1].rank = 0;
    job.stragglers[2].rank = 1;
  });
  EXPECT_EQ(cluster_parts(report, 0).size(), cluster_parts(report, 1).size() + 2);
  const std::string text = section(report, 80, 1);
  EXPECT_NE(text.find("Rank 2 compared with the others"), std::string::npos);
  EXPECT_EQ(text.find("Rank 1 compared with the others"), std::string::npos);
  EXPECT_NE(text.find("… and 3 more: --top 0 shows all"), std::string::npos);
  EXPECT_NE(text.find("- … and 1 other call without all ranks"), std::string::npos);
}

TEST(ReportParts, MarkdownAndHtmlSayTheSame) {
  const std::string markdown = section(cluster_report(), 80, 10, "markdown");
  const std::string html = html_report(cluster_report(), {});
  for (const char* said :
       {"Rank 2 compared with the others: slow input", "What if", "Collectives by size", "Sends from rank to rank"}) {
    EXPECT_NE(markdown.find(said), std::string::npos) << said;
    EXPECT_NE(html.find(said), std::string::npos) << said;
  }
  EXPECT_NE(markdown.find("| with rank 2 like the others | 164 ms | 12.1 ms | 6.9 % |"), std::string::npos) << markdown;
  EXPECT_EQ(markdown.find("null"), std::string::npos);
  EXPECT_NE(html.find("never arrived at all_reduce 1234"), std::string::npos);
}

}  // namespace
}  // namespace profgpu
