#include "analyse/work/op_work_test.h"

namespace profgpu {
namespace {

constexpr std::string_view kForwardTypes =
    R"(["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"])";
constexpr std::string_view kBackwardTypes =
    R"(["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar", "ScalarList"])";

std::string backward_values(bool transposed, int groups, std::string_view mask) {
  return R"(["", "", "", "[16]", "[2, 2]", "[3, 3]", "[1, 1]", ")" + std::string(transposed ? "True" : "False") +
         R"(", "[0, 0]", ")" + std::to_string(groups) + R"(", ")" + std::string(mask) + "\"]";
}

TEST(Convolutions, Forward) {
  // 224 with a window of 7, a step of 2 and 3 around: 112.
  const std::string_view shapes = "[[10, 3, 224, 224], [64, 3, 7, 7], [64], [], [], [], [], [], []]";
  const OpWork w = work_of("aten::convolution", shapes, kForwardTypes,
                           R"(["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"])");
  EXPECT_EQ(w.flops, int64_t{2} * 10 * 112 * 112 * 64 * 3 * 49);
  EXPECT_EQ(w.bytes, int64_t{4} * (10 * 3 * 224 * 224 + 64 * 3 * 49 + 64 + 10 * 64 * 112 * 112));
  // Without the step there is no size of the result.
  EXPECT_EQ(work_of("aten::convolution", shapes, kForwardTypes).flops, -1);
}

TEST(Convolutions, OperatorsOfLibrariesHaveTheirValuesElsewhere) {
  const std::string_view types =
      R"(["c10::BFloat16", "c10::BFloat16", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"])";
  const OpWork miopen = work_of("aten::miopen_convolution", "[[1, 8, 10, 12], [8, 1, 3, 5], [], [], [], [], []]", types,
                                R"(["", "", "", "[1, 2]", "[1, 2]", "[1, 1]", "8"])");
  EXPECT_EQ(miopen.flops, 2 * 10 * 6 * 8 * 15);   // one channel of each group; 10 by 6
  const OpWork cudnn = work_of("aten::cudnn_convolution", "[[2, 4, 9], [6, 4, 3], [], [], [], []]",
                               R"(["float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar"])",
                               R"(["", "", "[0]", "[1]", "[2]", "1"])");
  EXPECT_EQ(cudnn.flops, 2 * 2 * 5 * 6 * 4 * 3);
}

TEST(Convolutions, Transposed) {
  // Each point of the input meets the filter; (5 - 1) · 2 - 2 + 3 + 1 = 10 points come of it.
  const OpWork w = work_of("aten::convolution", "[[1, 4, 5], [4, 6, 3], [], [], [], [], [], [], []]",
                           R"(["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"])",
                           R"(["", "", "", "[2]", "[1]", "[1]", "True", "[1]", "1"])");
  EXPECT_EQ(w.flops, 2 * 5 * 4 * 6 * 3);
  EXPECT_EQ(w.bytes, 4 * (20 + 72 + 60));
}

TEST(Convolutions, Backward) {
  const std::string_view shapes =
      "[[10, 64, 112, 112], [10, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], [], []]";
  const int64_t one = int64_t{2} * 10 * 112 * 112 * 64 * 3 * 49;
  const OpWork both =
      work_of("aten::convolution_backward", shapes, kBackwardTypes, backward_values(false, 1, "[True, True, False]"));
  EXPECT_EQ(both.flops, 2 * one);
  EXPECT_EQ(both.skipped_flops, 0);
  EXPECT_EQ(work_of("aten::convolution_backward", shapes, kBackwardTypes,
                    backward_values(false, 1, "[False, True, True]")).flops, one);
  EXPECT_EQ(work_of("aten::convolution_backward", shapes, kBackwardTypes).flops, -1);
}

