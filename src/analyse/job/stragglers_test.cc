#include "analyse/job/stragglers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>

#include "analyse/job/job.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

constexpr int64_t kStep = 1'000'000;

/// What one rank does in one step: it loads, saves or allocates, its host does something else, then it computes in five
/// equal kernels, one for its experts and a few more, and meets the others.
struct Work {
  int64_t load_ns = 50'000, save_ns = 0, allocate_ns = 0, host_ns = 0, compute_ns = 500'000, experts_ns = 0;
  int64_t extra_ns = 0;
};

/// Collectives of a step after its compute, one after the other. `group`: of a rank.
struct Exchange {
  std::function<std::vector<int>(int)> group;
  int64_t transfer_ns = 20'000;
  std::function<int64_t(const std::vector<int>&)> transfer_of = nullptr;
};

class StragglersTest : public testing::Test {
 protected:
  struct Plan {
    int ranks = 4, steps = 6, ranks_per_host = 0;   // 0: hosts have no name
    int epoch = 1'000;                              // steps, whose numbers begin anew with each
    std::function<Work(int rank, int step)> work = [](int, int) { return Work(); };
    std::vector<Exchange> exchanges = {};
    std::function<void(int rank, Trace&)> change = nullptr;
    SampleLog samples = {};
  };

  static Exchange everyone(int ranks) {
    return {[ranks](int) {
      std::vector<int> all;
      for (int r = 0; r < ranks; ++r) all.push_back(r);
      return all;
    }};
  }

