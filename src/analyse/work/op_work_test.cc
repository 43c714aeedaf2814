#include "analyse/work/op_work_test.h"

#include <set>

namespace profgpu {
namespace {

TEST(OpInputs, AreReadAsTheProfilerWritesThem) {
  const OpInputs in = op_inputs("aten::cat", "[[2, 3], [[4], [5, 6]], [], []]",
                                R"(["float", "TensorList", "Scalar", ""])", R"(["", "", "-1", "[1, \"a\"]"])");
  ASSERT_EQ(in.at.size(), 4U);
  EXPECT_EQ(in[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(in[0].element_bits(), 32);
  EXPECT_EQ(in[1].list, (std::vector<std::vector<int64_t>>{{4}, {5, 6}}));
  EXPECT_TRUE(in.has_lists());
  EXPECT_EQ(in[2].value, "-1");
  EXPECT_EQ(in[3].value, R"([1, \"a\"])");
  EXPECT_EQ(in[9].element_bits(), 0);
}

TEST(OpInputs, DamagedTextsHaveNothing) {
  for (const std::string_view text : {"", "[[2, 3", "[[[[1]]]]", "[[a]]", "7", "[[99999999999999999999]]", "[[-1]]"})
    EXPECT_TRUE(op_inputs("aten::mm", text, "[\"float\"]", "").at.empty()) << text;
  EXPECT_EQ(op_inputs("aten::mm", "[[1, 2]]", "[\"float", "[\"").at.size(), 1U);
}

TEST(OpWork, SizesThatOverflowAreUnknown) {
  const std::string_view large = "[[4611686018427387904, 8], [8, 4611686018427387904]]";
  const OpWork work = work_of("aten::mm", large, R"(["float", "float"])");
  EXPECT_EQ(work.flops, -1);
  EXPECT_EQ(work.bytes, -1);
  EXPECT_EQ(work.precision, Precision::kFp32);
}

TEST(OpWork, NoOperatorIsInTwoFamilies) {
  std::set<std::string> seen;
  for (const OpFamily* family : op_families())
    for (const OpForm& form : family->forms)
      for (size_t at = 0; at < form.names.size();) {
        const size_t end = std::min(form.names.find(' ', at), form.names.size());
        EXPECT_TRUE(seen.emplace(form.names.substr(at, end - at)).second) << form.names.substr(at, end - at);
        at = end + 1;
      }
  EXPECT_GT(seen.size(), 200U);
}

TEST(OpWork, EveryOperatorTakesAnyInputs) {
  const std::string_view shapes[] = {
      "[]", "[[], [], []]", "[[0], [0], [0]]", "[[2, 3], [3, 4], [4, 5], [5, 6], [6], [7], [8], [9]]",
      "[[2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5], [3], [3], [3], [3], [3], [3]]",
      "[[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0], [0]]", "[[[1, 2]], [[3], []], [[4]], [[5]]]",
      "[[4000000000, 3, 4000000000], [4000000000, 3, 4000000000], [4000000000, 3, 4000000000], [4000000000]]",
      "[[9223372036854775807], [9223372036854775807, 2], [9223372036854775807, 2, 2, 2]]"};
  const std::string_view values[] = {
      "", R"(["", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0"])",
      R"(["", "", "", "[]", "[]", "[]", "[]", "[]", "[]", "[]", "[]"])",
      R"(["", "[1, 1]", "[1]", "[0, 0, 0]", "[1]", "[1]", "True", "True", "1", "1", "[True, True, False]"])",
      R"(["-1", "-9223372036854775808", "9223372036854775807", "[9223372036854775807]", "[1073741824]", "[1073741824]", "True", "[1073741824]"])"};
  for (const OpFamily* family : op_families())
    for (const OpForm& form : family->forms)
      for (const std::string_view shape : shapes)
        for (const std::string_view value : values) {
          OpInputs in = op_inputs("aten::any_", shape, R"(["float", "c10::Half", "float", "long int", "int", "", "bool"])",
                                  value);
          in.list_bits = 16;
          const OpWork work = form.work(in);
          EXPECT_GE(work.flops, -1) << form.names << " of " << shape << " and " << value;
          EXPECT_GE(work.bytes, -1) << form.names << " of " << shape << " and " << value;
          EXPECT_TRUE(work.skipped_flops >= 0 && work.skipped_flops <= std::max<int64_t>(work.flops, 0)) << form.names;
        }
}

TEST(OpWork, UnknownOperatorsHaveNone) {
  EXPECT_EQ(work_of("fbgemm::dense_to_jagged", "[[4]]", "[\"float\"]"), OpWork());
  EXPECT_EQ(find_family("fbgemm::dense_to_jagged"), nullptr);
  EXPECT_EQ(find_family("aten::add_"), find_family("aten::add"));
  EXPECT_EQ(find_family("triton_poi_fused_add_3")->name, "compiled");
}

TEST(OpWork, PrecisionIsThatOfTheElements) {
  const std::pair<std::string_view, std::string_view> kTypes[] = {
      {"double", "fp64"}, {"float", "fp32"}, {"c10::BFloat16", "bf16"}, {"c10::Half", "fp16"},
      {"c10::Float8_e4m3fnuz", "fp8"}, {"signed char", "int8"}, {"long int", ""}};
  for (const auto& [type, precision] : kTypes) {
    const std::string types = "[\"" + std::string(type) + "\", \"" + std::string(type) + "\"]";
    EXPECT_EQ(precision_name(work_of("aten::mm", "[[2, 3], [3, 4]]", types).precision), precision);
  }
}

}  // namespace
}  // namespace profgpu
