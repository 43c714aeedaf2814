// TileBounds: what kernels of products without shapes execute at least, from the tiles in their names and their grids.
//
// A block of threads computes one tile of the result, in steps along the inner size; it makes at least one. What it
// multiplies for it, padding included, is executed, but how many steps there are only shapes tell. So it is a lower
// bound of what the device executes, not an estimate, and takes part in no utilization.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "analyse/work/op_work.h"

namespace profgpu {

/// Elements of the result that a block computes, and of the inner size in one step (1: not in the name).
struct ProductTile {
  int64_t rows = 0, columns = 0, depth = 1;
  bool operator==(const ProductTile&) const = default;
};
/// Of "ampere_sgemm_128x64_tn", "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_tn_align8",
/// "sm80_xmma_gemm_..._tilesize128x128x32_...", "Cijk_..._MT256x128x64_...". None: another name, or blocks of that
/// kernel may have nothing to do (clusters, persistent and stream-K kernels).
std::optional<ProductTile> product_tile(std::string_view kernel);
/// Into how many parts Tensile's kernel of that name splits the inner size ("_GSU2_"); 1: it says nothing of it.
int64_t inner_parts(std::string_view kernel);

struct TileBoundRow {
  std::string name;                 ///< of the kernel
  Precision precision = Precision::kUnknown;
  int64_t kernels = 0, device_ns = 0;
  int64_t executed_flops = 0;       ///< at least

  void fields(auto&& v) const {
    v("name", name), v("precision", unless_empty(precision_name(precision))), v("kernels", kernels);
    v("device_ns", device_ns), v("executed_flops_at_least", executed_flops);
  }
};

/// Kernels of products whose FLOPs no operator tells; most time first.
struct TileBounds {
  std::vector<TileBoundRow> rows;
  static constexpr size_t kMaxRows = 20;
  static TileBounds compute(const Facts& facts);
};

}  // namespace profgpu
