#include "analyse/rank/roofline.h"

#include <gtest/gtest.h>

#include "analyse/rank/devices.h"
#include "analyse/rank/distance.h"
#include "analyse/rank/measured.h"
#include "analyse/rank/step_utilization.h"
#include "support/hand_trace.h"
#include "support/worked_trace.h"

namespace profgpu {
namespace {

// One step of 1 ms; its operators each launch one kernel.
HandTrace one_step() {
  HandTrace hand;
  hand.range("ProfilerStep#1", 0, 1000);
  return hand;
}

/// Whose kernel ends then.
HandTrace one_product(int64_t end) {
  HandTrace hand = one_step();
  hand.op("aten::mm", 10, 20).kernel("gemm", 11, 12, 100, end);
  return hand;
}

AnalysisOptions measured_peaks(double bf16_tflops) {
  AnalysisOptions options;
  DeviceLimits& device = options.peaks.devices.emplace_back();
  device.tera[static_cast<size_t>(Precision::kBf16)] = bf16_tflops;
  device.memory_gbps = 3000;
  device.source = "peaks.json";
  return options;
}

TEST(Roofline, AKernelAtHalfOfItsLimitIsSaidToBeAtHalf) {
  HandTrace hand = one_step();
  hand.op("aten::mm", 10, 20).kernel("gemm", 11, 12, 100, 300);
  hand.op("aten::add", 30, 40).kernel("add", 31, 32, 300, 500);
  const WorkedTrace t(hand.build(), {kHundred, kBytes});
  const Roofline& r = t.facts.get<Roofline>();
  ASSERT_EQ(r.ops.size(), 2u);
  ASSERT_EQ(r.kernels.size(), 2u);
  for (const std::vector<RooflineRow>* rows : {&r.ops, &r.kernels})
    for (const RooflineRow& row : *rows) EXPECT_NEAR(*row.limit_pct(), 50, 1e-6) << row.name;
  const RooflineRow& add = r.ops[0];
  EXPECT_EQ(add.name, "aten::add");
  EXPECT_EQ(add.bound, Bound::kMemory);
  EXPECT_NEAR(*add.memory_gbps(), 1675, 1e-6);
  EXPECT_FALSE(add.tflops());
  const RooflineRow& mm = r.ops[1];
  EXPECT_EQ(mm.bound, Bound::kCompute);
  EXPECT_NEAR(*mm.tflops(), 494.7, 1e-6);
  EXPECT_EQ(mm.kernel, "gemm");
  EXPECT_NEAR(*r.mfu_pct, 10, 1e-6);   // 100 us of 1 ms
  EXPECT_NEAR(*r.known_pct, 100, 1e-6);
}

TEST(Roofline, UtilizationOfEachStepIsOfThatStepAlone) {
  HandTrace hand;
  hand.range("ProfilerStep#1", 0, 1000).range("ProfilerStep#2", 1000, 3000).range("ProfilerStep#3", 3000, 3500);
  hand.op("aten::mm", 10, 20).kernel("gemm", 11, 12, 100, 300);
  hand.op("aten::mm", 1010, 1020).kernel("gemm", 1011, 1012, 1100, 1300);
  hand.op("aten::add", 3010, 3020).kernel("add", 3011, 3012, 3100, 3300);
  const WorkedTrace t(hand.build(), {kHundred, kHundred, kBytes});
  const auto& rows = t.facts.get<StepUtilization>().rows;
  ASSERT_EQ(rows.size(), 2u);   // the third has no products
  EXPECT_EQ(rows[0].step, 0u);
  EXPECT_NEAR(rows[0].mfu_pct, 10, 1e-6);
  EXPECT_EQ(rows[1].step, 1u);
  EXPECT_NEAR(rows[1].mfu_pct, 5, 1e-6);
  EXPECT_NEAR(rows[1].hfu_pct, 5, 1e-6);
  const WorkedTrace unknown(hand.build(), {});
  EXPECT_TRUE(unknown.facts.get<StepUtilization>().rows.empty());
}

TEST(Roofline, ShortKernelsAreBoundByLatency) {
  HandTrace hand = one_step();
  hand.op("aten::add", 10, 20).kernel("add", 11, 12, 100, 104);
  hand.op("aten::mul", 30, 40).kernel("mul", 31, 32, 200, 204);
  const OpWork tiny{.flops = 0, .bytes = 3350, .precision = Precision::kFp32};         // 1 ns
  const OpWork full{.flops = 0, .bytes = 3350 * 3000, .precision = Precision::kFp32};  // 3 us of 4
  const WorkedTrace t(hand.build(), {tiny, full});
  const RunLimits& limits = t.facts.get<RunLimits>();
  EXPECT_EQ(limits.bound[0], Bound::kLatency);
  EXPECT_EQ(limits.bound[1], Bound::kMemory);
}

// 16 of 132 multiprocessors have a block: 30 us are short for them; with a block each they are not.
TEST(Roofline, KernelsOfFewBlocksAreBoundByLatencyForLonger) {
  const auto bound = [](int32_t blocks) {
    HandTrace hand = one_step();
    hand.op("aten::add", 10, 20).kernel("add", 11, 12, 100, 130);
    Trace trace = hand.build();
    for (ActivityArgs& args : trace.activity_args) args.grid[0] = blocks, args.grid[1] = args.grid[2] = 1;
    const WorkedTrace t(std::move(trace), {{.flops = 0, .bytes = 3350, .precision = Precision::kFp32}});
    return t.facts.get<RunLimits>().bound[0];
  };
  EXPECT_EQ(bound(16), Bound::kLatency);
  EXPECT_EQ(bound(100), Bound::kMemory);
  EXPECT_EQ(bound(1000), Bound::kMemory);
}

// A product of 100 us in 10 is masked, or of another precision than its inputs.
TEST(Roofline, WorkThatIsFasterThanThePeakDoesNotCount) {
  HandTrace hand = one_step();
  hand.op("masked", 10, 20).kernel("gemm", 11, 12, 100, 110);
  hand.op("aten::mm", 30, 40).kernel("gemm", 31, 32, 200, 400);
  const WorkedTrace t(hand.build(), {kHundred, kHundred});
  const Roofline& r = t.facts.get<Roofline>();
  EXPECT_EQ(t.facts.get<RunLimits>().bound[0], Bound::kUnknown);
  EXPECT_NEAR(*r.mfu_pct, 10, 1e-6);
  EXPECT_TRUE(r.mfu_is_lower_bound());
  ASSERT_EQ(r.missing.size(), 1U);
  EXPECT_TRUE(r.missing[0].starts_with("4.8 % of kernel time is in operators that are faster")) << r.missing[0];
}

constexpr OpWork product_of_hundred() {
  OpWork work = kHundred;
  work.product = {1, 4096, 4096, 2948};
  return work;
}

// A whole product has no mask: at 110 % its clock is above the data sheet's, and the limit stands.
TEST(Roofline, AProductAboveTheDataSheetHasAHigherClock) {
  const WorkedTrace t(one_product(190).build(), {product_of_hundred()});
  const Roofline& r = t.facts.get<Roofline>();
  EXPECT_NEAR(*r.ops[0].limit_pct(), 100.0 / 0.9, 1e-6);
  EXPECT_NEAR(*r.mfu_pct, 10, 1e-6);
  EXPECT_FALSE(r.mfu_is_lower_bound());
  ASSERT_EQ(r.missing.size(), 1U);
  EXPECT_EQ(r.missing[0],
            "100 % of kernel time is in GEMMs above the data sheet's rate: the clock was higher than its 1,830 MHz");
}

TEST(Roofline, AProductThatNoClockExplainsIsNotMasked) {
  const WorkedTrace t(one_product(150).build(), {product_of_hundred()});
  const Roofline& r = t.facts.get<Roofline>();
  EXPECT_FALSE(r.mfu_pct);
  ASSERT_GE(r.missing.size(), 1U);
  EXPECT_EQ(r.missing[0], "100 % of kernel time is in GEMMs that are faster than the peak rate of their precision, as "
                          "with sums in FP16, and do not count");
}

TEST(Roofline, AProductAboveMeasuredPeaksShowsThatTheseAreTooLow) {
  const WorkedTrace t(one_product(300).build(), {product_of_hundred()}, measured_peaks(400));   // it reached 494.7
  const Roofline& r = t.facts.get<Roofline>();
  ASSERT_GE(r.missing.size(), 1U);
  EXPECT_EQ(r.missing[0], "100 % of kernel time is in GEMMs that are faster than the peak rates in peaks.json, and do "
                          "not count: measure these again");
}

TEST(Roofline, WithoutPeaksOrShapesItSaysWhatIsMissing) {
  WorkedTrace t(one_product(300).build(), {kHundred});
  t.trace.devices[0].name = "Some GPU";
  const Roofline& r = t.facts.get<Roofline>();
  EXPECT_FALSE(r.mfu_pct);
  EXPECT_EQ(*r.known_pct, 0);
  ASSERT_EQ(r.missing.size(), 1u);
  EXPECT_EQ(r.missing[0], "no peak rates are known for Some GPU: pass measured peaks with --peaks FILE");
  EXPECT_FALSE(t.facts.get<Distance>().is_known());
}

TEST(Roofline, ADeviceWithoutANameIsLookedForInItsKernels) {
  const auto missing = [](const char* kernel) {
    HandTrace hand = one_step();
    hand.op("aten::mm", 10, 20).kernel(kernel, 11, 12, 100, 300);
    WorkedTrace t(hand.build(), {kHundred});
    t.trace.devices.clear();
    return t.facts.get<Roofline>().missing.at(0);
  };
  EXPECT_EQ(missing("Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_ISA942_IU1"),
            "the trace does not name the device, whose kernels are for gfx942: MI300A, MI300X or MI325X: say what it is "
            "with --gpu");
  EXPECT_EQ(missing("gemm"), "the trace does not name the device: say what it is with --gpu");
}

// --gpu names the device, whose multiprocessors are then known too.
TEST(Roofline, TheDeviceMayBeNamedByTheUser) {
  const auto named_by_user = [](std::vector<DeviceProperties> devices) {
    Trace trace = one_product(300).build();
    trace.devices = std::move(devices);
    AnalysisOptions options;
    options.gpu = "MI300X";
    return std::make_unique<TraceFacts>(std::move(trace), std::move(options));
  };
  const std::unique_ptr<TraceFacts> made = named_by_user({});
  const TraceFacts& named = *made;
  ASSERT_TRUE(named.facts.get<Limits>().device);
  EXPECT_EQ(named.facts.get<Limits>().device->name, "MI300X");
  EXPECT_EQ(named.trace.properties(named.trace.device_rows.at(0).device).multiprocessors, 304);
  DeviceProperties h100;
  h100.name = "NVIDIA H100 80GB HBM3", h100.multiprocessors = 132;
  const std::unique_ptr<TraceFacts> known = named_by_user({h100});
  ASSERT_TRUE(known->facts.get<Limits>().device);
  EXPECT_EQ(known->facts.get<Limits>().device->name, "H100 SXM") << "the trace says it well enough";
}

TEST(Roofline, MeasuredPeaksTakeThePlaceOfTheTable) {
  const WorkedTrace t(one_product(300).build(), {kHundred}, measured_peaks(494.7));
  EXPECT_NEAR(*t.facts.get<Roofline>().ops[0].limit_pct(), 100, 1e-6);
  EXPECT_TRUE(t.facts.get<Limits>().device->source.starts_with("peaks.json; what it lacks: "));
  EXPECT_EQ(t.facts.get<Limits>().device->name, "NVIDIA H100 80GB HBM3");
}

TEST(Roofline, WhatAFileOfPeaksLacksIsSaid) {
  const auto missing = [](const char* name) {
    AnalysisOptions options = measured_peaks(800);
    options.peaks.path = "peaks.json";
    options.peaks.devices[0].name = name;
    const WorkedTrace t(one_product(300).build(), {kHundred}, std::move(options));
    return t.facts.get<Roofline>().missing.at(0);
  };
  EXPECT_EQ(missing("H100"), "peaks.json has no entry \"NVIDIA H100 80GB HBM3\", only \"H100\"");
}

TEST(Roofline, MeasuredPeaksOfTheVeryDeviceComeFirst) {
  Trace trace = one_product(300).build();
  WorkedTrace::add_device(trace);
  trace.devices.back().uuid = "GPU-b";
  AnalysisOptions options;
  for (const auto& [uuid, memory_gbps] : {std::pair{"GPU-a", 3000.0}, {"GPU-b", 1500.0}}) {
    DeviceLimits& device = options.peaks.devices.emplace_back();
    device.name = trace.devices.back().name, device.uuid = uuid, device.memory_gbps = memory_gbps;
  }
  const Facts facts(trace, std::move(options));
  EXPECT_EQ(facts.get<Limits>().device->memory_gbps, 1500);
}

// A library transposes the inputs of a convolution for longer than it convolves.
TEST(Roofline, AnOperatorsWorkIsThatOfItsMainKernels) {
  HandTrace hand = one_step();
  hand.op("aten::convolution", 10, 20).kernel("nchwToNhwcKernel", 11, 12, 100, 400);
  hand.kernel("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32", 13, 14, 400, 600);
  Trace trace = hand.build();
  WorkedTrace::add_device(trace);
  Facts facts(trace, {});
  const HostId op = trace.host.parent[trace.activity.launch[0].value];
  DeviceWork both;
  both.runs.push_back({op, both.keep(kHundred), ActivityId(0), 500'000});
  both.run_of = {0, 0};
  facts.provide<DeviceWork>(std::move(both));
  facts.provide<OpWorks>({{OpWork()}, std::vector<uint32_t>(trace.host.size()), true, true});
  const RunLimits& limits = facts.get<RunLimits>();
  const DeviceWork& work = facts.get<DeviceWork>();
  EXPECT_EQ(limits.needed_part(work, ActivityId(0)), 0);
  EXPECT_NEAR(*limits.needed_part(work, ActivityId(1)), 0.5, 1e-6);
  EXPECT_EQ(limits.share_of_run(trace, work, ActivityId(1)), 1);
  const RooflineRow& transpose = facts.get<Roofline>().kernels.at(0);
  EXPECT_EQ(transpose.name, "nchwToNhwcKernel");
  EXPECT_FALSE(transpose.limit_pct());
  EXPECT_FALSE(transpose.bytes);
}

/// Of an operator whose work of 100 us kernels of these names do, in so many microseconds each.
std::vector<double> needed_parts(std::string_view op, const std::vector<std::pair<std::string_view, int64_t>>& kernels) {
  HandTrace hand = one_step();
  hand.op(op, 10, 20);
  int64_t at = 100, launch = 11, all = 0;
  for (const auto& [name, us] : kernels) {
    hand.kernel(name, launch, launch + 1, at, at + us);
    launch += 2, at += us, all += us;
  }
  Trace trace = hand.build();
  WorkedTrace::add_device(trace);
  Facts facts(trace, {});
  DeviceWork works;
  works.runs.push_back({trace.host.parent[trace.activity.launch[0].value], works.keep(kHundred), ActivityId(0), all * 1000});
  works.run_of.assign(kernels.size(), 0);
  facts.provide<DeviceWork>(std::move(works));
  facts.provide<OpWorks>({{OpWork()}, std::vector<uint32_t>(trace.host.size()), true, true});
  std::vector<double> parts;
  for (uint32_t i = 0; i < kernels.size(); ++i)
    parts.push_back(*facts.get<RunLimits>().needed_part(facts.get<DeviceWork>(), ActivityId(i)));
  for (const RooflineRow& row : facts.get<Roofline>().kernels)
    EXPECT_LE(row.limit_pct().value_or(0), kImpossiblePct) << row.name;
  return parts;
}

TEST(Roofline, AnOperatorsWorkIsThatOfAllItsProducts) {
  const std::vector<double> experts = needed_parts(
      "vllm::outplace_fused_experts", {{"cutlass::device_kernel<MoeFC1 gated gemm>", 120}, {"cutlass::device_kernel<MoeFC2 gemm>", 80},
                                       {"moe_sum_kernel", 5}});
  EXPECT_NEAR(experts[0], 0.5, 1e-6);
  EXPECT_NEAR(experts[1], 0.5, 1e-6);
  EXPECT_EQ(experts[2], 0);
}

TEST(Roofline, KernelsOfTritonShareTheFlopsOfTheirOperator) {
  using Names = std::pair<std::string_view, std::string_view>;
  for (const auto& [keys, queries] : {Names{"_own_dkdv", "_own_dq"}, Names{"_bwd_kernel_dkdv_causal", "_bwd_kernel_dq_causal"}}) {
    const std::vector<double> attention =
        needed_parts("flash_attn::_flash_attn_backward", {{keys, 120}, {queries, 80}});
    EXPECT_NEAR(attention[0], 0.5, 1e-6) << keys;
    EXPECT_NEAR(attention[1], 0.5, 1e-6) << queries;
  }
}

TEST(Roofline, TheGradientsOfAConvolutionAreHalfOfItsWorkEach) {
  const std::string_view data = "sm90_xmma_dgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc",
                         weights = "sm90_xmma_wgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc",
                         untold = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc";
  for (const std::string_view first : {data, untold}) {
    const std::vector<double> both = needed_parts("aten::convolution_backward", {{first, 100}, {weights, 62}});
    EXPECT_NEAR(both[0], 0.5, 1e-6);
    EXPECT_NEAR(both[1], 50.0 / 62, 1e-6);
  }
  const std::vector<double> one = needed_parts("aten::convolution_backward", {{weights, 200}});
  EXPECT_NEAR(one[0], 0.5, 1e-6) << "the input needs no gradient";
  // Half of the FLOPs in 30 us is more than the device has: it computes fewer.
  const std::vector<double> fewer = needed_parts("aten::convolution_backward", {{data, 30}, {weights, 120}});
  EXPECT_NEAR(fewer[0], 100.0 / 150, 1e-6);
  EXPECT_NEAR(fewer[1], 100.0 / 150, 1e-6);
}

// A forward operator that runs again in the backward pass, before the gradient that needs it.
TEST(Roofline, ForwardOperatorsWithinTheBackwardPassAreRecomputation) {
  HandTrace hand = one_step();
  hand.numbered_op("aten::mm", 10, 20, 5).kernel("gemm", 11, 12, 100, 200);
  hand.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 300, 400, "backward");
  hand.numbered_op("aten::mm", 310, 320, 7, "backward").kernel("gemm", 311, 312, 400, 500, "backward");
  hand.op("MmBackward0", 330, 390, "backward");
  hand.op("aten::mm", 340, 350, "backward").kernel("gemm", 341, 342, 500, 600, "backward");
  const WorkedTrace t(hand.build(), {kHundred, kHundred, kHundred});
  const RunLimits& limits = t.facts.get<RunLimits>();
  EXPECT_EQ(limits.recomputed, std::vector<bool>({false, true, false}));
  const Roofline& r = t.facts.get<Roofline>();
  EXPECT_NEAR(*r.mfu_pct, 20, 1e-6);
  EXPECT_NEAR(*r.hfu_pct, 30, 1e-6);
  const Distance& d = t.facts.get<Distance>();
  EXPECT_EQ(d.parts[1].name, "recomputation");
  EXPECT_EQ(d.parts[1].total_ns, 100'000);
}

// A product without shapes, and one of which only the least is known, may raise MFU; a copy and a known one may not.
TEST(Roofline, MfuIsALowerBoundWhereProductsAreNotCounted) {
  const auto bound = [](const char* kernel, const OpWork& work) {
    HandTrace hand = one_step();
    hand.op("aten::mm", 10, 20).kernel("ampere_sgemm_128x64_tn", 11, 12, 100, 400);
    hand.op("other", 30, 40).kernel(kernel, 31, 32, 400, 510);
    const WorkedTrace t(hand.build(), {kHundred, work});
    const Roofline& r = t.facts.get<Roofline>();
    EXPECT_TRUE(r.mfu_pct) << kernel;
    return r.mfu_is_lower_bound();
  };
  constexpr OpWork kAtLeast{.flops = 1000, .bytes = 1000, .precision = Precision::kBf16, .lower_bound = true};
  EXPECT_TRUE(bound("ampere_sgemm_128x64_tn", {}));
  EXPECT_TRUE(bound("my_own_kernel", {}));
  EXPECT_TRUE(bound("flash_fwd_kernel", kAtLeast));
  EXPECT_FALSE(bound("ampere_sgemm_128x64_tn", kHundred));
  EXPECT_FALSE(bound("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", {}));
}

// A fifth of the decode step's kernels reads a cache of unknown size.
TEST(Roofline, MbuIsALowerBoundWhereBytesAreNotKnown) {
  const auto roofline = [](const OpWork& attention) {
    HandTrace hand;
    hand.range("execute_context_0(0)_generation_4(4)", 0, 1000);
    hand.op("aten::mm", 10, 20).kernel("gemm", 11, 12, 100, 500);
    hand.op("attention", 30, 40).kernel("flash_fwd_splitkv_mla_kernel", 31, 32, 500, 600);
    const WorkedTrace t(hand.build(), {kBytes, attention});
    return std::pair(t.facts.get<Roofline>().mbu_pct, t.facts.get<Roofline>().mbu_is_lower_bound);
  };
  const auto [known_pct, known_least] = roofline(kBytes);
  EXPECT_NEAR(known_pct.value_or(0), 20, 1e-6);
  EXPECT_FALSE(known_least);
  const auto [least_pct, least] = roofline({});
  EXPECT_NEAR(least_pct.value_or(0), 10, 1e-6);
  EXPECT_TRUE(least);
}

int64_t part_ns(const Distance& d, std::string_view part) {
  for (const DistancePart& p : d.parts)
    if (p.name == part) return p.total_ns;
  return 0;
}

TEST(Distance, PartsAddUpToTheWallTime) {
  HandTrace hand = one_step();
  hand.op("aten::mm", 10, 20).kernel("gemm", 11, 12, 100, 300);          // 100 us needed, 100 us over
  hand.op("aten::add", 30, 40).kernel("add", 31, 32, 250, 450, "main", 8);   // 50 us of it beside the product
  hand.op("aten::sort", 50, 60).kernel("sort", 51, 52, 500, 600);        // unknown work
  const WorkedTrace t(hand.build(), {kHundred, kBytes, {}});
  const Distance& d = t.facts.get<Distance>();
  EXPECT_EQ(d.wall_ns, 1'000'000);
  int64_t sum = 0;
  for (const DistancePart& p : d.parts) sum += p.total_ns;
  EXPECT_EQ(sum, d.wall_ns);
  EXPECT_EQ(part_ns(d, "necessary_work"), 175'000);
  EXPECT_EQ(part_ns(d, "products"), 100'000);
  EXPECT_EQ(part_ns(d, "memory_bound"), 75'000);   // half of the 150 us that are its own
  EXPECT_EQ(part_ns(d, "unknown_work"), 100'000);
  EXPECT_EQ(*d.limit_ns, 275'000);
  EXPECT_NEAR(*d.times_limit, 1000.0 / 275, 1e-9);
  EXPECT_TRUE(d.times_limit_is_lower_bound);   // of the 275 us, 100 may be less
}

// As with data in a cache.
TEST(Distance, KernelsFasterThanTheirLimitHaveNothingOver) {
  HandTrace hand = one_step();
  hand.op("aten::add", 10, 20).kernel("add", 11, 12, 100, 150);
  const WorkedTrace t(hand.build(), {kBytes});
  const Distance& d = t.facts.get<Distance>();
  EXPECT_FALSE(d.times_limit_is_lower_bound);
  EXPECT_EQ(part_ns(d, "necessary_work"), 50'000);
  EXPECT_EQ(part_ns(d, "memory_bound"), 0);
}

}  // namespace
}  // namespace profgpu
