#include "analyse/rank/kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

TEST(Kernels, AreCountedByDeviceAndName) {
  test::TraceRows t;
  for (const int64_t d : {10, 20, 30, 40}) t.kernel("volta_sgemm_128x64_nn", 1000 * d, d);
  t.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 60'000, 60);
  t.copy("Memcpy HtoD (Pinned -> Device)", 70'000, 40);
  t.kernel("volta_sgemm_128x64_nn", 80'000, 7, 0, 1);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  const Kernels& k = facts.get<Kernels>();
  ASSERT_EQ(k.rows.size(), 4u);
  const KernelRow& gemm = k.rows[0];
  EXPECT_EQ(gemm.device, 0);
  EXPECT_EQ(trace.strings[gemm.name], "volta_sgemm_128x64_nn");
  EXPECT_EQ(gemm.count, 4);
  EXPECT_EQ(gemm.total_ns, 100);
  EXPECT_EQ(gemm.min_ns, 10);
  EXPECT_EQ(gemm.max_ns, 40);
  EXPECT_DOUBLE_EQ(gemm.mean_ns, 25);
  EXPECT_DOUBLE_EQ(gemm.median_ns, 25);
  EXPECT_DOUBLE_EQ(gemm.p95_ns, 38.5);
  EXPECT_DOUBLE_EQ(gemm.stddev_ns, std::sqrt(500.0 / 3));
  EXPECT_DOUBLE_EQ(gemm.kernel_pct, 50);
  EXPECT_EQ(gemm.category, KernelCategory::kGemm);
  EXPECT_FALSE(gemm.tensor_cores);
  EXPECT_EQ(k.rows[1].kind, WorkKind::kCommunication);
  EXPECT_EQ(k.rows[1].category, KernelCategory::kCommunication);
  EXPECT_DOUBLE_EQ(k.rows[1].stddev_ns, 0);
  EXPECT_EQ(k.rows[2].kind, WorkKind::kMemory);
  EXPECT_EQ(k.rows[2].category, KernelCategory::kCopy);
  EXPECT_EQ(k.rows[3].device, 1);
  EXPECT_DOUBLE_EQ(k.rows[3].kernel_pct, 100);
  EXPECT_EQ(k.category[gemm.name.value], KernelCategory::kGemm);
}

TEST(Kernels, EqualTotalsAreInOrderOfName) {
  test::TraceRows t;
  t.kernel("b", 0, 10).kernel("a", 20, 10).kernel("c", 40, 11).kernel("d", 60, 0);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  std::string names;
  for (const KernelRow& r : facts.get<Kernels>().rows) names += trace.strings[r.name];
  EXPECT_EQ(names, "cabd");
}

TEST(Kernels, NoneWithoutActivity) {
  test::TraceRows t;
  t.op("aten::mm", 0, 10);
  const Trace trace = t.finish();
  const Facts facts(trace, {});
  EXPECT_TRUE(facts.get<Kernels>().rows.empty());
}


struct Known {
  std::string_view name;
  KernelCategory category;
  bool tensor_cores;
  std::string_view short_name;
};

using enum KernelCategory;

constexpr Known kKnown[] = {
    // cuBLAS
    {"volta_sgemm_128x32_nt", kGemm, false, "volta_sgemm_128x32_nt"},
    {"ampere_sgemm_32x32_sliced1x4_tn", kGemm, false, "ampere_sgemm_32x32_sliced1x4_tn"},
    {"ampere_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nn", kGemm, true,
     "ampere_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nn"},
    {"volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", kGemm, true, "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn"},
    {"ampere_fp16_sgemm_fp16_128x64_nn", kGemm, false, "ampere_fp16_sgemm_fp16_128x64_nn"},
    {"ampere_igemm_int8_128x128_ldg4_nn", kGemm, false, "ampere_igemm_int8_128x128_ldg4_nn"},
    {"turing_i8816gemm_int8_128x128_ldg16_nn", kGemm, true, "turing_i8816gemm_int8_128x128_ldg16_nn"},
    {"nvjet_tst_128x64_64x8_2x1_v_bz_TNN", kGemm, true, "nvjet_tst_128x64_64x8_2x1_v_bz_TNN"},
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas", kGemm,
     true, "sm90_xmma gemm bf16bf16 128x128x64 tn"},
    {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel",
     kGemm, false, "sm80_xmma gemm f32f32 32x32x8 tn"},
    {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_"
     "bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)",
     kGemm, true, "cutlass gemm 80_tensorop_bf16_s16816 relu 64x64_64x6 tn"},
    {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>", kGemm, true,
     "cutlass gemm 80_tensorop_s1688 128x128_32x3 nn"},
    {"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::"
     "Params)",
     kGemm, false, "cutlass gemm 80_simt_s 128x32_8x5 nn"},
    {"void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>, float const*)", kGemm,
     false, "splitKreduce"},
    {"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, 7, false>(cublasGemvParams<float>)",
     kGemm, false, "gemvx"},
    // cuDNN
    {"cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1", kConvolution, false, "volta_scudnn_128x64_relu_small_nn"},
    {"volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", kConvolution, false,
     "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt"},
    {"turing_h1688cudnn_256x64_sliced1x2_ldg8_relu_exp_small_nhwc_tn_v1", kConvolution, true,
     "turing_h1688cudnn_256x64_sliced1x2_ldg8_relu_exp_small_nh…"},
    {"void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*)", kConvolution,
     false, "dgrad_engine"},
    {"void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int, int)", kConvolution,
     false, "implicit_convolve_sgemm"},
    {"void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_16x4_nhwc_unity_stride_"
     "align4>(cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_16x4_nhwc_unity_stride_align4::Params)",
     kConvolution, true, "cutlass dgrad tensorop_s1688_tf32 128x128_16x4 nhwc"},
    {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_"
     "g1_tensor16x8x8_alignc4_execute_kernel_cudnn",
     kConvolution, true, "sm80_xmma fprop tf32f32 128x128x16"},
    {"_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_"
     "11threadblock22ImplicitGemmMultistage"
     "INS_4gemm9GemmShapeILi128ELi128ELi32EEENS4_52Conv2dWgradOutputGradientTileAccessIteratorOptimizedINS_"
     "11MatrixShape"
     "ILi128ELi32EEENS_10tfloat32_tE",
     kConvolution, true, "cutlass_cudnn_train ImplicitGemmConvolution Wgrad"},
    {"void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int, cudnn::reduced_divisor, bool)",
     kConvolution, false, "fft2d_r2c_32x32"},
    // AMD
    {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_AFC1", kGemm, true,
     "Tensile gemm bf16 TN MT256x192x64 MI16x16x1"},
    {"Cijk_Ailk_Bjlk_SB_MT64x64x16_SN_K1_TT4_4_WG16_16_1", kGemm, false, "Tensile gemm f32 NT MT64x64x16"},
    {"igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8_ws1x1", kConvolution, true,
     "igemm_bwd_gtcx3_nhwc_bf16 128x64x32"},
    {"_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_"
     "cshuffle_v3INS_13tensor_layout4gemm8RowMajorE",
     kConvolution, true, "ck kernel_grouped_conv_fwd_xdl_cshuffle_v3"},
    {"_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemIDF16b",
     kNormalization, false, "ck_tile Rmsnorm2dFwd"},
    {"SubTensorOpWithScalar1d", kElementwise, false, "SubTensorOpWithScalar1d"},
    // FP32 in AMD's matrix instructions is far from the rate of bf16; MX is TF32.
    {"Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN", kGemm, false,
     "Tensile gemm f32 TN MT128x128x32 MI16x16x1"},
    {"Cijk_Alik_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN", kGemm, true,
     "Tensile gemm f32 TN MT128x128x32 MI16x16x1"},
    {"igemm_fwd_gtcx_nhwc_fp32_bx0_ex0_bt128x128x32", kConvolution, false, "igemm_fwd_gtcx_nhwc_fp32 128x128x32"},
    {"Cijk_B_PostGSU2", kReduction, false, "Tensile split-K sum"},
    {"Custom_Cijk_Alik_Bljk_F8BS_BH_MT256x256x128", kGemm, true, "Custom_Cijk_Alik_Bljk_F8BS_BH_MT256x256x128"},
    {"MIOpenConvUni", kConvolution, false, "MIOpenConvUni"},
    // AITER and Composable Kernel
    {"sage_fwd", kAttention, true, "sage_fwd"},
    {"sage_quant_kernel", kElementwise, false, "sage_quant"},
    {"reduce_segments", kAttention, false, "reduce_segments"},
    {"aiter::mla_a16w16_qh16_m16x4_n16x1_coex0_mask1", kAttention, true, "mla_a16w16_qh16_m16x4_n16x1_coex0_mask1"},
    {"kn_mla_reduce_v1_ps", kAttention, false, "kn_mla_reduce_v1_ps"},
    {"_fwd_kernel_stage2_asm", kAttention, false, "_fwd_stage2_asm"},
    {"_ZN5aiter24pa_bf16_noquant_gqa8_1tg_4wE", kAttention, true, "aiter pa_bf16_noquant_gqa8_1tg"},
    {"aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E", kGemm, true,
     "fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E"},
    {"void ck::kernel_moe_gemm<ck::GridwiseMoeGemmBlockScale<ck::tensor_layout::gemm::RowMajor, ck::f8_fnuz_t> >", kGemm,
     true, "kernel_moe_gemm"},
    {"void ck_tile::kentry<1, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int> > >", kReduction, false,
     "ck_tile"},
    {"void vllm::moe::topkGatingSoftmax<8, 256>", kReduction, false, "topkGatingSoftmax"},
    {"void aiter::kn_entry_2c_sbhd_cached_indirect_inplace<aiter::OpCachedFwd, 0, true>", kElementwise, false,
     "kn_entry_2c_sbhd_cached_indirect_inplace"},
    // DeepGEMM, TensorRT-LLM, Marlin, Triton
    {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>", kGemm, true, "sm90_fp8_gemm_1d2d_impl"},
    {"bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s6", kGemm, true, "bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s6"},
    {"void marlin::Marlin<__nv_bfloat16, 256, 1>", kGemm, true, "Marlin"},
    {"fused_moe_kernel", kGemm, true, "fused_moe"},
    {"_gemm_a8w8_blockscale_kernel", kGemm, true, "_gemm_a8w8_blockscale"},
    {"gemv2T_kernel_val", kGemm, false, "gemv2T_val"},
    {"batched_transpose_16x32_half", kCopy, false, "batched_transpose_16x32_half"},
    // Attention
    {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>, "
     "false>(pytorch_flash"
     "::Flash_fwd_params)",
     kAttention, true, "flash_fwd"},
    {"fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)", kAttention, true,
     "fmha_cutlassF_f32_aligned_64x64_rf_sm80"},
    {"fmha_cutlassF_f32_aligned_64x64_rf_sm70(PyTorchMemEffAttention::AttentionKernel::Params)", kAttention, false,
     "fmha_cutlassF_f32_aligned_64x64_rf_sm70"},
    {"attn_fwd", kAttention, true, "attn_fwd"},
    {"void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, (vllm::Fp8KVCacheDataType)0>(__hip_bfloat16 const*)",
     kCopy, false, "reshape_and_cache_flash"},
    // PyTorch
    {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, "
     "3> "
     ">(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
     kElementwise, false, "vectorized_elementwise add"},
    {"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor<float, float, "
     "float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)",
     kElementwise, false, "elementwise mul"},
    {"void "
     "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda("
     ")#2}::operator()() const, at::detail::Array<char*, 2> >(int)",
     kCopy, false, "unrolled_elementwise direct_copy"},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
     "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<"
     "float>, float>(at::native::(anonymous namespace)::TensorListMetadata<1>)",
     kElementwise, false, "multi_tensor_apply binary_op_scalar multiplies"},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
     "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
     "(at::native"
     "::(anonymous namespace)::ADAM_MODE)0, false>, float const*>(int)",
     kOptimizer, false, "multi_tensor_apply fused_adam"},
    {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int, int volatile*)", kOptimizer,
     false, "multi_tensor_apply adam"},
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::"
     "sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int> "
     ">(int)",
     kReduction, false, "reduce sum"},
    {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*)",
     kNormalization, false, "softmax_warp_forward"},
    {"void at::native::(anonymous namespace)::indexSelectLargeIndex<float, int, unsigned int, 1, 1, -2, true>(int)",
     kEmbedding, false, "indexSelectLargeIndex"},
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 64, 64>(float*)", kCopy,
     false, "CatArrayBatchedCopy"},
    {"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, cudnnTensorStruct)",
     kNormalization, false, "bn_bw_1C11_new"},
    // Inductor and Triton
    {"triton_poi_fused_convolution_relu_3", kElementwise, false, "triton_poi_fused_convolution_relu_3"},
    {"triton_poi_fused__to_copy_1", kCopy, false, "triton_poi_fused__to_copy_1"},
    {"triton_poi_fused_add_8845", kElementwise, false, "triton_poi_fused_add_8845"},
    {"triton_red_fused_add_mean_mul_pow_rsqrt_0", kNormalization, false, "triton_red_fused_add_mean_mul_pow_rsqrt_0"},
    {"triton_per_fused_sum_2", kReduction, false, "triton_per_fused_sum_2"},
    {"triton_tem_fused_addmm_relu_0", kGemm, true, "triton_tem_fused_addmm_relu_0"},
    {"triton_tem_fused_flex_attention_0", kAttention, true, "triton_tem_fused_flex_attention_0"},
    {"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", kGemm, true, "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"},
    {"triton__0d1d2d", kOther, false, "triton__0d1d2d"},
    // A library's name says nothing about the kernel
    {"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(x)", kNormalization, false, "FusedAddRMSNorm"},
    {"void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>(x)", kElementwise, false, "act_and_mul"},
    // Communication and copies
    {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", kCommunication, false,
     "nccl AllReduce ring_ll sum float"},
    {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", kCommunication, false, "nccl AllReduce ring_ll sum f32"},
    {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", kCommunication, false,
     "nccl SendRecv ring_simple sum int8_t"},
    {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", kCommunication, false, "nccl Generic"},
    {"Memcpy HtoD (Pageable -> Device)", kCopy, false, "Memcpy HtoD (Pageable -> Device)"},
    {"Memset (Device)", kCopy, false, "Memset (Device)"},
};

TEST(KernelNames, OfAttentionsBackwardPassOnRocm) {
  for (const char* name : {"bwd_preprocess", "bwd_kernel_dk_dv", "_bwd_kernel_dkdv_causal", "bwd_kernel_dq", "bwd_kernel_fuse"})
    EXPECT_EQ(kernel_category_name(kernel_category(name)), kernel_category_name(kAttention)) << name;
}

TEST(KernelNames, AreReadAsTheirMakersMeanThem) {
  for (const Known& k : kKnown) {
    EXPECT_EQ(kernel_category_name(kernel_category(k.name)), kernel_category_name(k.category)) << k.name;
    EXPECT_EQ(uses_tensor_cores(k.name, kernel_category(k.name)), k.tensor_cores) << k.name;
    EXPECT_EQ(short_kernel_name(k.name), k.short_name) << k.name;
  }
}

TEST(KernelNames, AnyCutOfANameHasAShortOne) {
  for (const Known& k : kKnown) {
    for (size_t size = 0; size <= k.name.size(); ++size) {
      const std::string cut(k.name.substr(0, size)), tail(k.name.substr(size));
      for (const std::string& name : {cut, tail, cut + "<", cut + ">", cut + "::(" + tail}) {
        const std::string shown = short_kernel_name(name);
        ASSERT_FALSE(shown.empty()) << name;
        ASSERT_LE(shown.size(), 60u) << name;
        ASSERT_EQ(shown, short_kernel_name(name));
        (void)uses_tensor_cores(name, kernel_category(name));
      }
    }
  }
}

TEST(KernelNames, EqualShortNamesAreToldApart) {
  const std::vector<std::string_view> names = {
      "void sgemm<float, 128, 6, 7>(int)",
      "void sgemm<float, 128, 5, 5>(int)",
      "void other(int)",
      "void sgemm<float, 128, 6, 7>(int)",
      "Cijk_Ailk_Bljk_BBS_BH_MT32x32x256_MI16x16x1_NTA0_K1",
      "Cijk_Ailk_Bljk_BBS_BH_MT32x32x256_MI16x16x1_NTA4_K1",
  };
  const std::vector<std::string> shown = distinct_short_names(names);
  EXPECT_EQ(shown[0], short_kernel_name(names[0]) + " (6)");
  EXPECT_EQ(shown[1], short_kernel_name(names[1]) + " (5)");
  EXPECT_EQ(shown[2], short_kernel_name(names[2]));
  EXPECT_EQ(shown[3], shown[0]);
  EXPECT_EQ(shown[4], short_kernel_name(names[4]) + " (NTA0)");
  EXPECT_EQ(shown[5], short_kernel_name(names[5]) + " (NTA4)");
  EXPECT_EQ(distinct_short_names({"f<1>(int)", "f<1 >(int)"})[1], short_kernel_name("f<1 >(int)") + " (#2)");
}

TEST(KernelNames, OddNamesDoNoHarm) {
  EXPECT_EQ(short_kernel_name(""), "(no name)");
  EXPECT_EQ(short_kernel_name("   "), "(no name)");
  for (const std::string_view name : {"<",           ">",     "(",       "::",         "<>",        "()",       "a::",
                                      "::b",         "_Z",    "_ZN",     "_ZN0E",      "_ZN999a",   "-> x",     "nccl",
                                      "ncclKernel_", "Cijk_", "cutlass", "sm80_xmma_", "igemm__bt", "operator<"}) {
    EXPECT_FALSE(short_kernel_name(name).empty()) << name;
    EXPECT_FALSE(uses_tensor_cores(name, kernel_category(name))) << name;
  }
  const std::string many(100'000, '<');
  EXPECT_LE(short_kernel_name(many).size(), 60u);
  std::string wide;
  for (int i = 0; i < 40; ++i) wide += "é";
  const std::string shown = short_kernel_name(wide);
  EXPECT_LE(shown.size(), 60u);
  EXPECT_EQ(shown.substr(shown.size() - 3), "…");
  EXPECT_EQ((shown.size() - 3) % 2, 0u);   // no half of a character
}

TEST(KernelNames, FunctorsAreFoundBehindWrappers) {
  EXPECT_EQ(functor_name("4, at::native::AbsFunctor<float>, at::detail::Array<char*, 2>"), "abs");
  EXPECT_EQ(functor_name("4, at::native::AUnaryFunctor<int, int, bool, at::native::CompareEqFunctor<int> >"),
            "compare_eq");
  EXPECT_EQ(functor_name("512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float> >"), "norm_two");
  EXPECT_EQ(functor_name("4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)"), "gelu");
  EXPECT_EQ(functor_name("4, float, 2ul"), "");
}

}  // namespace
}  // namespace profgpu
