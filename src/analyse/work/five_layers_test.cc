// Five layers worked out by hand, with pencil and the data sheet of an H100 SXM: 989.4 TFLOP/s in BF16, 3,350 GB/s. The
// same table is in docs/work.md.
#include <gtest/gtest.h>

#include "analyse/work/device_limits.h"
#include "analyse/work/op_work_test.h"

namespace profgpu {
namespace {

struct Layer {
  const char *name, *shapes, *types, *values;
  int64_t needed_flops, bytes;
  double least_us;       // the longer of computing and moving
  bool computes;
};

constexpr const char* kB = "\"c10::BFloat16\"";

std::string types(const char* rest, int tensors) {
  std::string list = "[";
  for (int i = 0; i < tensors; ++i) list += (i > 0 ? ", " : "") + std::string(kB);
  return list + rest + "]";
}

TEST(FiveLayers, AreAsTheyWereWorkedOutByHand) {
  const std::string three = types("", 3), two = types("", 2), one = types(R"(, "Scalar", "Scalar")", 1);
  const std::string convolution =
      types(R"(, "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar")", 2);
  const std::string attention = types(R"(, "Scalar", "Scalar", "Scalar", "Scalar")", 3);
  const Layer layers[] = {
      // Feed-forward of a Llama-2 7B, 2,048 tokens: 2 x 2048 x 4096 x 11008; weights 90 MB, in 17 MB, out 45 MB.
      {"aten::addmm", "[[11008], [2048, 4096], [4096, 11008]]", three.c_str(), "", 184'683'593'728, 152'065'536, 186.66,
       true},
      // Attention of 8 sequences of 2,048, 32 heads of 128, causal: 4 x 256 x 128 for each of 2048 x 2049 / 2 pairs.
      {"aten::_scaled_dot_product_flash_attention",
       "[[8, 32, 2048, 128], [8, 32, 2048, 128], [8, 32, 2048, 128], [], [], [], []]", attention.c_str(),
       R"(["", "", "", "0.", "True", "False", "0.0883883"])", 275'012'124'672, 536'870'912, 277.96, true},
      // A 3 x 3 convolution of ResNet-50, 64 pictures of 56 x 56: 2 x 12,845,056 x 64 x 9.
      {"aten::convolution", "[[64, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [], [], []]", convolution.c_str(),
       R"(["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"])", 14'797'504'512, 51'453'952, 15.36,
       false},
      // A softmax over scores: 32 x 2048 x 2048 read and written.
      {"aten::_softmax", "[[32, 2048, 2048], [], []]", one.c_str(), R"(["", "-1", "False"])", 0, 536'870'912, 160.26,
       false},
      // A residual: two inputs, one output.
      {"aten::add", "[[2048, 4096], [2048, 4096]]", two.c_str(), "", 0, 50'331'648, 15.02, false},
  };
  const DeviceLimits h100 = *find_limits({"NVIDIA H100 80GB HBM3", 0, 132}).limits;
  for (const Layer& layer : layers) {
    const OpWork work = work_of(layer.name, layer.shapes, layer.types, layer.values);
    EXPECT_EQ(work.needed_flops(), layer.needed_flops) << layer.name;
    EXPECT_EQ(work.bytes, layer.bytes) << layer.name;
    const std::optional<double> least_ns = h100.least_ns(work);
    ASSERT_TRUE(least_ns) << layer.name;
    EXPECT_NEAR(*least_ns / 1e3, layer.least_us, 0.01) << layer.name;
    EXPECT_EQ(h100.computes_longer(work), layer.computes) << layer.name;
  }
}

}  // namespace
}  // namespace profgpu
