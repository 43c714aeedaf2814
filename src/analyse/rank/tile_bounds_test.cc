#include "analyse/rank/tile_bounds.h"

#include <gtest/gtest.h>

#include "analyse/rank/work.h"
#include "support/hand_trace.h"

namespace profgpu {
namespace {

TEST(TileBounds, TilesAreInTheNamesOfProducts) {
  const auto tile = [](int64_t rows, int64_t columns, int64_t depth) {
    return std::optional(ProductTile{rows, columns, depth});
  };
  EXPECT_EQ(product_tile("volta_sgemm_64x32_nt"), tile(64, 32, 1));
  EXPECT_EQ(product_tile("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>("
                         "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)"),
            tile(256, 128, 32));
  EXPECT_EQ(product_tile("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment"
                         "_k_off_kernel__5x_cublas"),
            tile(128, 128, 64));
  // Tensile's last steps are shorter than the depth in its name.
  EXPECT_EQ(product_tile("Cijk_Alik_Bljk_B_BS_BH_UserArgs_MT256x128x64_MI16x16x1_SN_SK0"), tile(256, 128, 1));
}

TEST(TileBounds, PartsOfTheInnerSizeAreInTensilesNames) {
  EXPECT_EQ(inner_parts("Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_GRVWn1_GSU2_GSUAMB_GLS0"), 2);
  EXPECT_EQ(inner_parts("Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_GSUAMB"), 1);
}

TEST(TileBounds, WhereBlocksMayHaveNothingToDoThereIsNone) {
  EXPECT_FALSE(product_tile("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cga2x1x1_kernel"));
  EXPECT_FALSE(product_tile("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"));
  EXPECT_FALSE(product_tile("Cijk_Alik_Bljk_B_BS_BH_MT256x128x64_MI16x16x1_SK3_SN"));
  EXPECT_FALSE(product_tile("void elementwise_kernel<128, 4>"));
  EXPECT_FALSE(product_tile("triton_gemm"));
}

// 3 x 2 blocks of 64 x 32, each at least one step of 1.
TEST(TileBounds, BlocksTimesTheirTileAreExecutedAtLeast) {
  HandTrace t;
  t.op("aten::mm", 0, 100).kernel("volta_sgemm_64x32_nt", 10, 20, 30, 60);
  t.shaped_op("aten::mm", 200, 300, "[[2, 3], [3, 4]]", R"(["float", "float"])");
  t.kernel("volta_sgemm_64x32_nt", 210, 220, 230, 270);
  Trace trace = t.build();
  for (ActivityArgs& args : trace.activity_args) args.grid[0] = 3, args.grid[1] = 2, args.grid[2] = 1;
  const Facts facts(trace, {});
  const TileBounds& bounds = facts.get<TileBounds>();
  ASSERT_EQ(bounds.rows.size(), 1U);
  EXPECT_EQ(bounds.rows[0].kernels, 1);   // the other's FLOPs are known
  EXPECT_EQ(bounds.rows[0].device_ns, 30'000);
  EXPECT_EQ(bounds.rows[0].executed_flops, 6 * 2 * 64 * 32);
  EXPECT_EQ(bounds.rows[0].precision, Precision::kFp32);
  // They are no known work.
  EXPECT_EQ(facts.get<DeviceWork>().flops_known_ns, 40'000);
}

}  // namespace
}  // namespace profgpu
