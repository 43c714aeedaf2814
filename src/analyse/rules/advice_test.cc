// Advice fits what runs: an engine, inference, training; and the vendor of the device.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyse/rank/frameworks.h"
#include "analyse/rules/measure.h"
#include "base/text.h"
#include "tests/support/diagnosed.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

Finding finding(const Trace& trace, std::string_view rule) {
  const Diagnosis of = diagnosed(trace);
  const auto found = std::ranges::find(of.findings, rule, &Finding::rule);
  EXPECT_NE(found, of.findings.end()) << rule;
  return found != of.findings.end() ? *found : Finding();
}

// In each step the host waits for one kernel, and the device then for the host.
HandTrace waiting_steps(std::string_view step, std::string_view op) {
  HandTrace hand;
  for (int64_t i = 0, t = 0; i < 12; ++i, t += 1000) {
    hand.range(step == "ProfilerStep#" ? "ProfilerStep#" + std::to_string(i) : std::string(step), t, t + 990);
    hand.op(op, t, t + 20);
    hand.kernel("gemm_a", t + 5, t + 10, t + 20, t + 600).call("cudaDeviceSynchronize", t + 30, t + 610);
  }
  return hand;
}

constexpr std::string_view kDecodeStep = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8209sqsq16sqsk8209)";

TEST(Advice, OfAnEngineThatOnlyItsStepsShow) {
  const Trace trace = waiting_steps(kDecodeStep, "aten::mm").build();
  const Facts facts(trace, {});
  const Frameworks& with = facts.get<Frameworks>();
  EXPECT_TRUE(with.serves());
  EXPECT_FALSE(with.has(Framework::kVllm)) << "other engines mark such steps, too";
  EXPECT_TRUE(contains(finding(trace, "excessive-synchronization").fix.front(), "scheduling"));
  EXPECT_TRUE(finding(trace, "dominant-kernel").fix.front().ends_with(" COMMAND"));
}

TEST(Advice, OfInferenceSpeaksOfNoLosses) {
  const Trace inference = waiting_steps("ProfilerStep#", "aten::mm").build();
  EXPECT_TRUE(finding(inference, "excessive-synchronization").fix.front().starts_with("keep results on the device"));
  EXPECT_TRUE(finding(inference, "dominant-kernel").fix.front().ends_with(" python SCRIPT.py"));
  const Trace training = waiting_steps("ProfilerStep#", "autograd::engine::evaluate_function: MmBackward0").build();
  EXPECT_TRUE(finding(training, "excessive-synchronization").fix.front().starts_with("keep losses"));
  EXPECT_TRUE(finding(training, "dominant-kernel").fix.front().ends_with(" python train.py"));
}

TEST(Advice, ToolsAreThoseOfTheVendor) {
  Trace trace = waiting_steps("ProfilerStep#", "aten::mm").build();
  const auto tool = [&](std::string_view device) {
    trace.devices = {{.id = 0, .name = std::string(device)}};
    return finding(trace, "dominant-kernel").fix.front();
  };
  EXPECT_TRUE(contains(tool("NVIDIA H100 80GB HBM3"), "ncu --set full"));
  EXPECT_TRUE(contains(tool(""), "ncu --set full")) << "calls of CUDA";
  EXPECT_TRUE(contains(tool("AMD Instinct MI300X"), "rocprof-compute"));
  EXPECT_TRUE(contains(tool("Intel(R) Data Center GPU Max 1550"), "vtune"));
  EXPECT_FALSE(contains(tool("Intel(R) Data Center GPU Max 1550"), "ncu"));
  EXPECT_TRUE(contains(tool("TPU v4"), "XProf"));
}

