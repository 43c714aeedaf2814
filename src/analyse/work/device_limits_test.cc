#include "analyse/work/device_limits.h"

#include "analyse/work/measured_limits.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

std::string name_found(const DeviceDescription& device) {
  const FoundLimits found = find_limits(device);
  EXPECT_EQ(found.limits.has_value(), found.why.empty()) << device.name;
  return found.limits ? found.limits->name : "";
}

double tera(const DeviceLimits& limits, Precision p) { return limits.tera[static_cast<size_t>(p)]; }

// A peak is what all multiprocessors do in a cycle, times the cycles of a second.
TEST(DeviceLimits, PeaksAreMultiprocessorsTimesClockTimesRate) {
  int checked = 0;
  for (const DeviceLimits& d : known_limits()) {
    if (d.multiprocessors == 0 || d.clock_mhz == 0 || d.fp16_per_cycle == 0) continue;
    const double expected = static_cast<double>(d.multiprocessors) * d.clock_mhz * d.fp16_per_cycle / 1e6;
    EXPECT_NEAR(tera(d, Precision::kFp16) / expected, 1, 0.05) << d.name;
    ++checked;
  }
  EXPECT_GE(checked, 35);
}

// Each step to a narrower type doubles the rate, where the device has it: data sheets with and without sparsity mixed up
// would show here.
TEST(DeviceLimits, NarrowerTypesAreTwiceAsFast) {
  for (const DeviceLimits& d : known_limits()) {
    const bool mi100 = d.name == "MI100";   // bf16 at half the rate of fp16
    const auto ratio = [&](Precision narrow, Precision wide, double least, double most) {
      if (tera(d, narrow) == 0 || tera(d, wide) == 0) return;
      EXPECT_GE(tera(d, narrow) / tera(d, wide), least * 0.97) << d.name;
      EXPECT_LE(tera(d, narrow) / tera(d, wide), most * 1.03) << d.name;
    };
    ratio(Precision::kBf16, Precision::kFp16, mi100 ? 0.5 : 1, 1);
    ratio(Precision::kFp16, Precision::kTf32, 2, 2.05);
    ratio(Precision::kFp8, Precision::kFp16, 2, 2.05);
    ratio(Precision::kFp4, Precision::kFp8, 2, 4);
    ratio(Precision::kInt8, Precision::kFp16, 1, 4.05);
    ratio(Precision::kFp32, Precision::kFp64, 0.99, 4.05);
    EXPECT_FALSE(d.source.empty()) << d.name;
    EXPECT_GT(d.memory_gbps, 0) << d.name;
  }
}

TEST(DeviceLimits, CachesAndLinksAreThoseOfTheDocuments) {
  const DeviceLimits h100 = *find_limits({"NVIDIA H100 80GB HBM3", 0, 132}).limits;
  EXPECT_EQ(h100.cache_bytes, 50 << 20);
  EXPECT_EQ(h100.link_gbps, 900);        // NVLink 4, 18 links
  EXPECT_EQ(h100.host_link_gbps, 128);   // PCIe 5
  EXPECT_EQ(find_limits({"Tesla T4", 0, 40}).limits->link_gbps, 0);   // it has none
  for (const DeviceLimits& d : known_limits()) {
    EXPECT_TRUE(d.cache_bytes == 0 || (d.cache_bytes >= 4 << 20 && d.cache_bytes <= 408 << 20)) << d.name;
    // A link between devices is no slower than the way to the host.
    EXPECT_TRUE(d.link_gbps == 0 || d.link_gbps >= d.host_link_gbps) << d.name;
  }
}

