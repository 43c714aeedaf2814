// Why kernels of operators are slow, from sizes, grids, layouts, precisions and the library's choice of kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rules/measure.h"
#include "analyse/work/op_work.h"

namespace profgpu {

/// Calls of one operator with the same shapes and precision, of those that a rule is about.
struct SlowOp {
  HostId op;                   ///< one of them
  Precision precision = Precision::kUnknown;
  ActivityId kernel;           ///< the longest of its kernels
  int64_t ns = 0;
  double least_ns = 0, flops = 0, bytes = 0;
  double lost_ns = 0;          ///< over a good kernel's time

  /// Of its time, what the limit needs.
  [[nodiscard]] double limit_part() const { return least_ns / static_cast<double>(ns); }
};

struct SizeReason {
  std::string text;                    ///< "the inner size is only 64"; empty: not known
  std::vector<std::string> fixes;
  int64_t busy_multiprocessors = 0;    ///< the others have no block; 0: that is not the reason
};

/// "products", "attention" ...; empty: none.
std::string_view family_of(const Measured& m, const SlowOp& op);
/// Products, convolutions and attention have FLOPs; what only moves bytes has none.
bool computes(const Measured& m, const SlowOp& op);
/// From sizes, grids, and kernels that a library falls back to; none: they suit the device.
std::optional<SizeReason> size_reason(const Measured& m, const SlowOp& op);
/// Of what computing limits: also from the precision.
std::optional<SizeReason> reason_of(const Measured& m, const SlowOp& op);
/// How inputs lie in memory, of what only moves bytes; empty: in one order, and dense.
std::string layout_text(const Measured& m, const SlowOp& op);
/// Has the library choose other kernels.
std::string other_kernels(const Measured& m, const SlowOp& op);
/// "at 47 % of its limit, 620 of 1,307 TFLOP/s (88 % of the 708 that AMD measures at most)"
std::string rate_text(const Measured& m, const SlowOp& op);
/// The vendor that measured what products of that precision reach at most; empty: none did.
std::string_view measured_by(const Measured& m, Precision precision);
/// Of the result, in the tiles that the kernel's name shows: what is padding, 0 to 1; 0: it shows none.
double tile_padding(std::string_view kernel, const ProductSizes& product);

}  // namespace profgpu