TEST(Advice, VendorByNameElseByCalls) {
  const auto of = [](std::string_view device, std::string_view call) {
    HandTrace hand;
    hand.call(call, 0, 10).orphan("k", 20, 30);
    Trace trace = hand.build();
    if (!device.empty()) trace.devices = {{.id = 0, .name = std::string(device)}};
    return vendor(trace, 0);
  };
  for (const char* name : {"A100-SXM4-40GB", "Tesla V100-SXM2-16GB", "GH200 480GB", "GeForce GTX 1080", "Quadro P5000"})
    EXPECT_EQ(of(name, "x"), Vendor::kNvidia) << name;
  EXPECT_EQ(of("Intel(R) Arc(TM) A770", "x"), Vendor::kIntel);
  EXPECT_EQ(of("gfx942", "cudaLaunchKernel"), Vendor::kAmd);
  EXPECT_EQ(of("", "hipLaunchKernel"), Vendor::kAmd);
  EXPECT_EQ(of("", "cudaLaunchKernelExC"), Vendor::kNvidia);
  EXPECT_EQ(of("", "urEnqueueKernelLaunch"), Vendor::kIntel);
  EXPECT_EQ(of("", "runFunction - job_prep_and_submit_for_execution"), Vendor::kMeta);
  EXPECT_EQ(of("", "launch"), Vendor::kUnknown);
  EXPECT_EQ(of("Some accelerator", "launch"), Vendor::kUnknown);
}

// Each call takes 450 µs, each kernel 150: it is launched before the one before it has ended, as the letter of the
// definition has it, and yet the device waits for the host.
HandTrace launches(int64_t call_us) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 20 * 460 + 460);
  for (int64_t i = 0, t = 0; i < 20; ++i, t += 460) hand.kernel("k", t, t + call_us, t + 455, t + 605);
  return hand;
}

TEST(Advice, OfCallsThatTakeLongToLaunch) {
  const Trace slow = launches(450).build();
  const Finding f = finding(slow, "device-waits");
  EXPECT_TRUE(f.what.starts_with("launching calls take long: cudaLaunchKernel, 450 µs")) << f.what;
  EXPECT_FALSE(f.cost_ns);
  for (const std::string& e : f.evidence) EXPECT_FALSE(contains(e, "saves")) << e;
  for (const std::string& fix : f.fix) EXPECT_FALSE(contains(fix, "wait_event")) << fix;
  EXPECT_TRUE(diagnosed(slow).verdict.text.starts_with("Launching calls take long")) << diagnosed(slow).verdict.text;
  EXPECT_TRUE(contains(finding(slow, "low-gpu-utilization").why, "aunching calls"));
  const Trace quick = launches(5).build();
  EXPECT_TRUE(contains(finding(quick, "device-waits").fix.front(), "wait_event"));
}

TEST(Advice, NoPhaseOfTrainingIsAskedForInInference) {
  HandTrace decode;
  for (int64_t t = 0; t < 5000; t += 1000) decode.range(kDecodeStep, t, t + 990);
  EXPECT_TRUE(contains(diagnosed(decode.build()).verdict.text, "engine's steps")) << "and of no training";
  HandTrace marked;
  for (int64_t i = 0; i < 5; ++i) marked.range("ProfilerStep#" + std::to_string(i), 1000 * i, 1000 * i + 990);
  EXPECT_FALSE(contains(diagnosed(marked.build()).verdict.text, "training"));
}

TEST(Advice, ChainsAreOfTheKindsThatTheyHave) {
  const auto chains = [](std::string_view first, std::string_view second) {
    HandTrace hand;
    for (int64_t i = 0, t = 0; i < 12; ++i, t += 1000) {
      hand.range("ProfilerStep#" + std::to_string(i), t, t + 1000);
      hand.op("aten::one", t, t + 20).kernel(first, t + 5, t + 10, t + 20, t + 400);
      hand.op("aten::two", t + 30, t + 50).kernel(second, t + 35, t + 40, t + 400, t + 900);
    }
    return finding(hand.build(), "fusable-elementwise");
  };
  const Finding norms = chains("cudnn::bn_fw_tr_1C11_singleread", "vectorized_layer_norm_kernel");
  EXPECT_TRUE(norms.what.ends_with("in chains of normalization kernels")) << norms.what;
  const auto in_one = [](const std::string& evidence) { return contains(evidence, "one kernel for each chain"); };
  EXPECT_TRUE(std::ranges::none_of(norms.evidence, in_one));
  const Finding others = chains("vectorized_elementwise_kernel", "reduce_kernel");
  EXPECT_TRUE(others.what.ends_with("in chains of elementwise and reduction kernels")) << others.what;
  EXPECT_TRUE(std::ranges::any_of(others.evidence, in_one));
}

// Kernels that the host launches late, in steps that hold this op.
HandTrace late_launches(std::string_view op, std::string_view also = "") {
  HandTrace hand;
  for (int64_t i = 0, t = 0; i < 12; ++i, t += 1000) {
    hand.range("ProfilerStep#" + std::to_string(i), t, t + 990).op(op, t + 1, t + 950);
    if (!also.empty()) hand.op(also, t + 2, t + 4);
    for (int64_t at = t + 10; at < t + 900; at += 100) hand.kernel("gemm_a", at, at + 5, at + 8, at + 20);
  }
  return hand;
}