TEST(DeviceLimits, AreFoundByTheNamesThatTracesHave) {
  EXPECT_EQ(name_found({"NVIDIA H100 80GB HBM3", 85018279936, 132}), "H100 SXM");
  EXPECT_EQ(name_found({"NVIDIA H100 80GB HBM3", 0, 0}), "H100 SXM");
  EXPECT_EQ(name_found({"NVIDIA H100 PCIe", 85018279936, 114}), "H100 PCIe");
  EXPECT_EQ(name_found({"NVIDIA H100 NVL", 0, 132}), "H100 NVL");
  EXPECT_EQ(name_found({"NVIDIA A100-SXM4-80GB", 84990623744, 108}), "A100 SXM 80 GB");
  EXPECT_EQ(name_found({"NVIDIA A100-SXM4-40GB", 0, 108}), "A100 SXM 40 GB");
  EXPECT_EQ(name_found({"NVIDIA A100 80GB PCIe", 0, 0}), "A100 PCIe 80 GB");
  EXPECT_EQ(name_found({"NVIDIA A100-PG509-200", 42505273344, 108}), "A100 SXM 40 GB");
  EXPECT_EQ(name_found({"Tesla V100-SXM2-32GB", 34079637504, 80}), "V100 SXM2");
  EXPECT_EQ(name_found({"Tesla T4", 15843721216, 40}), "T4");
  EXPECT_EQ(name_found({"NVIDIA L4", 0, 58}), "L4");
  EXPECT_EQ(name_found({"NVIDIA B300 SXM6 AC", 0, 148}), "B300");
  EXPECT_EQ(name_found({"NVIDIA GB300", 0, 152}), "GB300");
  EXPECT_EQ(name_found({"Orin", 64 * kGiB, 16}), "Jetson AGX Orin 64 GB");
  EXPECT_EQ(name_found({"Orin", 8 * kGiB, 8}), "");
  EXPECT_EQ(name_found({"NVIDIA GH200 480GB", 102 * kGiB * 96 / 102, 132}), "GH200 96 GB");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 4090", 25386352640, 128}), "RTX 4090");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 3090 Ti", 0, 84}), "RTX 3090 Ti");
  EXPECT_EQ(name_found({"NVIDIA RTX 6000 Ada Generation", 0, 142}), "RTX 6000 Ada");
  EXPECT_EQ(name_found({"NVIDIA RTX 5000 Ada Generation", 0, 100}), "RTX 5000 Ada");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 4070 Ti SUPER", 0, 66}), "RTX 4070 Ti Super");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 4060 Ti", 16 * kGiB, 34}), "RTX 4060 Ti");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 2060 SUPER", 0, 34}), "");
  EXPECT_EQ(name_found({"Intel(R) Arc(TM) A770 Graphics", 0, 0}), "Arc A770 16 GB");
  EXPECT_EQ(name_found({"Intel(R) Arc(TM) A770 Graphics", 8 * kGiB, 0}), "");
  EXPECT_EQ(name_found({"Quadro RTX 6000", 0, 72}), "Quadro RTX 6000");
  EXPECT_EQ(name_found({"AMD Instinct MI300X", 206141652992, 304}), "MI300X");
  EXPECT_EQ(name_found({"AMD Instinct MI300X VF", 205571227648, 304}), "MI300X");
  EXPECT_EQ(name_found({"AMD Instinct MI250X/MI250", 68702699520, 110}), "MI250X, one die");
  EXPECT_EQ(name_found({"AMD Instinct MI250X/MI250", 68702699520, 104}), "MI250, one die");
}

// Drivers older than a product call it so.
TEST(DeviceLimits, SizesTellTheProductWhereTheNameDoesNot) {
  const FoundLimits found = find_limits({"AMD Radeon Graphics", 68702699520, 104});
  ASSERT_TRUE(found.limits) << found.why;
  EXPECT_EQ(found.limits->name, "MI210 or MI250, one die");
  EXPECT_EQ(tera(*found.limits, Precision::kBf16), 181);
  EXPECT_EQ(found.limits->link_gbps, 0) << "they differ in their links";
  EXPECT_EQ(name_found({"AMD Radeon Graphics", 206141652992, 304}), "MI300X");
}