  /// Four ranks each, one after the other.
  static Exchange tensor_groups(std::function<int64_t(const std::vector<int>&)> transfer_of = nullptr) {
    return {[](int rank) {
              const int first = rank / 4 * 4;
              return std::vector<int>{first, first + 1, first + 2, first + 3};
            },
            20'000, std::move(transfer_of)};
  }
  /// One rank of each of so many tensor groups.
  static Exchange data_groups(int groups, std::function<int64_t(const std::vector<int>&)> transfer_of = nullptr) {
    return {[groups](int rank) {
              std::vector<int> all;
              for (int g = 0; g < groups; ++g) all.push_back(rank % 4 + 4 * g);
              return all;
            },
            20'000, std::move(transfer_of)};
  }

  Job run(Plan plan) {
    if (plan.exchanges.empty()) plan.exchanges = {everyone(plan.ranks)};
    std::vector<TraceRows> rows(static_cast<size_t>(plan.ranks));
    std::vector<int64_t> now(rows.size(), 0);
    for (int step = 0; step < plan.steps; ++step) {
      std::vector<int64_t> begin = now;
      for (size_t r = 0; r < rows.size(); ++r) now[r] = compute(rows[r], now[r], plan.work(static_cast<int>(r), step));
      for (size_t e = 0; e < plan.exchanges.size(); ++e) meet(plan.exchanges[e], e, rows, now);
      for (size_t r = 0; r < rows.size(); ++r)
        rows[r].annotation("ProfilerStep#" + std::to_string(step % plan.epoch + 10), begin[r], now[r] - begin[r]);
    }
    std::vector<RankDigest> digests;
    for (int r = 0; r < plan.ranks; ++r) {
      TraceRows& t = rows[static_cast<size_t>(r)];
      if (plan.ranks_per_host > 0) t.header().host_name = "host-" + std::to_string(r / plan.ranks_per_host);
      traces_.push_back(t.finish());
      if (plan.change) plan.change(r, traces_.back());
      digests.push_back(rank_digest(r, Facts(traces_.back(), {})));
    }
    return analyse_job(digests, plan.samples);
  }

  static std::vector<int> late_ranks(const Job& job) {
    std::vector<int> ranks;
    for (const Straggler& s : job.stragglers) ranks.push_back(s.rank);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  static std::string all_evidence(const Straggler& s) {
    std::string text;
    for (const std::string& e : s.evidence) text += e + "\n";
    return text;
  }
  static std::pair<double, double> side_by_side(const Straggler& s, std::string_view metric) {
    for (const SideBySide& m : s.side_by_side)
      if (m.metric == metric) return {m.late.value_or(-1), m.others_median.value_or(-1)};
    return {-1, -1};
  }
  void expect_alone(const Job& job, int rank, std::string_view kind) {
    ASSERT_EQ(late_ranks(job), std::vector<int>{rank});
    EXPECT_EQ(job.stragglers[0].kind, kind) << all_evidence(job.stragglers[0]);
    EXPECT_TRUE(job.stragglers[0].together.empty());
  }

 private:
  int64_t compute(TraceRows& t, int64_t at, const Work& w) {
    const auto range = [&](const char* name, int64_t ns) {
      if (ns > 0) t.annotation(name, at, ns);
      at += ns;
    };
    range("dataloader", w.load_ns);
    range("save_checkpoint", w.save_ns);
    if (w.allocate_ns > 0) t.call("cudaMalloc", at, w.allocate_ns);
    at += w.allocate_ns;
    range("something", w.host_ns);
    int64_t device = at + 8'000;
    const auto launch = [&](const std::string& name, int64_t ns) {
      t.op("aten::mm", at, 1'000).call("cudaLaunchKernel", at, 1'000, ++correlation_);
      t.kernel(name, device, ns, correlation_);
      device += ns, at += 1'000;
    };
    for (int k = 0; k < 5; ++k) launch("gemm_" + std::to_string(k), w.compute_ns / 5);
    if (w.experts_ns > 0) launch("grouped_gemm", w.experts_ns);
    for (int k = 0; k < 2 && w.extra_ns > 0; ++k) launch("evaluate", w.extra_ns / 2);
    return device;
  }

  void meet(const Exchange& exchange, size_t number, std::vector<TraceRows>& rows, std::vector<int64_t>& now) {
    std::vector<int64_t> end(rows.size(), 0);
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<int> members = exchange.group(static_cast<int>(r));
      int64_t last = 0;
      std::string text;
      for (const int m : members) {
        last = std::max(last, now[static_cast<size_t>(m)]);
        text += (text.empty() ? "[" : ", ") + std::to_string(m);
      }
      end[r] = last + (exchange.transfer_of ? exchange.transfer_of(members) : exchange.transfer_ns);
      const std::string group = std::to_string(number);
      const std::string ranks = text + "]";
      rows[r].call("cudaLaunchKernelExC", now[r] - 20'000, 1'000, ++correlation_);
      rows[r].collective({.name = "allreduce", .group = group, .ranks = ranks, .in = 1'000'000, .out = 1'000'000,
                          .size = static_cast<int32_t>(members.size())},
                         now[r], end[r] - now[r], correlation_);
    }
    now = end;
  }

  uint32_t correlation_ = 0;
  std::deque<Trace> traces_;
};

TEST_F(StragglersTest, HealthyRanksAreNotAccused) {
  uint64_t noise = 1;
  for (const int ranks : {2, 3, 4, 16, 64}) {
    // Arrivals differ by up to 8 % of the step, another rank last each time.
    const Job job = run({.ranks = ranks, .work = [&](int, int) {
      noise = noise * 6364136223846793005 + 1442695040888963407;
      return Work{.compute_ns = 500'000 + static_cast<int64_t>(noise >> 40) % 40'000};
    }});
    // Two ranks of which the noise puts one last more often wait for it; not more than the noise is.
    for (const Straggler& s : job.stragglers) EXPECT_LT(s.excess_pct, 8) << ranks << ", rank " << s.rank;
    EXPECT_TRUE(ranks <= 3 || job.stragglers.empty()) << ranks;
  }
}

TEST_F(StragglersTest, TheSameKernelsSlower) {
  const Job job = run({.work = [](int rank, int) { return Work{.compute_ns = rank == 2 ? 650'000 : 500'000}; }});
  expect_alone(job, 2, "slow_compute");
  const Straggler& s = job.stragglers[0];
  EXPECT_EQ(s.excess_ns_per_step, 150'000);
  EXPECT_EQ(s.steps_measured, 6);
  EXPECT_EQ(s.late_steps, (std::vector<int64_t>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(s.worst_step_excess_ns, 150'000);
  EXPECT_EQ(side_by_side(s, "compute_ns"), (std::pair{650'000.0, 500'000.0}));
  EXPECT_NE(all_evidence(s).find("the same kernels take 30.0 % longer"), std::string::npos) << all_evidence(s);
}

TEST_F(StragglersTest, SlowInputSavingAndAllocation) {
  expect_alone(run({.work = [](int rank, int) { return Work{.load_ns = rank == 1 ? 200'000 : 50'000}; }}), 1,
               "slow_input");
  expect_alone(run({.work = [](int rank, int) { return Work{.save_ns = rank == 0 ? 200'000 : 0}; }}), 0, "checkpoint");
  expect_alone(run({.work = [](int rank, int) { return Work{.allocate_ns = rank == 3 ? 200'000 : 0}; }}), 3,
               "memory_allocation");
  expect_alone(run({.work = [](int rank, int) { return Work{.host_ns = rank == 3 ? 200'000 : 0}; }}), 3, "slow_host");
}

TEST_F(StragglersTest, MoreWorkIsUneven) {
  const Job job = run({.work = [](int rank, int) { return Work{.extra_ns = rank == 0 ? 150'000 : 0}; }});
  expect_alone(job, 0, "uneven_work");
  EXPECT_EQ(side_by_side(job.stragglers[0], "kernels"), (std::pair{7.0, 5.0}));
}

TEST_F(StragglersTest, OneKernelThatTakesLongerAloneIsUneven) {
  const Job job = run({.work = [](int rank, int) { return Work{.experts_ns = rank == 2 ? 300'000 : 100'000}; }});
  expect_alone(job, 2, "uneven_work");
  EXPECT_NE(all_evidence(job.stragglers[0]).find("grouped_gemm: 300 µs each, others 100 µs; all other kernels take as long"),
            std::string::npos)
      << all_evidence(job.stragglers[0]);
  const auto slow = [](int rank, int) {
    return rank == 2 ? Work{.compute_ns = 700'000, .experts_ns = 140'000} : Work{.experts_ns = 100'000};
  };
  expect_alone(run({.work = slow}), 2, "slow_compute");
}

TEST_F(StragglersTest, LargerGridsAreUneven) {
  const auto grids = [](int rank, Trace& t) {
    t.activity_args.push_back({.grid = {rank == 3 ? 200 : 100, 1, 1}, .block = {256, 1, 1}});
    for (ActivityArgsId& args : t.activity.args) args = ActivityArgsId(size_t{0});
  };
  const auto work = [](int rank, int) { return Work{.compute_ns = rank == 3 ? 700'000 : 500'000}; };
  expect_alone(run({.work = work, .change = grids}), 3, "uneven_work");
}

TEST_F(StragglersTest, LargerInputsAreUnevenThoughTheGridIsOneOfPersistentKernels) {
  const auto shapes = [](int rank, Trace& t) {
    OpArgs args;
    args.shapes = t.strings.intern(rank == 3 ? "[[700, 1000], []]" : "[[500, 1000], []]");
    t.op_args.push_back(args);
    for (size_t h = 0; h < t.host.size(); ++h)
      if (t.host.kind[h] == HostKind::kOp) t.host.args[h] = OpArgsId(size_t{0});
  };
  const auto work = [](int rank, int) { return Work{.compute_ns = rank == 3 ? 700'000 : 500'000}; };
  expect_alone(run({.work = work, .change = shapes}), 3, "uneven_work");
}

// Three stages of a pipeline that meet in one collective: other work is by design.
TEST_F(StragglersTest, OtherStagesAreNotUnevenWork) {
  const Job job = run({.ranks = 3, .work = [](int rank, int) { return Work{.compute_ns = 500'000 + rank * 100'000}; },
                       .change = [](int rank, Trace& t) {
                         for (StringId& name : t.activity.name)
                           if (t.strings[name].starts_with("gemm"))
                             name = t.strings.intern("stage_" + std::to_string(rank));
                       }});
  for (const Straggler& s : job.stragglers) EXPECT_EQ(s.kind, "late") << s.rank;
}

TEST_F(StragglersTest, LateInSomeStepsOnly) {
  const Job job = run({.steps = 12, .work = [](int rank, int step) {
    return Work{.host_ns = rank == 1 && step % 4 == 2 ? 400'000 : 0};
  }});
  expect_alone(job, 1, "slow_host");
  EXPECT_EQ(job.stragglers[0].late_steps, (std::vector<int64_t>{12, 16, 20}));
  EXPECT_EQ(job.stragglers[0].steps_measured, 12);
  EXPECT_EQ(job.stragglers[0].excess_ns_per_step, 100'000);
  EXPECT_EQ(job.stragglers[0].worst_step_excess_ns, 400'000);
}

TEST_F(StragglersTest, OfStepsWithOneNumberTheLateOneIsCompared) {
  const Job job = run({.steps = 12, .epoch = 6, .work = [](int rank, int step) {
    return Work{.host_ns = rank == 1 && step >= 6 && step % 2 == 0 ? 400'000 : 0};
  }});
  expect_alone(job, 1, "slow_host");
  EXPECT_EQ(job.stragglers[0].late_steps, (std::vector<int64_t>{10, 12, 14}));
  EXPECT_EQ(job.stragglers[0].steps_measured, 12);
}

TEST_F(StragglersTest, TwoSlowRanksDoNotHideEachOther) {
  // Either is last in every other step, the other just before it.
  const Job job = run({.ranks = 8, .work = [](int rank, int step) {
    if (rank != 2 && rank != 5) return Work();
    return Work{.compute_ns = (rank == 2) == (step % 2 == 0) ? 640'000 : 650'000};
  }});
  EXPECT_EQ(late_ranks(job), (std::vector<int>{2, 5}));
  for (const Straggler& s : job.stragglers) {
    EXPECT_EQ(s.kind, "slow_compute");
    EXPECT_EQ(s.excess_ns_per_step, 145'000);
    EXPECT_EQ(s.late_steps.size(), 6U);
  }
}

TEST_F(StragglersTest, AHostIsLateAsOne) {
  const Job job = run({.ranks = 8, .ranks_per_host = 4, .work = [](int rank, int step) {
    return Work{.host_ns = rank >= 4 ? 150'000 + (rank + step) % 4 * 1'000 : 0};
  }});
  EXPECT_EQ(late_ranks(job), (std::vector<int>{4, 5, 6, 7}));
  for (const Straggler& s : job.stragglers) {
    EXPECT_EQ(s.kind, "slow_host");
    EXPECT_EQ(s.host, "host-1");
    EXPECT_EQ(s.together, (std::vector<int>{4, 5, 6, 7}));
  }
}

TEST_F(StragglersTest, ASlowFleetHasNoStraggler) {
  const auto slow = [](int of) {
    return [of](int rank, int) { return Work{.compute_ns = rank % 4 < of ? 700'000 : 500'000}; };
  };
  EXPECT_TRUE(run({.ranks = 8, .work = slow(4)}).stragglers.empty());
  EXPECT_TRUE(run({.ranks = 8, .work = slow(3)}).stragglers.empty());   // two would be fast, not six slow
  EXPECT_EQ(run({.ranks = 8, .work = slow(1)}).stragglers.size(), 2U);
}

// Rank 5 is slow; its tensor-parallel group 4..7 waits for it and so comes late to its data-parallel partners 0..3.
TEST_F(StragglersTest, WhoIsLateBecauseItWaitedIsNotToBlame) {
  const Exchange tensor = tensor_groups();
  const Exchange data = data_groups(2);
  const Job job = run({.ranks = 8,
                       .work = [](int rank, int) { return Work{.compute_ns = rank == 5 ? 650'000 : 500'000}; },
                       .exchanges = {tensor, data}});
  expect_alone(job, 5, "slow_compute");
}

TEST_F(StragglersTest, ASlowLinkIsFoundWhereItsGroupsMeet) {
  const auto slow = [](const std::vector<int>& members) {
    return std::find(members.begin(), members.end(), 5) != members.end() ? int64_t{200'000} : int64_t{40'000};
  };
  const Exchange tensor = tensor_groups(slow);
  const Exchange data = data_groups(2, slow);
  const Job one = run({.ranks = 8, .ranks_per_host = 8, .exchanges = {data, tensor}});
  expect_alone(one, 5, "slow_link");
  EXPECT_EQ(one.stragglers[0].excess_ns_per_step, 320'000);
  EXPECT_NE(all_evidence(one.stragglers[0]).find("transfer 200 µs, other groups 40.0 µs"), std::string::npos);
  // With one kind of group its members cannot be told apart; with one group there is nothing to compare with.
  const Job group = run({.ranks = 8, .ranks_per_host = 8, .exchanges = {tensor}});
  EXPECT_EQ(late_ranks(group), (std::vector<int>{4, 5, 6, 7}));
  for (const Straggler& s : group.stragglers) EXPECT_EQ(s.together.size(), 4U);
  Exchange all = everyone(8);
  all.transfer_ns = 300'000;
  EXPECT_TRUE(run({.ranks = 8, .ranks_per_host = 8, .exchanges = {all}}).stragglers.empty());
}

// Tensor parallel within a host, data parallel across two: only the group of 1 and 5 is slow, and the sound groups
// within the hosts say nothing of the network.
TEST_F(StragglersTest, ASlowLinkAcrossHostsIsNotClearedBySoundGroupsWithinThem) {
  const Exchange tensor = tensor_groups();
  const Exchange data = data_groups(
      2, [](const std::vector<int>& members) { return members.front() == 1 ? int64_t{320'000} : int64_t{80'000}; });
  for (const int ranks_per_host : {4, 0}) {
    const Job job = run({.ranks = 8, .ranks_per_host = ranks_per_host, .exchanges = {tensor, data}});
    EXPECT_EQ(late_ranks(job), (std::vector<int>{1, 5}));
    for (const Straggler& s : job.stragglers) {
      EXPECT_EQ(s.kind, "slow_link");
      EXPECT_EQ(s.together, (std::vector<int>{1, 5}));
      EXPECT_EQ(s.excess_ns_per_step, 240'000);
    }
    EXPECT_GE(job.wait_ns.at(1), 6 * 240'000);
  }
}

// A slow rank has slow groups within its host and beyond; others of these are cleared by sound groups of their own.
TEST_F(StragglersTest, TwoSlowLinksAreToldApart) {
  const auto slow = [](const std::vector<int>& members) {
    const auto has = [&](int r) { return std::find(members.begin(), members.end(), r) != members.end(); };
    return has(5) || has(9) ? int64_t{200'000} : int64_t{40'000};
  };
  const Exchange tensor = tensor_groups(slow);
  const Exchange data = data_groups(5, slow);
  const Job job = run({.ranks = 20, .ranks_per_host = 4, .exchanges = {data, tensor}});
  EXPECT_EQ(late_ranks(job), (std::vector<int>{5, 9}));
  for (const Straggler& s : job.stragglers) EXPECT_TRUE(s.together.empty());
}

// All ranks of a host launch late, each by another amount in each step, and hold each other up within it.
TEST_F(StragglersTest, AHostIsLateAsOneThoughItsRanksWaitForEachOther) {
  const Exchange tensor = tensor_groups();
  const Exchange data = data_groups(2);
  const auto host = [](int rank, int step) {
    return Work{.host_ns = rank >= 4 ? 200'000 + (rank + step) % 4 * 60'000 : 0};
  };
  const Job job = run({.ranks = 8, .ranks_per_host = 4, .work = host, .exchanges = {tensor, data}});
  EXPECT_EQ(late_ranks(job), (std::vector<int>{4, 5, 6, 7}));
  for (const Straggler& s : job.stragglers) {
    EXPECT_EQ(s.kind, "slow_host");
    EXPECT_EQ(s.together, (std::vector<int>{4, 5, 6, 7}));
    EXPECT_EQ(s.excess_ns_per_step, 380'000);
  }
  // Two slow GPUs of a host hold it up as well: they are named, the host is not.
  const auto two = [](int rank, int step) {
    return Work{.compute_ns = rank == 5 || rank == 7 ? 700'000 + (rank / 2 + step) % 2 * 100'000 : 500'000};
  };
  const Job gpus = run({.ranks = 8, .ranks_per_host = 4, .work = two, .exchanges = {tensor, data}});
  for (const Straggler& s : gpus.stragglers) {
    EXPECT_TRUE(s.rank == 5 || s.rank == 7) << s.rank;
    EXPECT_EQ(s.kind, "slow_compute");
  }
}

TEST_F(StragglersTest, LateByTurns) {
  const auto turns = [](int rank, int step) { return Work{.compute_ns = step % 4 == rank ? 750'000 : 500'000}; };
  const Job job = run({.steps = 8, .work = turns});
  EXPECT_TRUE(job.stragglers.empty());
  ASSERT_TRUE(job.late_by_turns);
  EXPECT_EQ(job.late_by_turns->wait_ns_per_step, 250'000 * 6 / 8);
  EXPECT_EQ(job.late_by_turns->kind, "slow_compute");
  EXPECT_EQ(job.late_by_turns->steps_measured, 8);
  ASSERT_EQ(job.late_by_turns->ranks.size(), 4U);
  for (const LateByTurns::Turns& t : job.late_by_turns->ranks) EXPECT_EQ(t.steps, 2) << t.rank;
  const Job anew = run({.steps = 8, .epoch = 4, .work = turns});
  ASSERT_TRUE(anew.late_by_turns);
  EXPECT_EQ(anew.late_by_turns->steps_measured, 8) << "numbers that begin anew are other steps";
  // One and the same rank, half of them, and arrivals that differ a little are no turns.
  const auto one = [](int rank, int) { return Work{.compute_ns = rank == 1 ? 750'000 : 500'000}; };
  const auto half = [](int rank, int) { return Work{.compute_ns = rank < 4 ? 750'000 : 500'000}; };
  const auto little = [](int rank, int step) { return Work{.compute_ns = step % 4 == rank ? 530'000 : 500'000}; };
  EXPECT_FALSE(run({.steps = 8, .work = one}).late_by_turns);
  EXPECT_FALSE(run({.ranks = 8, .steps = 8, .work = half}).late_by_turns);
  EXPECT_FALSE(run({.steps = 8, .work = little}).late_by_turns);
}

SampleLog clocks_of(int devices, int slow, double mhz) {
  SampleLog log;
  for (int d = 0; d < devices; ++d) {
    DeviceInfo info;
    info.index = static_cast<uint32_t>(d);
    log.devices.push_back(info);
    SampleSeries clock, reasons;
    clock.device = reasons.device = static_cast<uint32_t>(d);
    clock.metric = Metric::kSmClock, reasons.metric = Metric::kClockEventReasons;
    for (int64_t t = 0; t < 6 * kStep; t += kStep / 4) {
      clock.time_ns.push_back(t), clock.value.push_back(d == slow ? mhz : 1980);
      reasons.time_ns.push_back(t), reasons.value.push_back(d == slow ? 0x40 : 0);
    }
    log.series.push_back(clock), log.series.push_back(reasons);
  }
  log.last_ns = 6 * kStep;
  return log;
}

TEST_F(StragglersTest, LowClocksAreSeenInSamples) {
  const auto work = [](int rank, int) { return Work{.compute_ns = rank == 2 ? 650'000 : 500'000}; };
  const auto own_device = [](int rank, Trace& t) {
    for (Queue& q : t.queues) q.device = rank;
    t.device_rows.front().device = rank;
  };
  const Job job = run({.work = work, .change = own_device, .samples = clocks_of(4, 2, 1500)});
  expect_alone(job, 2, "low_clocks");
  EXPECT_EQ(side_by_side(job.stragglers[0], "sm_clock_mhz"), (std::pair{1500.0, 1980.0}));
  EXPECT_NE(all_evidence(job.stragglers[0]).find("clocks reduced by"), std::string::npos);
  // Equal clocks, and clocks too little lower to explain it.
  expect_alone(run({.work = work, .change = own_device, .samples = clocks_of(4, 2, 1980)}), 2, "slow_compute");
  expect_alone(run({.work = work, .change = own_device, .samples = clocks_of(4, 2, 1900)}), 2, "slow_compute");
  // All ranks call their device 0: whose samples these are is not known.
  const Job unclear = run({.work = work, .samples = clocks_of(4, 0, 1500)});
  expect_alone(unclear, 2, "slow_compute");
  ASSERT_EQ(unclear.notes.size(), 1U);
  EXPECT_TRUE(unclear.notes[0].starts_with("ranks 0–3 each call their GPU 0")) << unclear.notes[0];
  EXPECT_TRUE(job.notes.empty());
}

// Each host's ranks have devices 0 and 1, and each host samples its own.
TEST_F(StragglersTest, LowClocksAreSeenInSamplesOfTheRanksOwnHost) {
  const auto work = [](int rank, int) { return Work{.compute_ns = rank == 2 ? 650'000 : 500'000}; };
  const auto own_device = [](int rank, Trace& t) {
    for (Queue& q : t.queues) q.device = rank % 2;
    t.device_rows.front().device = rank % 2;
  };
  const auto log = [](const std::vector<std::string>& hosts) {
    SampleLog all = clocks_of(4, 2, 1500);
    for (uint32_t d = 0; d < 4; ++d) all.devices[d].index = d % 2, all.devices[d].host = hosts[d / 2];
    return all;
  };
  const auto kind = [&](const std::vector<std::string>& hosts) {
    const Job job = run({.ranks_per_host = 2, .work = work, .change = own_device, .samples = log(hosts)});
    EXPECT_EQ(late_ranks(job), std::vector<int>{2});
    return job.stragglers.empty() ? "" : job.stragglers[0].kind;
  };
  EXPECT_EQ(kind({"host-0", "host-1"}), "low_clocks");
  EXPECT_EQ(kind({"host-1", "host-0"}), "slow_compute");   // then it is rank 0's device that is slow
  EXPECT_EQ(kind({"host-0", "other"}), "slow_compute");
  EXPECT_EQ(kind({"", ""}), "slow_compute");
}

TEST(RankWorkTest, EqualWorkIsRecognisedWhateverItsOrder) {
  const auto work_of = [](std::vector<std::string> names) {
    TraceRows t;
    t.annotation("ProfilerStep#1", 0, 1000);
    int64_t at = 0;
    for (const std::string& n : names) t.kernel(n, at += 20, 10);
    const Trace trace = t.finish();
    return RankWork::compute(Facts(trace, {})).steps.at(0);
  };
  const uint64_t ab = work_of({"a", "b"}).work;
  EXPECT_EQ(ab, work_of({"b", "a"}).work);
  EXPECT_NE(ab, work_of({"a", "c"}).work);
  EXPECT_NE(ab, work_of({"a", "b", "b"}).work);
  EXPECT_NE(ab, work_of({"a", "a"}).work);
  EXPECT_EQ(work_of({}).work, 0U);
  EXPECT_EQ(work_of({"a", "b"}).kernels, 2);
  EXPECT_EQ(work_of({"a", "b"}).kernel_ns, 20);
}

TEST(RankWorkTest, KeepsTheDearestKernels) {
  TraceRows t;
  t.annotation("ProfilerStep#1", 0, 1'000'000);
  int64_t at = 0;
  for (int i = 0; i < 200; ++i) t.kernel("k" + std::to_string(i), at += 1000, 100 + i);
  const Trace trace = t.finish();
  const RankWork work = RankWork::compute(Facts(trace, {}));
  ASSERT_EQ(work.kernels.size(), RankWork::kMaxKernels);
  EXPECT_EQ(work.kernels.front().name, "k199");
  EXPECT_EQ(work.kernels.front().total_ns, 299);
  EXPECT_EQ(work.steps[0].kernels, 200);
}

TEST(RankWorkTest, HostileShapesDoNotOverflow) {
  TraceRows t;
  t.annotation("ProfilerStep#1", 0, 1000)
      .op("aten::mm", 1, 50)
      .call("cudaLaunchKernel", 2, 5, 1)
      .kernel("k", 60, 10, 1);
  Trace trace = t.finish();
  for (const char* text :
       {"[[99999999999999999999, 99999999999999999999, 99999999999999999999]]", "[[[[[", "]]]]", "[[-5]]", "", "x"}) {
    OpArgs args;
    args.shapes = trace.strings.intern(text);
    trace.op_args = {args};
    for (size_t h = 0; h < trace.host.size(); ++h)
      if (trace.host.kind[h] == HostKind::kOp) trace.host.args[h] = OpArgsId(size_t{0});
    EXPECT_LE(RankWork::compute(Facts(trace, {})).steps[0].input_elements, int64_t{1} << 53) << text;
  }
}

// Without a device, with gloo: rank 1 computes longer, and the others wait for it.
TEST_F(StragglersTest, ARankOfAProgramWithoutADevice) {
  std::deque<Trace> traces;
  std::vector<RankDigest> digests;
  for (int r = 0; r < 3; ++r) {
    TraceRows t;
    t.header().host_name = "host";
    for (int64_t step = 0; step < 8; ++step) {
      const int64_t at = step * 10'000'000, forward_ns = r == 1 ? 6'000'000 : 1'000'000;
      t.annotation("ProfilerStep#" + std::to_string(step), at, 10'000'000);
      t.op("aten::mm", at, forward_ns);
      t.op("autograd::engine::evaluate_function: MmBackward0", at + forward_ns, 1'000'000);
      t.annotation("gloo:all_reduce", at + forward_ns + 1'000'000, 7'200'000 - forward_ns, "2");
      t.op("aten::copy_", at + 8'210'000, 100'000);
      t.annotation("Optimizer.step#SGD.step", at + 8'400'000, 1'000'000);
    }
    traces.push_back(t.finish());
    digests.push_back(rank_digest(r, Facts(traces.back(), {})));
  }
  const Job job = analyse_job(digests, {});
  expect_alone(job, 1, "more_host_work");
  EXPECT_NEAR(static_cast<double>(job.stragglers[0].excess_ns_per_step), 5'000'000, 300'000);
  EXPECT_EQ(side_by_side(job.stragglers[0], "forward_ns"), std::pair(6'000'000.0, 1'000'000.0));
  ASSERT_EQ(job.parallelism.size(), 1u);
  EXPECT_EQ(job.parallelism[0].kind, ParallelKind::kDdp);
}

}  // namespace
}  // namespace profgpu
