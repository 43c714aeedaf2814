#include <gtest/gtest.h>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "view/registry.h"
#include "view/sample_report_test.h"
#include "view/terminal.h"
#include "view/wording.h"

namespace profgpu {
namespace {

std::string show(const Report& report, int width, const std::string& section = "", int top = 10, bool colour = false) {
  PresentOptions options;
  options.width = width;
  options.section = section;
  options.top = top;
  options.colour = colour;
  return find_presenter("terminal")->write(report, options);
}

std::vector<Report> all_reports() {
  return {Report(), sample_report(), cpu_only_report(), cluster_report(), hostile_report()};
}

TEST(Terminal, FirstScreen) {
  EXPECT_EQ("\n" + show(sample_report(), 100), R"(
worker0.pt.trace.json.gz   PyTorch trace, 75,718 events, 6 steps (1 warm-up left out)
  Tesla V100-DGXS-32GB

The GPU waits for data: loading takes 40 % of each step. Without the wait a step would take about
108 ms instead of 176 (1.6 times as fast).

A step of 176 ms                                      GPU 0, 1.05 s
  data loading  ███████████▏       70.1 ms  39.7 %      busy              █████████████████  60.6 %
  forward       ████▌              28.2 ms  16.0 %      idle              ███████████▏       39.4 %
  backward      ██████████▍        65.1 ms  36.9 %        data loading    ██████████▏        36.1 %
  optimizer     █▉                 11.8 ms   6.7 %        host bound      ▋                   2.2 %
  other         ▎                  1.41 ms   0.8 %        launch latency  ▎                   1.1 %
                                                        copies 0.3 %

Findings, most important first                                                         cost per step
◆ data-loading-bound   one process decodes every batch while the GPU idles               68 ms  39 %
    → DataLoader(…, num_workers=4, pin_memory=True, persistent_workers=True)
      seen in 6 of 6 steps; longest wait 71.4 ms in
      enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
▲ full-precision-gemm  84 % of convolution and matrix time runs without tensor         not estimated
                       cores
    → with torch.autocast("cuda", dtype=torch.float16): …
○ unfused-optimizer    483 small kernels a step in Optimizer.step#SGD                  not estimated
    → torch.optim.SGD(…, fused=True)

Checklist   ✗ GPU busy 60.6 % (over 80)   ✗ data loading 39.7 % (under 10)
            ✓ memory headroom 41 % (over 10)   · communication (one GPU)   ✗ mixed precision
            ✗ torch.compile   ✗ fused optimizer   ? gradient accumulation

Top kernels                                       calls    total     mean  of kernels
  volta_scudnn_128x128_relu_small_nn                180   152 ms   846 µs      23.9 %
  bn_bw_1C11_new                                    318  88.1 ms   277 µs      13.8 %
  vectorized_elementwise threshold                1,960  61.0 ms  31.1 µs       9.6 %
  volta_sgemm_128x64_nt                              12  8.40 ms   700 µs       1.3 %
  … and 1 more: --section kernels

Top ops                                                        calls  CPU self   on GPU
  enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__      6    401 ms     0 ns
  aten::cudnn_convolution                                        318   38.7 ms   152 ms
  aten::add_                                                   5,796   22.9 ms  61.0 ms

Next: profgpu explain data-loading-bound  ·  profgpu analyze worker0.pt.trace.json.gz --section idle
)");
}

TEST(Terminal, AFindingThatIsHiddenSavesNothing) {
  Report report = sample_report();
  report.findings.at(1).cost_ns = 0;
  report.findings.at(1).cost_pct = 0;
  const std::string text = show(report, 100, "findings");
  EXPECT_NE(text.find("without tensor         saves nothing\n"), std::string::npos) << text;
}

// A file or a pipe gets all of them, as `--all` promises.
TEST(Terminal, EveryFindingIsShownWithWhatToChange) {
  Report report = sample_report();
  for (int i = 0; i < 8; ++i) {
    Finding small = report.findings.back();
    small.severity = Severity::kInfo;
    small.cost_ns = 1000;
    small.cost_pct = 0.1;
    small.fix = {"change number " + std::to_string(i)};
    report.findings.push_back(small);
  }
  const std::string text = show(report, 100);
  for (int i = 0; i < 8; ++i) EXPECT_NE(text.find("→ change number " + std::to_string(i)), std::string::npos) << text;
  EXPECT_EQ(text.find("minor"), std::string::npos);
}

TEST(Terminal, NoLineIsWiderThanTheScreen) {
  for (const Report& report : all_reports()) {
    std::vector<std::string> sections = section_names(report);
    sections.emplace_back();
    for (const std::string& section : sections)
      for (int width = 60; width <= 200; width += section.empty() ? 1 : 14) {
        const std::string text = show(report, width, section);
        // But for commands, which are there to be copied.
        const std::string_view before = std::string_view(text).substr(0, text.rfind("\nNext: "));
        for (const std::string_view line : lines_of(before))
          ASSERT_LE(display_width(line), width) << section << ": " << line;
      }
  }
}

TEST(Terminal, OnANarrowScreenFiguresAreWhole) {
  const auto is_cut = [](std::string_view line) {   // within a number or its unit
    const size_t end = line.find_last_not_of(' ');
    return end != line.npos && line.substr(0, end + 1).ends_with("…");
  };
  for (const int width : {30, 36, 44, 50}) {
    const std::string text = show(sample_report(), width);
    for (const char* cost : {"cost per step", "not estimated"})
      EXPECT_NE(text.find(cost), std::string::npos) << width << '\n' << text;
    const size_t begin = text.find("\nA step of "), end = text.find("Findings, most");
    ASSERT_LT(begin, end) << text;
    const std::string step = text.substr(begin + 1, end - begin);
    for (const std::string_view line : lines_of(step))
      if (line.starts_with("  ") && line.ends_with("%")) {
        EXPECT_LE(display_width(line), width) << line;
      }
    for (const std::string_view line : lines_of(step))
      EXPECT_FALSE(line.starts_with("  ") && is_cut(line)) << width << ": " << line;
  }
}

TEST(Terminal, OnANarrowScreenTheChecklistLeavesOutLimits) {
  Report report;
  report.checklist.push_back({"memory-headroom", "", Verdict::kPass, 99.9, 10, "memory headroom 99.9 % (over 10)"});
  PresentOptions options;
  const auto checklist = [&](int width) {
    options.width = width;
    return rendered(checklist_lines(report, options), width, false);
  };
  EXPECT_EQ(checklist(60), "Checklist   ✓ memory headroom 99.9 % (over 10)\n");
  EXPECT_EQ(checklist(40), "Checklist   ✓ memory headroom 99.9 %\n");
}

TEST(Terminal, NextCommandsAreNeverCut) {
  Report report = sample_report();
  const std::string command =
      "profgpu analyze /data/" + std::string(90, 'x') + "/rank0.pt.trace.json.gz --section idle";
  report.next = {"profgpu explain data-loading-bound", command, "profgpu rules", "profgpu formats"};
  const std::string text = show(report, 80, "");
  EXPECT_EQ(text.substr(text.rfind("\nNext: ")), "\nNext: profgpu explain data-loading-bound\n      " + command +
                                                     "\n      profgpu rules  ·  profgpu formats\n");
}

TEST(Terminal, NothingInATraceReachesTheTerminal) {
  std::vector<std::string> sections = section_names(hostile_report());
  sections.emplace_back();
  for (const std::string& section : sections)
    for (const int width : {0, 60, 100}) {
      const std::string text = show(hostile_report(), width, section, 0);
      EXPECT_EQ(text, [&] {
        std::string clean;
        for (const std::string_view line : lines_of(text)) clean += sanitised(line) + "\n";
        return clean;
      }()) << section;
    }
}

TEST(Terminal, OneHugeNameDoesNotFillTheScreen) {
  const std::string text = show(hostile_report(), 80);
  EXPECT_LT(lines_of(text).size(), 130u);
}

TEST(Terminal, ColourChangesNothingButColour) {
  for (const Report& report : all_reports()) {
    const std::string coloured = show(report, 100, "", 10, true);
    std::string stripped;
    for (size_t i = 0; i < coloured.size(); ++i) {
      if (coloured[i] == '\x1b') i = coloured.find('m', i);
      else stripped += coloured[i];
    }
    EXPECT_EQ(stripped, show(report, 100));
    EXPECT_EQ(show(report, 100).find('\x1b'), std::string::npos);
  }
}

TEST(Terminal, UnknownIsNeverShownAsZero) {
  Report report = sample_report();
  RankReport& rank = report.ranks.front();
  rank.launch = {}, rank.memory = {}, rank.average_step.reset();
  for (PhaseRow& phase : rank.phases) phase.device_busy_ns.reset();
  for (const char* section : {"launch", "memory", "steps", "collectives", "average_step"}) {
    const std::string text = show(report, 100, section);
    for (const char* zero : {" 0 ns", " 0.0 %", " 0 B"}) EXPECT_EQ(text.find(zero), std::string::npos) << text;
  }
  EXPECT_EQ(show(report, 100).find("A step of"), std::string::npos);
}

TEST(Terminal, SaysNothingAboutWhatIsNotThere) {
  EXPECT_EQ(show(Report(), 100), "");
  const std::string text = show(cpu_only_report(), 100);
  EXPECT_EQ(text.find("GPU 0"), std::string::npos);
  EXPECT_EQ(text.find("Top kernels"), std::string::npos);
  EXPECT_NE(text.find("! no GPU activity"), std::string::npos);
  EXPECT_NE(text.find("data loading"), std::string::npos);
  EXPECT_NE(text.find("aten::addmm"), std::string::npos);
  EXPECT_EQ(show(sample_report(), 100).find("  communication  "), std::string::npos);
}

TEST(Terminal, TracesWithoutStepsCostNothingAStep) {
  Report report = sample_report();
  RankReport& rank = report.ranks.front();
  rank.steps.steps.resize(1);
  rank.steps.steps.front().name = "trace";
  rank.steps.annotated = false;
  rank.average_step->duration_ns = 1'050'000'000;
  report.measured_steps = 1;
  report.warmup_steps = 0;
  const std::string text = show(report, 100);
  EXPECT_NE(text.find("The whole trace, 1.05 s"), std::string::npos);
  EXPECT_NE(text.find("no steps marked"), std::string::npos);
  EXPECT_EQ(text.find("a step\n"), std::string::npos);
  EXPECT_NE(text.find("340 ms"), std::string::npos);
}

TEST(Terminal, ShowsTheRankThatIsLate) {
  const std::string text = show(cluster_report(), 100);
  EXPECT_NE(text.find("4 ranks on 2 hosts"), std::string::npos);
  EXPECT_NE(text.find("late by 12.3 ms per step (7 %): slow input"), std::string::npos);
  EXPECT_NE(text.find("A step of 176 ms, rank 2"), std::string::npos);
  EXPECT_NE(text.find("GPU 1 busy"), std::string::npos);
  EXPECT_NE(text.find("rank 2: one process"), std::string::npos);
  EXPECT_NE(text.find("! run7/rank1.json.gz ends"), std::string::npos);
}

TEST(Terminal, TellsWhyTheDeviceIdlesThatTheFirstFindingNames) {
  Report report = cluster_report();
  EXPECT_NE(show(report, 100).find("GPU 1 idle"), std::string::npos) << "the busiest";
  report.findings.front().seen.device = 0;
  const std::string text = show(report, 100);
  EXPECT_NE(text.find("GPU 0 idle"), std::string::npos) << text;
  EXPECT_EQ(text.find("GPU 1 idle"), std::string::npos) << text;
}

TEST(Section, IsAWholeTable) {
  EXPECT_EQ(show(sample_report(), 100, "idle"), R"(Idle time by cause
device  cause             total  count  at the ends  of window  longest        edges
     0  launch latency  11.5 ms  1,234         0 ns      1.1 %  –              –
     0  data loading     379 ms      6         0 ns     36.1 %  up to 71.4 ms  –
     0  host bound      23.5 ms    412         0 ns      2.2 %  –              –

Idle time by cause, data loading: longest   times count from the first step
     start  duration  after        before      host
0.001000 s   71.4 ms  Memcpy HtoD  cudnn_relu  enumerate(DataLoader)#_SingleProcessDataLoaderIter._…
0.600123 s   69.8 ms  Memcpy HtoD  cudnn_relu  –
)");
  EXPECT_NE(show(sample_report(), 100, "kernels", 2).find("… and 3 more: --top 0 shows all"), std::string::npos);
  EXPECT_EQ(show(sample_report(), 100, "kernels", 0).find("more"), std::string::npos);
  EXPECT_EQ(show(sample_report(), 100, "collectives"), "Collectives: nothing in this trace\n");
}

TEST(Section, NamesAreThoseOfTheReport) {
  EXPECT_TRUE(has_section(sample_report(), "kernels"));
  EXPECT_TRUE(has_section(sample_report(), "findings"));
  EXPECT_FALSE(has_section(sample_report(), "cluster"));
  EXPECT_TRUE(has_section(cluster_report(), "cluster"));
  EXPECT_FALSE(has_section(sample_report(), "nonsense"));
  EXPECT_NE(show(sample_report(), 100, "nonsense").find("It has: findings, checklist"), std::string::npos);
}

TEST(Section, OfAnotherKindOfInputNamesThoseThatThereAre) {
  const std::string text = show(sample_report(), 400, "hang");
  EXPECT_TRUE(text.starts_with("This input has nothing for --section hang (NCCL flight recorder dumps). It has: ")) << text;
  EXPECT_NE(text.find("kernels"), std::string::npos);
  for (const std::string& name : section_names(sample_report())) {
    EXPECT_NE(std::ranges::find(kReportSections, name), std::end(kReportSections)) << name << " is no value of --section";
    EXPECT_NE(show(sample_report(), 100, name), name + "\n  –\n");
  }
  EXPECT_EQ(text.find("snapshot"), std::string::npos) << "there is none";
}

// Blocks of lines between empty ones.
std::vector<std::vector<std::string>> blocks_of(const std::string& text) {
  std::vector<std::vector<std::string>> blocks(1);
  for (const std::string_view line : lines_of(text)) {
    if (!line.empty()) blocks.back().emplace_back(line);
    else if (!blocks.back().empty()) blocks.emplace_back();
  }
  return blocks;
}

TEST(Brief, FitsAndHasNoHeadingWithoutRows) {
  for (const Report& report : {sample_report(), cpu_only_report(), cluster_report()})
    for (int width = 80; width <= 200; ++width) {
      const std::string text = show(report, width, "brief");
      EXPECT_LE(std::ranges::count(text, '\n'), 23) << width << "\n" << text;
      for (const auto& block : blocks_of(text))
        if (!block.empty() && block.back().starts_with("  … and ")) {
          EXPECT_GE(block.size(), 4U) << width << "\n" << text;
        }
    }
}

TEST(Brief, KeepsTheLargestPhasesAndWhatTheGpuDid) {
  Report report = sample_report();
  report.verdict = std::string(3 * 79, 'x');   // leaves little room
  std::ranges::reverse(report.ranks.front().average_step->phases);
  const std::string text = show(report, 80, "brief");
  for (const char* row : {"\n  data loading ", "\n  backward ", "busy ", "idle "})
    EXPECT_NE(text.find(row), std::string::npos) << row << "\n" << text;
  EXPECT_EQ(text.find("\n  other"), std::string::npos) << text;
}

TEST(Brief, CountsNotesForWhichThereIsNoRoom) {
  Report report = sample_report();
  for (int i = 0; i < 3; ++i)
    report.inputs.front().issues.push_back({"cut", 1, Severity::kWarning, "something is missing: " + std::string(100, 'x')});
  EXPECT_NE(show(report, 100, "brief").find("\n! 3 notes about the input: --all\n"), std::string::npos)
      << show(report, 100, "brief");
}

TEST(Terminal, WorkThatIsNotRecordedIsNeitherBusyNorIdle) {
  Report report = sample_report();
  report.ranks.front().use.front().idle.front().cause = IdleCause::kUntracedWork;
  const std::string text = show(report, 80);
  EXPECT_NE(text.find("  not recorded "), std::string::npos) << text;
  EXPECT_NE(text.find(" 3.3 %"), std::string::npos) << "39.4 without 36.1\n" << text;
  EXPECT_EQ(text.find("untraced work"), std::string::npos) << text;
}

TEST(Terminal, SharesOfAStepAreOfTheTimeInItsTitle) {
  Report report = sample_report();
  AverageStep& step = *report.ranks.front().average_step;
  step.elapsed_ns = 2 * step.duration_ns;
  const std::string text = show(report, 80);
  EXPECT_NE(text.find("GPU finishing"), std::string::npos) << text;
  EXPECT_NE(text.find("50.0 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("100 % ="), std::string::npos);
}

TEST(Terminal, ACommandToCopyIsNeverCut) {
  Report report = sample_report();
  const std::string command = "ncu --set full --kernel-name " + std::string(90, 'k') + " python train.py";
  report.findings.front().fix = {"profile it: " + command};
  EXPECT_NE(show(report, 80).find("\n      " + command + "\n"), std::string::npos) << show(report, 80);
  EXPECT_NE(show(report, 80, "brief").find("profile it: --section findings has the command"), std::string::npos);
}

TEST(Wording, TitlesAndRanges) {
  EXPECT_EQ(column_title("total_ns"), "total");
  EXPECT_EQ(column_title("cpu_self_ns"), "CPU self");
  EXPECT_EQ(column_title("growth_bytes_per_step"), "growth per step");
  EXPECT_EQ(number_ranges({7, 0, 1, 2, 3}), "0–3, 7");
  EXPECT_EQ(number_ranges({0, 2, 4, 6, 8, 10, 12, 14}), "0, 2, 4, 6, 8, 10 and 2 more");
  EXPECT_EQ(cell_text("name", "my_range", {}), "my_range");
  EXPECT_EQ(cell_text("cause", "host_bound", {}), "host bound");
}

TEST(Registry, FindsPresentersByName) {
  EXPECT_EQ(presenters().size(), 6u);
  EXPECT_EQ(find_presenter("markdown")->name, "markdown");
  EXPECT_EQ(find_presenter("pdf"), nullptr);
}

}  // namespace
}  // namespace profgpu