TEST(DeviceLimits, AreFoundByTheTablesOwnNames) {
  for (const DeviceLimits& d : known_limits()) EXPECT_EQ(name_found({d.name, 0, 0}), d.name);
  EXPECT_EQ(name_found({"mi300x", 0, 0}), "MI300X");
  EXPECT_EQ(name_found({"MI300X", 0, 38}), "") << "a part of one";
}

TEST(DeviceLimits, WhatFitsSeveralOrNoneIsUnknown) {
  EXPECT_EQ(name_found({"NVIDIA A100-SXM4-80GB MIG 3g.40gb", 42000000000, 42}), "");
  EXPECT_EQ(name_found({"NVIDIA H100 80GB HBM3", 20 * kGiB, 32}), "");   // a slice under the whole one's name
  EXPECT_EQ(name_found({"AMD Instinct MI250X/MI250", 0, 0}), "");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 4090 Laptop GPU", 0, 76}), "");
  EXPECT_EQ(name_found({"NVIDIA GeForce RTX 3080", 12 * kGiB, 70}), "");
  EXPECT_EQ(name_found({"AMD Radeon Graphics", 68702699520, 0}), "");
  EXPECT_EQ(name_found({"AMD Radeon Graphics", 16 * kGiB, 12}), "");
  EXPECT_EQ(name_found({"NVIDIA Graphics Device", 68702699520, 104}), "");
  EXPECT_EQ(name_found({"Simulated GPU", 0, 0}), "");
  EXPECT_EQ(name_found({"", 0, 0}), "");
  EXPECT_EQ(find_limits({"AMD Instinct MI250X/MI250", 0, 0}).why,
            "AMD Instinct MI250X/MI250 may be MI250, one die or MI250X, one die");
}

TEST(DeviceLimits, LeastTimeIsTheLongerOfComputingAndMoving) {
  const DeviceLimits h100 = *find_limits({"NVIDIA H100 80GB HBM3", 0, 0}).limits;
  OpWork work{.flops = 989'400'000'000, .bytes = 1000, .precision = Precision::kBf16};
  EXPECT_NEAR(*h100.least_ns(work), 1e6, 1);   // a thousandth of what it does in a second
  EXPECT_TRUE(h100.computes_longer(work));
  work.bytes = 6'700'000'000;
  EXPECT_NEAR(*h100.least_ns(work), 2e6, 1);
  EXPECT_FALSE(h100.computes_longer(work));
  work.skipped_flops = work.flops / 2, work.bytes = 0;
  EXPECT_NEAR(*h100.least_ns(work), 0.5e6, 1);
  EXPECT_FALSE(h100.least_ns({.flops = 1, .bytes = 1, .precision = Precision::kFp4}));   // no such units
  EXPECT_FALSE(h100.least_ns({.flops = 1, .bytes = 1, .precision = Precision::kUnknown}));
  EXPECT_FALSE(h100.least_ns({.flops = 1, .bytes = -1, .precision = Precision::kBf16}));
  EXPECT_FALSE(h100.least_ns(OpWork()));
  EXPECT_FALSE(h100.least_ns({.flops = 0, .bytes = 0}));   // something must move
  EXPECT_TRUE(h100.least_ns({.flops = 0, .bytes = 1, .precision = Precision::kUnknown}));
}

TEST(DeviceLimits, MeasuredPeaksAreReadFromAFile) {
  const auto all = measured_machine(
      R"({"by": "a benchmark", "figures": [{"benchmark": "storage", "label": "cached", "value": 7.5, "unit": "GB/s"},
          {"benchmark": "host", "label": "a", "value": 1}, {"benchmark": "storage", "label": "b", "value": [0]},
          {"benchmark": "storage", "label": null, "value": 0},
          {"benchmark": "collectives", "name": "all_reduce_1048576", "value": 200.5, "unit": "GB/s"},
          {"benchmark": "collectives", "name": "all_reduce_in_place_268435456", "value": 300.5, "unit": "GB/s"},
          {"benchmark": "collectives", "name": "all_reduce_1024", "value": 9000, "unit": "ns"},
          {"benchmark": "collectives", "name": "all_gather_4096", "value": 999, "unit": "GB/s", "used_by": "a job"},
          {"benchmark": "collectives", "name": "all_gather_1048576", "value": 150, "unit": "GB/s"}], "devices": [{"name": "A", "tflops": {"bf16": 800.5, "fp32": 50}, "memory_gbps": 3000},
          {"tflops": {}, "memory_gbps": 900, "clock": null}]})",
      "peaks.json");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->storage.size(), 1u);
  EXPECT_EQ(all->storage[0].label, "cached");
  EXPECT_EQ(all->storage[0].value, 7.5);
  EXPECT_EQ(all->storage[0].unit, "GB/s");
  ASSERT_EQ(all->collectives.size(), 2u);
  EXPECT_EQ(all->collectives[0].op, "all_reduce");
  EXPECT_EQ(all->collectives[0].busbw_gbps, 300.5);
  EXPECT_EQ(all->collectives[1].op, "all_gather");
  EXPECT_EQ(all->collectives[1].ranks, 2);
  ASSERT_EQ(all->devices.size(), 2u);
  const DeviceLimits* a = limits_called(all->devices, "A");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(tera(*a, Precision::kBf16), 800.5);
  EXPECT_EQ(tera(*a, Precision::kTf32), 0);
  EXPECT_EQ(a->memory_gbps, 3000);
  EXPECT_EQ(a->source, "peaks.json");
  const DeviceLimits* other = limits_called(all->devices, "B");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->memory_gbps, 900);
}