bool any_has(const std::vector<std::string>& fixes, std::string_view part) {
  return std::ranges::any_of(fixes, [&](const std::string& fix) { return contains(fix, part); });
}

std::string brief_of(const Diagnosis& of, std::string_view check) {
  const auto found = std::ranges::find(of.checklist, check, &Check::id);
  return found != of.checklist.end() ? found->brief : "";
}

TEST(Advice, NoGraphsForInputsWhoseSizesDiffer) {
  for (const char* jagged : {"## sparse_data_dist ##", "fbgemm::jagged_to_padded_dense", "aten::_nested_view_from_jagged"})
    for (const char* rule : {"host-bound-launches", "short-kernels"}) {
      const Diagnosis of = diagnosed(late_launches("aten::mm", jagged).build());
      const Finding* f = finding(of.findings, rule);
      if (f == nullptr) continue;
      EXPECT_FALSE(any_has(f->fix, "reduce-overhead") || any_has(f->fix, "make_graphed_callables")) << jagged << rule;
    }
  EXPECT_TRUE(any_has(finding(late_launches("aten::mm").build(), "host-bound-launches").fix, "reduce-overhead"));
  const auto fixes = finding(late_launches("aten::mm", "## sparse_data_dist ##").build(), "host-bound-launches").fix;
  EXPECT_TRUE(any_has(fixes, "TorchRec: torch.compile of the dense layers alone")) << fixes.front();
}

TEST(Advice, SaysWhichVersionOfPyTorchAChangeNeeds) {
  const Trace old = late_launches("AddmmBackward").build(), newer = late_launches("AddmmBackward0").build();
  EXPECT_TRUE(finding(old, "host-bound-launches").fix.front().starts_with("with PyTorch 2 (this is a version before 1.10): "));
  EXPECT_FALSE(any_has(finding(newer, "host-bound-launches").fix, "PyTorch 2"));
  EXPECT_EQ(brief_of(diagnosed(old), "compiled"), "torch.compile (needs PyTorch 2)");
  EXPECT_EQ(brief_of(diagnosed(newer), "compiled"), "torch.compile");
  EXPECT_EQ(brief_of(diagnosed(late_launches("MyOwnBackward").build()), "compiled"), "torch.compile")
      << "a program's own nodes have no number in any version";
}

TEST(Advice, GraphsAloneAreNoCompiler) {
  HandTrace graphs = late_launches("aten::mm");
  graphs.call("cudaGraphLaunch", 400, 405);
  EXPECT_EQ(brief_of(diagnosed(graphs.build()), "compiled"), "CUDA graphs");
  HandTrace both = late_launches("aten::mm", "Torch-Compiled Region: 0/0");
  both.call("cudaGraphLaunch", 400, 405);
  EXPECT_EQ(brief_of(diagnosed(both.build()), "compiled"), "torch.compile");
}

TEST(Advice, WhatALibraryCopiesItsUsersDoNotWrite) {
  const auto fixes = [](const std::string& frame) {
    HandTrace hand;
    for (int64_t i = 0, t = 0; i < 12; ++i, t += 1000) {
      hand.range("ProfilerStep#" + std::to_string(i), t, t + 990).python(frame, t + 1, t + 60);
      hand.op("aten::contiguous", t + 2, t + 50);
      hand.kernel("void at::native::elementwise_kernel<128, 4, direct_copy>", t + 5, t + 10, t + 20, t + 900);
    }
    return finding(hand.build(), "layout-copies").fix;
  };
  EXPECT_TRUE(any_has(fixes("model.py(18): forward"), ".contiguous()"));
  EXPECT_TRUE(any_has(fixes("transformers/integrations/sdpa_attention.py(18): sdpa_attention_forward"),
                      "attn_implementation=\"flash_attention_2\""));
  const auto other = fixes("/x/site-packages/lib_of_others/layers.py(18): forward");
  EXPECT_TRUE(any_has(other, "forward of lib_of_others makes these copies")) << other.back();
  EXPECT_FALSE(any_has(other, ".contiguous()")) << other.back();
}

}  // namespace
}  // namespace profgpu
