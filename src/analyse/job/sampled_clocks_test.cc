#include "analyse/job/work_comparison.h"

#include <gtest/gtest.h>

#include "trace/sample.h"

namespace profgpu {
namespace {

/// Two devices a host, each with one sample of its clock at 100, 200 and 300.
SampleLog log_of(const std::vector<std::string>& hosts) {
  SampleLog log;
  for (const std::string& host : hosts)
    for (uint32_t index : {0u, 1u}) {
      const auto device = static_cast<uint32_t>(log.devices.size());
      DeviceInfo info;
      info.index = index;
      info.host = host;
      if (index == 1) info.parent = device - 1;
      log.devices.push_back(info);
      log.series.push_back({device, Metric::kSmClock, {100, 200, 300}, {1, 2, 3}});
      log.processes.push_back({200, device, {}});
      log.process_ticks.push_back({200, device});
    }
  log.first_ns = 100, log.last_ns = 300;
  return log;
}

std::vector<RankClock> offsets(const std::vector<int64_t>& all) {
  std::vector<RankClock> clocks;
  for (const int64_t offset : all) clocks.push_back({.offset_ns = offset, .error_ns = 1, .method = "collectives"});
  return clocks;
}

using Hosts = std::vector<std::string>;

TEST(JobSamples, HostsWithoutARankAreLeftOutAndNamed) {
  const JobSamples s = job_samples(log_of({"a", "x", "b"}), Hosts{"a", "b"}, {});
  EXPECT_EQ(s.others, std::set<std::string>{"x"});
  ASSERT_EQ(s.log.devices.size(), 4u);
  EXPECT_EQ(s.log.devices[3].host, "b");
  EXPECT_EQ(s.log.devices[3].parent, 2u);
  ASSERT_EQ(s.log.series.size(), 4u);
  EXPECT_EQ(s.log.series[3].device, 3u);
  EXPECT_EQ(s.log.processes[2].device, 2u);
  EXPECT_EQ(s.log.process_ticks.size(), 4u);
}

TEST(JobSamples, NothingIsLeftWhereAllAreOfAnotherHost) {
  const JobSamples s = job_samples(log_of({"x"}), Hosts{"a"}, {});
  EXPECT_TRUE(s.log.empty());
  EXPECT_TRUE(s.log.series.empty());
}

TEST(JobSamples, WhereAHostIsNotKnownAllStay) {
  EXPECT_EQ(job_samples(log_of({"x"}), Hosts{"a", ""}, {}).log.devices.size(), 2u);
  EXPECT_EQ(job_samples(log_of({""}), Hosts{"a", "b"}, {}).log.devices.size(), 2u);
}

TEST(JobSamples, TimesAreOnTheFirstRanksClock) {
  const JobSamples s = job_samples(log_of({"a", "b"}), Hosts{"a", "b"}, offsets({0, -1000}));
  EXPECT_EQ(s.log.series[0].time_ns, (std::vector<int64_t>{100, 200, 300}));
  EXPECT_EQ(s.log.series[2].time_ns, (std::vector<int64_t>{-900, -800, -700}));
  EXPECT_EQ(s.log.processes[3].time_ns, -800);
  EXPECT_EQ(s.log.first_ns, -900);
  EXPECT_EQ(s.log.last_ns, 300);
}

TEST(SampleHostsTest, WhoseDeviceItCanBe) {
  const auto fits = [](const Hosts& log, const Hosts& ranks, const std::string& rank, size_t device) {
    const SampleLog all = log_of(log);
    return SampleHosts(all, ranks).fits(rank, all.devices[device]);
  };
  EXPECT_TRUE(fits({"a", "b"}, {"a", "b"}, "b", 2));
  EXPECT_FALSE(fits({"a", "b"}, {"a", "b"}, "b", 0));
  EXPECT_FALSE(fits({"b"}, {"a"}, "a", 0));
  // One of the two is not known: only where there is one host.
  EXPECT_TRUE(fits({""}, {"a", "a"}, "a", 0));
  EXPECT_TRUE(fits({"a"}, {"", ""}, "", 0));
  EXPECT_FALSE(fits({""}, {"a", "b"}, "a", 0));
  EXPECT_FALSE(fits({"a", "b"}, {"", ""}, "", 0));
  EXPECT_FALSE(fits({"a", ""}, {"b", "b"}, "b", 2));
}

}  // namespace
}  // namespace profgpu