TEST(DeviceLimits, OneRateThatWasMeasuredLeavesTheOthers) {
  const FoundLimits vendor = find_limits({"NVIDIA H100 80GB HBM3"});
  ASSERT_TRUE(vendor.limits);
  DeviceLimits measured;
  measured.name = "NVIDIA H100 80GB HBM3", measured.uuid = "GPU-1", measured.source = "machine.json";
  measured.memory_gbps = 2875;
  const DeviceLimits memory = measured_over(measured, vendor);
  EXPECT_EQ(memory.memory_gbps, 2875);
  EXPECT_EQ(memory.tera, vendor.limits->tera);
  EXPECT_EQ(memory.cache_bytes, vendor.limits->cache_bytes);
  EXPECT_EQ(memory.host_link_gbps, vendor.limits->host_link_gbps);
  EXPECT_EQ(memory.clock_mhz, vendor.limits->clock_mhz);
  EXPECT_EQ(memory.source, "machine.json; what it lacks: " + vendor.limits->source);
  EXPECT_EQ(memory.uuid, "GPU-1");
  measured.tera[static_cast<size_t>(Precision::kBf16)] = 612.5;
  const DeviceLimits products = measured_over(measured, vendor);
  EXPECT_EQ(tera(products, Precision::kBf16), 612.5);
  EXPECT_EQ(tera(products, Precision::kFp8), tera(*vendor.limits, Precision::kFp8));
  EXPECT_EQ(products.clock_mhz, 0) << "what was measured has the device's own clock in it";
  EXPECT_EQ(measured_over(measured, {}).source, "machine.json");
}

TEST(DeviceLimits, ResultsOfBench) {
  const auto storage = measured_machine(R"({"schema": "profgpu.bench.v1", "devices": [], "figures": [
      {"benchmark": "storage", "label": "read", "value": 3, "unit": "GB/s"}]})", "st.json");
  ASSERT_TRUE(storage) << "a login node has no GPU";
  EXPECT_EQ(storage->storage.size(), 1u);
  const auto groups = measured_machine(R"({"devices": [{"memory_gbps": 1}], "simulated": true, "figures": [
      {"benchmark": "collectives", "name": "all_reduce_1048576", "value": 100, "unit": "GB/s", "ranks": 2},
      {"benchmark": "collectives", "name": "all_reduce_1048576", "value": 300, "unit": "GB/s", "ranks": 8}]})", "b.json");
  ASSERT_TRUE(groups);
  ASSERT_EQ(groups->collectives.size(), 2u);
  EXPECT_EQ(groups->collectives[0].ranks, 2);
  EXPECT_EQ(groups->collectives[0].busbw_gbps, 100);
  EXPECT_EQ(groups->collectives[1].ranks, 8);
  EXPECT_EQ(groups->devices[0].source, "b.json (simulated: no device gave these rates)");
}

