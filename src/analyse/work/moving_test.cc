// Families that multiply nothing: their FLOPs are 0 as the counter has them, and bytes are what there is to know.
#include "analyse/work/op_work_test.h"

namespace profgpu {
namespace {

int64_t bytes(std::string_view name, std::string_view shapes, std::string_view types, std::string_view values = "") {
  const OpWork work = work_of(name, shapes, types, values);
  EXPECT_EQ(work.flops, 0) << name;
  return work.bytes;
}

TEST(Moving, Elementwise) {
  EXPECT_EQ(bytes("aten::add", "[[4, 8], [8], []]", R"(["float", "float", "Scalar"])"), 4 * (32 + 8 + 32));
  EXPECT_EQ(bytes("aten::add_", "[[4, 8], [4, 8], []]", R"(["float", "float", "Scalar"])"), 4 * 3 * 32);
  EXPECT_EQ(bytes("aten::mul", "[[4, 8], []]", R"(["c10::BFloat16", "double"])"), 2 * 2 * 32 + 8);
  EXPECT_EQ(bytes("aten::add", "[[4, 8], [4, 8], []]", R"(["c10::BFloat16", "float", "Scalar"])"), 32 * (2 + 4 + 4));
  EXPECT_EQ(bytes("aten::div", "[[32], [32]]", R"(["long int", "long int"])"), 32 * (8 + 8 + 4)) << "no whole numbers";
  EXPECT_EQ(bytes("aten::div", "[[32], [32], []]", R"(["long int", "long int", ""])", R"(["", "", "floor"])"), 32 * 24);
  EXPECT_EQ(bytes("aten::gt", "[[32], [32]]", R"(["float", "float"])"), 32 * (4 + 4 + 1));
  EXPECT_EQ(bytes("aten::sub", "[[1, 8], [8, 1], []]", R"(["long int", "long int", "Scalar"])"), 8 * (8 + 8 + 64));
  // Written to a tensor of another type.
  EXPECT_EQ(bytes("aten::mul", "[[32], [32], [0]]", R"(["float", "float", "c10::Half"])"), 32 * (4 + 4 + 2));
  EXPECT_EQ(bytes("aten::where", "[[32], [32], [32]]", R"(["bool", "float", "float"])"), 32 * (1 + 4 + 4 + 4));
  EXPECT_EQ(bytes("aten::fill_", "[[32], []]", R"(["float", "Scalar"])"), 128);
  EXPECT_EQ(bytes("aten::native_dropout", "[[32], [], []]", R"(["c10::Half", "Scalar", "Scalar"])"), 32 * (2 + 2 + 1));
  EXPECT_EQ(work_of("aten::add", "[[4], [5]]", R"(["float", "float"])").bytes, -1);
}

// Of an expanded input there is in memory what its strides of 0 leave; results are whole.
TEST(Moving, ExpandedInputsLieInMemoryOnce) {
  const auto moved = [](std::string_view name, std::string_view shapes, std::string_view types,
                        std::string_view strides) { return op_work(op_inputs(name, shapes, types, "", strides)).bytes; };
  const std::string_view floats = R"(["float", "float", "Scalar"])";
  EXPECT_EQ(moved("aten::add", "[[10, 512, 7, 7], [10, 512, 7, 7], []]", floats, "[[512, 1, 0, 0], [25088, 49, 7, 1], []]"),
            4 * (5120 + 2 * 250880));
  EXPECT_EQ(moved("aten::copy_", "[[4, 8], [4, 8], []]", floats, "[[8, 1], [0, 1], []]"), 4 * (32 + 8));
  EXPECT_EQ(moved("aten::clone", "[[4, 8], []]", floats, "[[0, 0], []]"), 4 * (1 + 32));
  EXPECT_EQ(moved("aten::bmm", "[[16, 4, 8], [16, 8, 2]]", floats, "[[32, 8, 1], [0, 2, 1]]"), 4 * (512 + 16 + 128));
  EXPECT_EQ(moved("aten::sum", "[[4, 8], [], []]", floats, "[[0, 1], [], []]"), 4 * (8 + 1));
  // A dimension of one element has any stride; strides that fit no shape count nothing.
  EXPECT_EQ(moved("aten::clone", "[[1, 8], []]", floats, "[[0, 1], []]"), 4 * 16);
  EXPECT_EQ(moved("aten::clone", "[[4, 8], []]", floats, "[[0], []]"), 4 * 64);
}

// Profilers before PyTorch 2.1 name a list of tensors and nothing else of it.
TEST(Moving, ListsWithoutShapesAreUnknown) {
  EXPECT_EQ(bytes("aten::cat", "[[], []]", R"(["TensorList", "Scalar"])"), -1);
  EXPECT_EQ(bytes("aten::stack", "[[], []]", R"(["GenericList", "Int"])"), -1);
  EXPECT_EQ(bytes("aten::_foreach_add_", "[[], [], []]", R"(["TensorList", "TensorList", "Scalar"])"), -1);
}

TEST(Moving, EnginesOwn) {
  const std::string_view types = R"(["long int", "c10::BFloat16", "c10::BFloat16", "Scalar", "c10::BFloat16", "Scalar"])";
  EXPECT_EQ(bytes("sgl_kernel::rotary_embedding", "[[32], [32, 4096], [32, 1024], [], [41216, 128], []]", types),
            8 * 32 + 2 * 2 * 32 * (4096 + 1024) + 2 * 32 * 128);
  EXPECT_EQ(bytes("sglang::store_cache", "[[32, 1024], [32, 1024], [8000, 1024], [8000, 1024], [32], [], []]",
                  R"(["c10::Half", "c10::Half", "c10::Half", "c10::Half", "long int", "Scalar", "Scalar"])"),
            2 * 2 * 2 * 32 * 1024 + 8 * 32);
  EXPECT_EQ(bytes("_C::silu_and_mul", "[[32, 128], [32, 256]]", R"(["c10::Half", "c10::Half"])"), 2 * 32 * 384);
}

TEST(Moving, Copies) {
  EXPECT_EQ(bytes("aten::copy_", "[[32], [32], []]", R"(["c10::BFloat16", "float", "Scalar"])"), 32 * 6);
  const OpInputs lists = op_inputs("aten::cat", "[[[2, 3], [4, 3]], []]", R"(["TensorList", "Scalar"])", "");
  EXPECT_EQ(op_work(lists).bytes, -1);
  OpInputs typed = lists;
  typed.list_bits = 16;
  EXPECT_EQ(op_work(typed).bytes, 2 * 2 * 18);
}

TEST(Moving, Reductions) {
  const std::string_view types = R"(["float", "ScalarList", "Scalar", ""])";
  EXPECT_EQ(bytes("aten::sum", "[[4, 8], [], [], []]", types, R"(["", "[-1]", "False", ""])"), 4 * (32 + 4));
  EXPECT_EQ(bytes("aten::sum", "[[4, 8], [], [], []]", types), 4 * (32 + 1));
  EXPECT_EQ(bytes("aten::sum", "[[8, 16], []]", types, R"(["", "6"])"), 4 * (128 + 1)) << "a type, no dimension";
  EXPECT_EQ(bytes("aten::argmax", "[[4, 8], [], []]", types, R"(["", "1", "False"])"), 4 * 32 + 8 * 4);
  EXPECT_EQ(bytes("aten::cumsum", "[[4, 8], [], []]", types), 4 * 64);
  // A value and an index for each row; of two inputs, the larger of each pair; of all, one.
  EXPECT_EQ(bytes("aten::max", "[[4, 8], [], []]", types, R"(["", "1", "False"])"), 4 * 32 + (4 + 8) * 4);
  EXPECT_EQ(bytes("aten::min", "[[4, 8], [8]]", R"(["float", "float"])"), 4 * (32 + 8 + 32));
  EXPECT_EQ(bytes("aten::max", "[[4, 8]]", types), 4 * 33);
  EXPECT_EQ(bytes("aten::topk", "[[4, 8], [], [], [], []]", types, R"(["", "2", "-1", "True", "True"])"),
            4 * 32 + (4 + 8) * 8);
  EXPECT_EQ(bytes("aten::topk", "[[4, 8], [], [], [], []]", types), -1);
  EXPECT_EQ(bytes("aten::kthvalue", "[[4, 8], [], [], []]", types, R"(["", "2", "-1", "False"])"), 4 * 32 + 12 * 4);
  EXPECT_EQ(bytes("aten::sort", "[[4, 8], [], [], []]", types), (4 + 4 + 8) * 32);
}

TEST(Moving, Lookups) {
  EXPECT_EQ(bytes("aten::embedding", "[[1000, 16], [2, 5], [], [], []]", R"(["float", "long int"])"),
            10 * 8 + 2 * 4 * 160);
  // Of a table with fewer rows than indices, each row is read once.
  EXPECT_EQ(bytes("aten::embedding", "[[2, 16], [8, 5], [], [], []]", R"(["float", "long int"])"),
            40 * 8 + 4 * (2 * 16 + 40 * 16));
  EXPECT_EQ(bytes("aten::index", "[[100, 16], [[30]]]", R"(["float", "TensorList"])"), 2 * 4 * 30 * 16);
  EXPECT_EQ(bytes("aten::index", "[[100, 16], [[100]]]", R"(["float", "TensorList"])"), -1) << "may be a mask";
  EXPECT_EQ(bytes("aten::index", "[[100, 16], [[100, 16]]]", R"(["float", "TensorList"])"), -1);
  EXPECT_EQ(bytes("aten::embedding_dense_backward", "[[2, 5, 16], [2, 5], [], [], []]",
                  R"(["float", "long int", "Scalar"])", R"(["", "", "1000", "-1", "False"])"),
            10 * 8 + 4 * 160 + 4 * 16000);
  EXPECT_EQ(bytes("aten::_embedding_bag", "[[1000, 16], [40], [8]]", R"(["float", "long int", "long int"])"),
            48 * 8 + 4 * 16 * 48);
  EXPECT_EQ(bytes("aten::index_select", "[[100, 16], [], [5]]", R"(["float", "Scalar", "long int"])",
                  R"(["", "0", ""])"),
            5 * 8 + 2 * 4 * 80);
  EXPECT_EQ(bytes("aten::gather", "[[100, 16], [], [5, 16]]", R"(["c10::Half", "Scalar", "long int"])"),
            80 * (8 + 2 + 2));
  EXPECT_EQ(bytes("aten::scatter_add_", "[[50], [], [62], [62]]", R"(["float", "Scalar", "long int", "float"])"),
            62 * (8 + 3 * 4));
}

TEST(Moving, Normalizations) {
  EXPECT_EQ(bytes("aten::native_layer_norm", "[[4, 8], [], [8], [8], []]",
                  R"(["c10::Half", "ScalarList", "c10::Half", "c10::Half", "Scalar"])"),
            2 * (32 + 8 + 8 + 32));
  EXPECT_EQ(bytes("aten::native_layer_norm_backward", "[[4, 8], [4, 8], [], [4, 1], [4, 1], [8], [8], []]",
                  R"(["float", "float", "", "float", "float", "float", "float", ""])"),
            4 * (32 + 32 + 4 + 4 + 8 + 8 + 32 + 16));
  EXPECT_EQ(bytes("_C::fused_add_rms_norm", "[[4, 8], [4, 8], [8], []]", R"(["float", "float", "float", "Scalar"])"),
            4 * (4 * 32 + 8));
}

TEST(Moving, SoftmaxAndLosses) {
  EXPECT_EQ(bytes("aten::_softmax", "[[4, 8], [], []]", R"(["float", "Scalar", "Scalar"])"), 4 * 64);
  EXPECT_EQ(bytes("aten::_log_softmax", "[[4, 8], [], []]", R"(["c10::Half", "Scalar", "Scalar"])",
                  R"(["", "1", "True"])"),
            32 * 6);
  EXPECT_EQ(bytes("aten::_softmax_backward_data", "[[4, 8], [4, 8], [], []]", R"(["float", "float"])"), 4 * 96);
  // The gradient has the type that the last argument says: 5 is Half.
  EXPECT_EQ(bytes("aten::_log_softmax_backward_data", "[[4, 8], [4, 8], [], []]", R"(["float", "float"])",
                  R"(["", "", "1", "5"])"),
            32 * (4 + 4 + 2));
  EXPECT_EQ(bytes("aten::nll_loss_forward", "[[32, 1000], [32]]", R"(["float", "long int"])"), 32 * (8 + 4));
  EXPECT_EQ(bytes("aten::nll_loss_backward", "[[], [32, 1000], [32]]", R"(["float", "float", "long int"])"),
            4 * 32000 + 8 * 32);
  EXPECT_EQ(bytes("aten::mse_loss", "[[32], [32], []]", R"(["float", "float", "Scalar"])", R"(["", "", "1"])"), 256);
}

TEST(Moving, Pools) {
  // 112 with a window of 3, a step of 2 and 1 around: 56, with an index each.
  EXPECT_EQ(bytes("aten::max_pool2d_with_indices", "[[2, 3, 112, 112], [], [], [], [], []]", R"(["float"])",
                  R"(["", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"])"),
            6 * (4 * 112 * 112 + 12 * 56 * 56));
  EXPECT_EQ(bytes("aten::_adaptive_avg_pool2d", "[[2, 3, 7, 7], []]", R"(["float", "ScalarList"])",
                  R"(["", "[1, 1]"])"),
            4 * 6 * 50);
  EXPECT_EQ(bytes("aten::upsample_nearest2d", "[[1, 4, 8, 8], [], [], []]", R"(["float", "ScalarList"])",
                  R"(["", "[16, 16]", "2.", "2."])"),
            4 * 4 * (64 + 256));
}

TEST(Moving, Optimizers) {
  OpInputs adam = op_inputs("aten::_fused_adamw_", "[[[8], [4]], [[8], [4]], [[8], [4]], [[8], [4]], [], [[], []]]",
                            R"(["TensorList", "TensorList", "TensorList", "TensorList", "TensorList", "TensorList"])", "");
  adam.list_bits = 32;
  // Parameters, two lists of state: read and written. Gradients: read.
  EXPECT_EQ(op_work(adam).bytes, 4 * 12 * 7);
  OpInputs add = op_inputs("aten::_foreach_add_", "[[[8], [4]], [[8], [4]], []]", R"(["TensorList", "TensorList", "Scalar"])", "");
  add.list_bits = 16;
  EXPECT_EQ(op_work(add).bytes, 2 * 12 * 3);
}

TEST(Moving, CompiledKernelsByTheirArguments) {
  EXPECT_EQ(bytes("triton_poi_fused_add_3", "[[8, 4], [8, 4], [32], []]",
                  R"(["c10::BFloat16", "c10::BFloat16", "float", "Scalar"])"),
            32 * (2 + 2 + 4));
  // How much of a table is looked up, or of a tensor a slice has, its arguments do not tell.
  for (const char* name : {"triton_poi_fused_embedding_0", "triton_per_fused_native_layer_norm_slice_1",
                           "triton_red_fused__log_softmax_nll_loss_forward_2"})
    EXPECT_EQ(bytes(name, "[[50257, 768], [4, 768], []]", R"(["float", "float", "Scalar"])"), -1) << name;
}

// FBGEMM's two tables of 16 columns: 100 indices in 2 x 8 bags.
TEST(Moving, LookupsInSeveralTables) {
  const std::string shapes = "[[0], [3200], [0], [0, 0], [2], [2], [3], [], [], [3], [], [100], [17], [], [], []]";
  const std::string types = R"(["float", "c10::Half", "c10::Half", "c10::Half", "int", "long", "int", "Scalar", "Scalar",
                                "long", "Scalar", "long", "long", "Scalar", "", ""])";
  const auto lookup = [&](std::string_view widths) {
    return work_of("fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function", shapes, types,
                   R"(["", "", "", "", "", "", "", )" + std::string(widths) + R"(, "", "", "", "", "0", "", ""])");
  };
  EXPECT_EQ(lookup(R"("32", "16")").bytes, 2 * (100 + 16) * 16 + 8 * (100 + 17));
  EXPECT_EQ(lookup(R"("24", "16")").bytes, -1);   // of two widths
  EXPECT_EQ(lookup(R"("24", "16")").flops, 0);
  EXPECT_EQ(work_of("torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>", "[[8, 32]]", R"(["float"])").flops, 0);
}

TEST(Moving, QuantizationReadsAndWritesOnce) {
  EXPECT_EQ(work_of("_C::dynamic_per_token_scaled_fp8_quant", "[[8, 64], [8, 64], [8, 1], []]",
                    R"(["c10::Float8_e4m3fn", "c10::BFloat16", "float", ""])")
                .bytes,
            8 * 64 * 3 + 4 * 8);
}

TEST(Moving, AitersNormalizationWritesItsFirstAndFourthInput) {
  const OpWork w = work_of("aiter::rmsnorm2d_fwd_with_add_ck", "[[32, 2880], [32, 2880], [32, 2880], [32, 2880], [2880], [], []]",
                           R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"])");
  EXPECT_EQ(w.flops, 0);
  EXPECT_EQ(w.bytes, 2 * (4 * 32 * 2880 + 2880));
}

}  // namespace
}  // namespace profgpu
