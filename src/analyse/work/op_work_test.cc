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
  EXPECT_TRUE(in.values);
  EXPECT_EQ(in[9].element_bits(), 0);
}

TEST(OpInputs, DamagedTextsHaveNothing) {
  for (const std::string_view text : {"", "[[2, 3", "[[[[1]]]]", "[[a]]", "7", "[[99999999999999999999]]", "[[-1]]"})
    EXPECT_TRUE(op_inputs("aten::mm", text, "[\"float\"]", "").at.empty()) << text;
  EXPECT_EQ(op_inputs("aten::mm", "[[1, 2]]", "[\"float", "[\"").at.size(), 1U);
}

TEST(OpWork, SizesThatOverflowAreUnknown) {
  const std::string_view large = "[[4611686018427387904, 8], [8, 4611686018427387904]]";
  EXPECT_EQ(work_of("aten::mm", large, R"(["float", "float"])"),
            (OpWork{.precision = Precision::kFp32}));
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
