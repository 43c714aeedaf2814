#include <gtest/gtest.h>

#include "present/cluster_parts.h"
#include "present/html_report.h"
#include "present/job_overview.h"
#include "present/registry.h"
#include "present/sample_report_test.h"

namespace profgpu {
namespace {

// cluster_report() with a field of its cluster otherwise.
Report with(const std::string& name, Value value) {
  Report report = cluster_report();
  Record cluster = *report.cluster.record();
  for (auto& [key, field] : cluster.fields)
    if (key == name) field = value;
  report.cluster = cluster;
  return report;
}

Report healthy() {
  Report report = with("stragglers", Table{});
  Record cluster = *report.cluster.record();
  std::erase_if(cluster.fields, [](const auto& field) { return field.first == "missing"; });
  report.cluster = cluster;
  return report;
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
  Report report = healthy();
  Record cluster = *report.cluster.record();
  cluster.add("world_size", 64);
  report.cluster = cluster;
  EXPECT_EQ(job_overview(report).title.substr(0, 24), "4 of 64 ranks on 2 hosts");
}

TEST(JobOverview, NamesGroupsAndTheBubble) {
  Record bubble;
  bubble.add("bubble_pct", 51.25);
  Report report = healthy();
  Record cluster = *report.cluster.record();
  for (auto& [key, field] : cluster.fields)
    if (key == "parallelism")
      field = Table{{"kind", "words", "group_size", "groups", "communication_ns_per_step", "exposed_ns_per_step", "detail"},
                    {{"pipeline_parallel", "pipeline parallel: sends", 4, 2, 100, 90, bubble},
                     {"fsdp_or_zero3", "parameters sharded: gathered", 2, 4, 10, 1, Record()},
                     {"unknown", "no pattern that is known: all_gather", 2, 4, 10, 1, Record()}}};
  report.cluster = cluster;
  EXPECT_EQ(job_overview(report).title, "4 ranks on 2 hosts: pipeline parallel in groups of 4 (bubble 51 % of a step), "
                                        "FSDP or ZeRO-3 in groups of 2");
}

TEST(JobOverview, NamesRanksThatNeverCameTogether) {
  EXPECT_EQ(job_overview(cluster_report()).missing,
            (std::vector<std::string>{
                "ranks 1, 3 never arrived at all_reduce 1234 of group 0, step 5: 2 other ranks wait in it to the end of "
                "their traces",
                "rank 0: no record of 2 calls to all_gather of group 1 and later, which 1 other rank made: the trace "
                "lost it, or the rank went another way"}));
}

TEST(JobOverview, SaysWhatAStepWouldTakeAndWhoseClockIsApart) {
  EXPECT_EQ(job_overview(cluster_report()).remarks,
            (std::vector<std::string>{"A step of 176 ms would take 164 ms with rank 2 like the others, at most 167 ms "
                                      "without transfers",
                                      "Clocks: rank 2's is 3.00 ms ahead of the first rank's and drifts by 20 ppm; "
                                      "aligned to within 1.59 µs"}));
  const Table close{{"rank", "offset_ns", "error_ns", "method"}, {{1, -1'500, 200, "collectives"}}};
  EXPECT_EQ(job_overview(with("clocks", close)).remarks.size(), 1u) << "nobody needs to know of 1.5 µs";
}

TEST(JobOverview, SaysThatClocksAreUncertain) {
  const Table vague{{"rank", "offset_ns", "error_ns", "method"}, {{1, 0, 28'900'000, "collectives"}}};
  EXPECT_EQ(job_overview(with("clocks", vague)).notes.back(),
            "clocks are known to within 28.9 ms only, so waits for each other are as uncertain");
  const Table by_steps{{"rank", "offset_ns", "error_ns", "method"}, {{1, 0, 28'900'000, "steps"}}};
  EXPECT_EQ(job_overview(with("clocks", by_steps)).notes.size(), 1u) << "the report's own note says it";
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
  for (const RankOverview& rank : rank_overviews(report)) ranks.push_back(rank.rank);
  return ranks;
}

TEST(RankOverviews, BeginWithLateRanksThenLongSteps) {
  EXPECT_EQ(order(cluster_report()), (std::vector{2, 0, 1, 3})) << "steps that are alike tell nothing";
  const Record means{{{"0", 100}, {"1", 300}, {"2", 200}, {"3", 400}}};
  EXPECT_EQ(order(with("step_mean_ns_by_rank", means)), (std::vector{2, 3, 1, 0}));
}

TEST(RankOverviews, TheFirstScreenLooksIntoAWholeRankWithADevice) {
  Report report = with("stragglers", Table{});
  EXPECT_EQ(rank_in_focus(report)->rank, 0);
  for (const char* kind : {"truncated", "dropped"}) {
    Report damaged = report;
    damaged.inputs.push_back({.path = "r0", .format = "", .summary = "", .rank = 0, .issues = {{kind, 1, Severity::kWarning, "cut"}}});
    EXPECT_EQ(rank_in_focus(damaged)->rank, 2) << kind << ": rank 1 is damaged too";
  }
  report.ranks[0].sections.clear();
  EXPECT_EQ(rank_in_focus(report)->rank, 2);
  for (RankReport& rank : report.ranks) rank.sections.clear();
  EXPECT_EQ(rank_in_focus(report)->rank, 0) << "none is better";
}

TEST(RankOverviews, AFindingThatNamesItsRanksIsNotNamedTwice) {
  Finding finding;
  finding.ranks = {2};
  finding.what = "the loader is slow";
  EXPECT_EQ(ranks_concerned(cluster_report(), finding), "rank 2");
  finding.what = "rank 2 on node-b arrives late";
  EXPECT_EQ(ranks_concerned(cluster_report(), finding), "");
}

TEST(ClusterParts, AreReadable) {
  EXPECT_EQ("\n" + section(cluster_report(), 80), R"(
4 ranks on 2 hosts: data parallel (DDP)
- ranks 1, 3 never arrived at all_reduce 1234 of group 0, step 5: 2 other ranks
  wait in it to the end of their traces
- rank 0: no record of 2 calls to all_gather of group 1 and later, which 1 other
  rank made: the trace lost it, or the rank went another way
- rank 3: nothing ties its clock to rank 0's
rank  host    mean step  GPU busy
   2  node-b     176 ms    71.2 %  late by 12.3 ms a step (7 %): slow input
   0  node-a     176 ms    71.2 %
   1  node-a     176 ms    71.2 %
   3  node-b     176 ms    71.2 %

Rank 2 beside the others: slow input
- late in 4 of 5 steps, most in step 4: 14.0 ms
- data loading 15.6 ms a step, others 3.30 ms
a step's       rank 2   others' median
data loading   15.6 ms  3.30 ms
kernels        160      160
SM clock, MHz  –        1,980

What if
- At most: not all ranks of all collectives are in the input.
a step                       would take    saved  of step
without transfers, at most       167 ms  9.00 ms    5.1 %
with launches in time            176 ms   100 µs    0.1 %
with rank 2 like the others      164 ms  12.1 ms    6.9 %

What set the pace: the chain of work behind the length of 5 steps
- 95 % on rank 2, 5 % on rank 0
- not looked at: rank 3
time spent on   total  of steps
compute        700 ms    79.5 %
transfers      180 ms    20.5 %

The longest step, 4 (179 ms): its longest stretches
     at  rank  time spent on    lasts  call
30.0 ms     2  compute         140 ms
   0 ns     2  data loading   30.0 ms
 170 ms     0  transfer       9.00 ms  all_reduce

How the ranks share the work, for each step
- data parallel (DDP): gradients all-reduced in buckets; 5 buckets a step of
  24.0 MiB; the last ends 569 µs after the last compute beside it; each group
  spans 2 hosts; told by the pattern of calls, not by names
                     groups        calls    moved    takes  exposed  hidden
data parallel (DDP)  1 of 4 ranks      5  194 MiB  20.0 ms  9.00 ms  55.0 %

Collectives by size, all ranks together
- Some calls lack ranks of their group here: waits are lower bounds, rates are
  of whole calls.
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

TEST(ClusterParts, WithoutAnythingKnownThereAreRanks) {
  Report report = cluster_report();
  report.cluster = Record{{{"ranks", 4}}};
  const std::vector<ClusterPart> parts = cluster_parts(report, 10);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].table.rows.size(), 4u);
  EXPECT_TRUE(cluster_parts(sample_report(), 10).empty());
}

TEST(ClusterParts, TopLimitsRowsAndLateRanks) {
  Table late = *cluster_field(cluster_report(), "stragglers").table();
  late.rows.resize(3, late.rows.front());
  late.rows[1][0] = 0;
  late.rows[2][0] = 1;
  const Report report = with("stragglers", late);
  EXPECT_EQ(cluster_parts(report, 0).size(), cluster_parts(report, 1).size() + 2);
  const std::string text = section(report, 80, 1);
  EXPECT_NE(text.find("Rank 2 beside the others"), std::string::npos);
  EXPECT_EQ(text.find("Rank 1 beside the others"), std::string::npos);
  EXPECT_NE(text.find("… and 3 more: --top 0 shows all"), std::string::npos);
  EXPECT_NE(text.find("- … and 1 other call without all ranks"), std::string::npos);
}

TEST(ClusterParts, MarkdownAndHtmlSayTheSame) {
  const std::string markdown = section(cluster_report(), 80, 10, "markdown");
  const std::string html = html_report(cluster_report(), {});
  for (const char* said : {"Rank 2 beside the others: slow input", "What if", "Collectives by size", "Sends from rank to rank"}) {
    EXPECT_NE(markdown.find(said), std::string::npos) << said;
    EXPECT_NE(html.find(said), std::string::npos) << said;
  }
  EXPECT_NE(markdown.find("| with rank 2 like the others | 164 ms | 12.1 ms | 6.9 % |"), std::string::npos) << markdown;
  EXPECT_EQ(markdown.find("null"), std::string::npos);
  EXPECT_NE(html.find("never arrived at all_reduce 1234"), std::string::npos);
}

}  // namespace
}  // namespace profgpu