TEST(Convolutions, TheCountersSurplusForGroupsIsKnown) {
  // Eight groups of one channel: 10 points, a window of 9.
  const OpWork w = work_of("aten::convolution_backward",
                           "[[1, 8, 10], [1, 8, 10], [8, 1, 9], [], [], [], [], [], [], [], []]", kBackwardTypes,
                           backward_values(false, 8, "[True, True, False]"));
  const int64_t one = 2 * 10 * 8 * 9;
  EXPECT_EQ(w.flops, one + 8 * one);
  EXPECT_EQ(w.needed_flops(), 2 * one);
}

TEST(Convolutions, BackwardInTwoOperators) {
  const std::string_view types = R"(["ScalarList", "float", "float", "ScalarList"])";
  const int64_t one = int64_t{2} * 32 * 7 * 7 * 2048 * 512;
  EXPECT_EQ(work_of("aten::cudnn_convolution_backward_input", "[[], [32, 2048, 7, 7], [2048, 512, 1, 1], []]", types)
                .flops,
            one);
  const std::string_view shapes = "[[], [32, 2048, 7, 7], [32, 512, 7, 7], []]";
  EXPECT_EQ(work_of("aten::cudnn_convolution_backward_weight", shapes, types, R"(["[2048, 512, 1, 1]", "", "", ""])")
                .flops,
            one);
  EXPECT_EQ(work_of("aten::cudnn_convolution_backward_weight", shapes, types).flops, -1);
}

TEST(Convolutions, SizesThatMakeNoSenseAreUnknown) {
  const std::string_view shapes = "[[1, 3, 224], [64, 3, 7], [], [], [], [], [], [], []]";
  for (const std::string_view values :
       {R"(["", "", "", "[0]", "[3]", "[1]", "False", "[0]", "1"])",
        R"(["", "", "", "[1]", "[9223372036854775807]", "[1]", "False", "[0]", "1"])",
        R"(["", "", "", "[1]", "[0]", "[100]", "False", "[0]", "1"])"})
    EXPECT_EQ(work_of("aten::convolution", shapes, kForwardTypes, values).flops, -1) << values;
}

TEST(Convolutions, SayWhatDecidesWhichKernelsSuit) {
  const std::string_view types =
      R"(["c10::Half", "c10::Half", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"])";
  const OpWork dilated = work_of("aten::convolution", "[[2, 256, 128, 128], [256, 256, 3, 3], [], [], [], [], [], [], []]", types,
                                 R"(["", "", "", "[1, 1]", "[16, 16]", "[16, 16]", "False", "[0, 0]", "1"])");
  EXPECT_EQ(dilated.convolution, (ConvolutionSizes{.channels = 256, .groups = 1, .points = 2 * 128 * 128, .dilation = 16}));
  const OpWork depthwise = work_of("aten::convolution", "[[8, 64, 32, 32], [64, 1, 3, 3], [], [], [], [], [], [], []]", types,
                                   R"(["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "64"])");
  EXPECT_EQ(depthwise.convolution.groups, 64);
  EXPECT_EQ(depthwise.convolution.channels, 1);
  const OpWork transposed = work_of("aten::convolution", "[[4, 512, 8, 8], [512, 256, 4, 4], [], [], [], [], [], [], []]", types,
                                    R"(["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "1"])");
  EXPECT_TRUE(transposed.convolution.transposed);
  EXPECT_EQ(transposed.convolution.channels, 512);
  EXPECT_EQ(transposed.convolution.points, 4 * 16 * 16);
}

// Sizes of the tensors alone, values as Python writes tuples, and types as ScalarType names them.
TEST(Convolutions, OfRecordersThatWriteSizesOfTensorsAlone) {
  const OpWork whole = work_of("aten::convolution", "[[8, 64, 32, 32], [64, 1, 3, 3], [], [], [], [], [], [], []]",
                               R"(["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"])",
                               R"(["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "64"])");
  const OpWork alone = work_of("aten::convolution", "[[8, 64, 32, 32], [64, 1, 3, 3]]", R"(["Float", "Float"])",
                               R"v(["", "", "", "(1,1)", "(1,1)", "(1,1)", "False", "(0,0)", "64"])v");
  EXPECT_GT(whole.flops, 0);
  EXPECT_EQ(alone, whole);
}

}  // namespace
}  // namespace profgpu
