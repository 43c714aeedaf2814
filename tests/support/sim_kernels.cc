// The kernel table. Names are those that PyTorch, cuBLAS, FlashAttention, NCCL, hipBLASLt and RCCL give theirs;
// durations are those of a transformer layer with a hidden size of 1024 and 16 thousand tokens on an H100, rounded.
#include <array>

#include "tests/support/sim_device.h"

namespace profgpu::sim {
namespace {

struct Entry {
  Role role;
  int64_t duration_ns;
  bool matrix, small;
  Geometry geometry;
  const char* hopper;
  const char* ampere = nullptr;          // as hopper where null
  const char* full_precision = nullptr;  // CUDA cores only
  const char* amd = nullptr;
  const char* compiled = nullptr;
};

#define ELEMENTWISE(functor, arity)                                                                     \
  "void at::native::vectorized_elementwise_kernel<4, at::native::" functor ", std::array<char*, " arity \
  "ul> >(int, at::native::" functor ", std::array<char*, " arity "ul>)"
#define XMMA(layout, tile)                                         \
  "sm90_xmma_gemm_bf16bf16_bf16f32_f32_" layout "_n_tilesize" tile \
  "_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
#define CUTLASS(tile)                                                    \
  "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_" tile \
  ">(cutlass_80_tensorop_bf16_s16816gemm_bf16_" tile "::Params)"
#define MULTI_TENSOR(lists, functor)                                                                            \
  "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::" lists \
  ", at::native::(anonymous namespace)::" functor ">(at::native::(anonymous namespace)::" lists                 \
  ", at::native::(anonymous namespace)::" functor ")"
#define NORM "at::native::(anonymous namespace)::"
#define TENSILE(head, tile)                                                                                            \
  "Cijk_" head "_BBS_BH_Bias_HAS_SAV_UserArgs_MT" tile                                                                 \
  "_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1_CADS0_DTVA0_DTVB0_EPS0_FDSI0_GRPM1_GRVWA8_GRVWB8_"                  \
  "GSUAMB_GLS0_ISA942_IU1_K1_LBSPPA1024_LBSPPB512_LBSPPM0_LPA16_LPB16_LPM0_LRVW8_LWPMn1_MIAV0_MIWT8_4_MO40_NTn1_NTA0_" \
  "NTB0"

constexpr Geometry kGemm = {168, 213248, {8, 64, 1}, {384, 1, 1}};
constexpr Geometry kFlat = {32, 0, {16384, 1, 1}, {128, 1, 1}};
constexpr Geometry kRows = {48, 1024, {16384, 1, 1}, {32, 4, 1}};
constexpr Geometry kFlash = {255, 81920, {32, 16, 8}, {128, 1, 1}};
constexpr Geometry kRing = {96, 82240, {16, 1, 1}, {544, 1, 1}};
constexpr Geometry kFew = {24, 16, {64, 1, 1}, {256, 1, 1}};

constexpr Entry kTable[] = {
    {Role::embedding, 40000, false, false, kRows,
     "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, "
     "true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, at::cuda::detail::TensorInfo<c10::BFloat16 "
     "const, unsigned int>, at::cuda::detail::TensorInfo<long const, unsigned int>, int, int, unsigned int, unsigned "
     "int, long)"},
    {Role::layer_norm, 22000, false, true, kRows,
     "void " NORM "vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, c10::BFloat16 "
                  "const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
     nullptr, nullptr, nullptr, "triton_red_fused_native_layer_norm_3"},
    {Role::qkv_gemm, 150000, true, false, kGemm, XMMA("tn", "128x256x64"),
     "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn", "ampere_sgemm_128x128_tn",
     TENSILE("Alik_Bljk", "256x256x64")},
    {Role::attention, 120000, true, false, kFlash,
     "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
     "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, "
     "false, false, false, true, false>(pytorch_flash::Flash_fwd_params)",
     nullptr, nullptr, "attn_fwd"},
    {Role::attention_scores, 62000, true, false, kGemm, XMMA("nn", "128x128x64"), nullptr, "ampere_sgemm_64x64_nn"},
    {Role::attention_softmax, 70000, false, false, kRows,
     "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*, "
     "int, int, int, bool const*, int, bool)"},
    {Role::attention_output, 58000, true, false, kGemm, XMMA("nt", "128x128x64"), nullptr, "ampere_sgemm_128x64_nn"},
    {Role::proj_gemm, 55000, true, false, kGemm, CUTLASS("128x256_32x3_tn_align8"),
     "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "ampere_sgemm_128x64_tn",
     TENSILE("Alik_Bljk", "128x128x64")},
    {Role::dropout, 32000, false, true, kFlat,
     "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 4, "
     "bool>(at::cuda::detail::TensorInfo<c10::BFloat16 const, unsigned int>, "
     "at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, at::cuda::detail::TensorInfo<bool, unsigned int>, "
     "unsigned int, float, at::PhiloxCudaState)",
     nullptr, nullptr, nullptr, "triton_poi_fused_add_native_dropout_5"},
    {Role::add, 20000, false, true, kFlat, ELEMENTWISE("CUDAFunctor_add<c10::BFloat16>", "3"), nullptr, nullptr,
     nullptr, "triton_poi_fused_add_6"},
    {Role::fc1_gemm, 200000, true, false, kGemm, XMMA("tn", "256x128x64"),
     "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn", "ampere_sgemm_128x128_nn",
     TENSILE("Alik_Bljk", "256x192x64")},
    {Role::gelu, 52000, false, true, kFlat,
     ELEMENTWISE("GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() "
                 "const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}",
                 "2"),
     nullptr, nullptr, nullptr, "triton_poi_fused_gelu_7"},
    {Role::fc2_gemm, 190000, true, false, kGemm, CUTLASS("256x128_64x3_tn_align8"),
     "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "ampere_sgemm_128x32_tn",
     TENSILE("Alik_Bljk", "128x224x64")},
    {Role::head_gemm, 900000, true, false, kGemm, XMMA("tn", "128x128x64"),
     "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_32x3_tn", "ampere_sgemm_128x64_nt",
     TENSILE("Alik_Bljk", "256x128x64")},
    {Role::log_softmax, 350000, false, false, kRows,
     "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous "
     "namespace)::LogSoftMaxForwardEpilogue>(float*, float const*, int)"},
    {Role::nll, 12000, false, false, kFew,
     "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*, "
     "float*, float const*, long const*, float const*, bool, long, long, long, long)"},
    {Role::nll_backward, 12000, false, false, kFew,
     "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float, long>(float*, float "
     "const*, long const*, float const*, float const*, bool, int, int, long, long)"},
    {Role::log_softmax_backward, 400000, false, false, kRows,
     "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float, float, at::native::(anonymous "
     "namespace)::LogSoftMaxBackwardEpilogue>(float*, float const*, float const*, long)"},
    {Role::head_dgrad, 950000, true, false, kGemm, XMMA("nn", "128x256x64"),
     "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn", "ampere_sgemm_64x32_sliced1x4_nn",
     TENSILE("Ailk_Bljk", "256x256x64")},
    {Role::head_wgrad, 950000, true, false, kGemm, XMMA("nt", "128x256x64"),
     "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nt", "ampere_sgemm_32x128_nt",
     TENSILE("Ailk_Bjlk", "256x256x64")},
    {Role::embedding_backward, 120000, false, false, kRows,
     "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<c10::BFloat16, float, long>(long "
     "const*, c10::BFloat16 const*, c10::BFloat16*, int, long, int)"},
    {Role::fc2_dgrad, 195000, true, false, kGemm, XMMA("nn", "256x128x64"),
     "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn", "ampere_sgemm_128x128_nt",
     TENSILE("Ailk_Bljk", "256x192x64")},
    {Role::fc2_wgrad, 200000, true, false, kGemm, XMMA("nt", "256x128x64"),
     "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nt", "ampere_sgemm_64x64_nt",
     TENSILE("Ailk_Bjlk", "256x192x64")},
    {Role::gelu_backward, 70000, false, true, kFlat,
     ELEMENTWISE(
         "GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() "
         "const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16, c10::BFloat16)#1}",
         "3"),
     nullptr, nullptr, nullptr, "triton_poi_fused_gelu_backward_9"},
    {Role::fc1_dgrad, 200000, true, false, kGemm, CUTLASS("256x128_64x3_nn_align8"), nullptr, "ampere_sgemm_128x32_nn",
     TENSILE("Ailk_Bljk", "128x224x64")},
    {Role::fc1_wgrad, 195000, true, false, kGemm, CUTLASS("256x128_64x3_nt_align8"), nullptr, "ampere_sgemm_128x32_nt",
     TENSILE("Ailk_Bjlk", "128x224x64")},
    {Role::dropout_backward, 30000, false, true, kFlat,
     "void at::native::(anonymous namespace)::masked_scale_kernel<bool, c10::BFloat16, float>(at::TensorIteratorBase&, "
     "float)",
     nullptr, nullptr, nullptr, "triton_poi_fused_native_dropout_backward_10"},
    {Role::norm_backward, 35000, false, true, kRows,
     "void " NORM "layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(c10::BFloat16 const*, c10::BFloat16 "
                  "const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
     nullptr, nullptr, nullptr, "triton_red_fused_native_layer_norm_backward_11"},
    {Role::norm_weights_backward, 28000, false, true, kRows,
     "void " NORM "GammaBetaBackwardCUDAKernel_32x32<c10::BFloat16, float>(long, long, c10::BFloat16 const*, "
                  "c10::BFloat16 const*, float const*, float const*, c10::BFloat16*, c10::BFloat16*)",
     nullptr, nullptr, nullptr, "triton_red_fused_native_layer_norm_backward_12"},
    {Role::proj_dgrad, 55000, true, false, kGemm, CUTLASS("128x128_64x3_nn_align8"), nullptr, "ampere_sgemm_64x64_nn",
     TENSILE("Ailk_Bljk", "128x128x64")},
    {Role::proj_wgrad, 60000, true, false, kGemm, CUTLASS("128x128_64x3_nt_align8"), nullptr, "ampere_sgemm_32x128_nt",
     TENSILE("Ailk_Bjlk", "128x128x64")},
    {Role::attention_backward, 290000, true, false, kFlash,
     "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<64, 128, "
     "128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 8, "
     "cutlass::bfloat16_t> >, false, true, false, false, true, true, false>(pytorch_flash::Flash_bwd_params)",
     nullptr, "ampere_sgemm_128x128_nt", "bwd_kernel_fuse"},
    {Role::qkv_dgrad, 150000, true, false, kGemm, XMMA("nn", "128x128x64"),
     "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", "ampere_sgemm_128x64_nn",
     TENSILE("Ailk_Bljk", "256x128x64")},
    {Role::qkv_wgrad, 155000, true, false, kGemm, XMMA("nt", "128x128x64"),
     "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nt", "ampere_sgemm_128x64_nt",
     TENSILE("Ailk_Bjlk", "256x128x64")},
    {Role::bias_sum, 15000, false, true, kRows,
     "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, "
     "at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, "
     "c10::BFloat16>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, c10::BFloat16, 4> "
     ">(at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, "
     "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::{lambda(float, "
     "float)#1}>, unsigned int, c10::BFloat16, 4>)",
     nullptr, nullptr, nullptr, "triton_red_fused_sum_13"},
    {Role::add_grad, 30000, false, true, kFlat, ELEMENTWISE("CUDAFunctor_add<float>", "3"), nullptr, nullptr, nullptr,
     "triton_poi_fused_add_14"},
    {Role::grad_norm, 95000, false, false, kFew,
     MULTI_TENSOR("TensorListMetadata<1>", "LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>")},
    {Role::fused_adam, 300000, false, false, kFew,
     MULTI_TENSOR("FusedOptimizerTensorListMetadata<4>",
                  "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>")},
    {Role::loop_mul, 6000, false, false, kFlat,
     ELEMENTWISE("AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >", "2")},
    {Role::loop_add, 6000, false, false, kFlat, ELEMENTWISE("CUDAFunctorOnSelf_add<float>", "2")},
    {Role::loop_addcmul, 9000, false, false, kFlat,
     ELEMENTWISE("addcmul_cuda_kernel(at::TensorIteratorBase&, c10::Scalar const&)::{lambda()#1}::operator()() "
                 "const::{lambda(float, float, float)#1}",
                 "4")},
    {Role::loop_sqrt, 6500, false, false, kFlat,
     ELEMENTWISE("sqrt_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}",
                 "2")},
    {Role::loop_addcdiv, 9000, false, false, kFlat,
     ELEMENTWISE("addcdiv_cuda_kernel(at::TensorIteratorBase&, c10::Scalar const&)::{lambda()#1}::operator()() "
                 "const::{lambda(float, float, float)#1}",
                 "4")},
    {Role::tiny, 2500, false, false, kFew,
     ELEMENTWISE(
         "BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >",
         "3")},
    {Role::custom, 1000000, false, false, kRows,
     "void my_ext::fused_rotary_router_scan_kernel<c10::BFloat16, 128>(c10::BFloat16 const*, c10::BFloat16*, int "
     "const*, int, int)"},
    {Role::layout_copy, 40000, false, false, kFlat,
     "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
     "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(c10::BFloat16)#1}> >"
     "(int, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
     "{lambda()#3}::operator()() const::{lambda(c10::BFloat16)#1}>)"},
    {Role::all_reduce, 100000, false, false, kRing,
     "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", nullptr, nullptr,
     "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"},
    {Role::all_gather, 100000, false, false, kRing, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
     nullptr, nullptr, "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"},
    {Role::reduce_scatter, 100000, false, false, kRing,
     "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", nullptr, nullptr,
     "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"},
    {Role::send_recv, 100000, false, false, kRing, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", nullptr,
     nullptr, "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"},
};
static_assert(std::size(kTable) == static_cast<size_t>(Role::count));

const Entry& entry(Role role) { return kTable[static_cast<size_t>(role)]; }

}  // namespace

Kernel kernel(Gpu gpu, Role role, bool full_precision, bool compiled) {
  const Entry& e = entry(role);
  const char* name = e.hopper;
  if (gpu == Gpu::a100 && e.ampere != nullptr) name = e.ampere;
  if (compiled && e.compiled != nullptr) name = e.compiled;
  if (gpu == Gpu::mi300x && e.amd != nullptr) name = e.amd;
  if (full_precision && e.matrix && gpu != Gpu::mi300x)
    name = e.full_precision != nullptr ? e.full_precision : "ampere_sgemm_64x32_sliced1x4_tn";
  int64_t duration = e.duration_ns;
  if (gpu == Gpu::a100 && e.matrix) duration = duration * 5 / 2;
  if (gpu == Gpu::a100 && !e.matrix) duration = duration * 8 / 5;
  return {name, duration, e.matrix, e.small, e.geometry};
}

Geometry geometry_of(uint32_t role) { return kTable[role].geometry; }

}  // namespace profgpu::sim