TEST(DeviceLimits, WhatIsNoFileOfPeaksIsRefused) {
  for (const char* text : {"", "{}", "[]", R"({"devices": []})", R"({"devices": [{"tflops": {"fp7": 1}}]})",
                           R"({"devices": [{"tflops": {"bf16": -1}}]})", R"({"devices": [{"tflops": {"bf16": "fast"}}]})",
                           R"({"devices": [{"memory_gbps": 1e999}]})", R"({"devices": [{"memory_gbps": 1}]} trailing)",
                           R"({"devices": [{"memory_gbps": 1})", R"({"devices": [{"memory_gbps": 1}], "figures": [1]})"})
    EXPECT_FALSE(measured_machine(text, "peaks.json")) << text;
}

TEST(DeviceLimits, WhatIsWrongWithMeasuredRatesIsNamed) {
  const auto error = [](const char* device) {
    const auto read = measured_machine("{\"devices\": [" + std::string(device) + "]}", "peaks.json");
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(error(R"({"tflops": {"bfloat16": 700}})"),
            "peaks.json: unknown precision \"bfloat16\"; known: fp64, fp32, tf32, bf16, fp16, fp8, fp4, int8");
  EXPECT_EQ(error(R"({"tflops": {"bf16": 0}})"), "peaks.json: tflops.bf16 is not above 0");
  EXPECT_EQ(error(R"({"tflops": {"bf16": "700"}})"), "peaks.json: tflops.bf16 is not a number");
  EXPECT_EQ(error(R"({"memory_gbps": -3})"), "peaks.json: memory_gbps is not above 0");
  EXPECT_EQ(error("3"), "peaks.json: not a file of peak rates");
}

TEST(Achievable, IsWhatTheVendorMeasuredAndElseThePeak) {
  const DeviceLimits mi300x = *find_limits({"AMD Instinct MI300X", int64_t{192} << 30, 304}).limits;
  EXPECT_EQ(mi300x.achievable_per_ns(Precision::kBf16), 708e3);
  EXPECT_EQ(mi300x.achievable_per_ns(Precision::kFp32), mi300x.operations_per_ns(Precision::kFp32));
  EXPECT_FALSE(mi300x.achievable_source.empty());
  const OpWork work{.flops = 708'000'000, .bytes = 1000, .precision = Precision::kBf16};
  EXPECT_NEAR(*mi300x.achievable_ns(work), 1000, 1e-6);
  EXPECT_NEAR(*mi300x.least_ns(work), 1000 * 708 / 1307.4, 1e-6);
  // Bytes may take longer than that.
  EXPECT_NEAR(*mi300x.achievable_ns({.flops = 708, .bytes = 53'000, .precision = Precision::kBf16}), 10, 1e-6);
  for (const DeviceLimits& device : known_limits())
    for (size_t p = 0; p < device.tera.size(); ++p) EXPECT_LE(device.achievable_tera[p], device.tera[p]) << device.name;
}

TEST(Achievable, IsNotOfRatesThatWereMeasured) {
  DeviceLimits measured;
  measured.tera[static_cast<size_t>(Precision::kBf16)] = 650;
  const DeviceLimits all = measured_over(measured, find_limits({"AMD Instinct MI300X", 0, 304}));
  EXPECT_EQ(all.achievable_per_ns(Precision::kBf16), 650e3);
  EXPECT_EQ(all.achievable_per_ns(Precision::kFp16), 654e3);
}

}  // namespace
}  // namespace profgpu
