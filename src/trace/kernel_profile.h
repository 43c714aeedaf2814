// KernelProfile: hardware counters of single kernel launches, as Nsight Compute measures them, and which kernels of a
// trace these launches are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace profgpu {

/// What was measured of one launch; none: the file does not have it.
struct ProfiledLaunch {
  std::string kernel;                        ///< as the tool prints it
  std::array<int32_t, 3> grid{}, block{};    ///< 0: not stated
  int32_t device = 0;
  int64_t stream = 0;
  std::optional<double> duration_ns;
  std::optional<double> sm_pct, memory_pct;  ///< of the peak rates of the multiprocessors, and of the memory system
  std::optional<double> dram_pct, dram_bytes;
  std::optional<double> occupancy_pct, theoretical_occupancy_pct;
  std::optional<double> registers;
  /// Reasons for which warps do not issue, as the tool names them, and how often or how long; only shares count.
  std::vector<std::pair<std::string, double>> stalls;
};

struct KernelProfile {
  std::vector<ProfiledLaunch> launches;      ///< in the order of the file
  /// The trace has other times than these: it was recorded by another tool.
  bool joined = false;
};

/// A kernel's function without return type, namespaces, template arguments and parameters: "gemm" of
/// "void ns::gemm<float, 4>(float*)". Nsight Compute selects kernels by it.
std::string_view kernel_function(std::string_view name);

/// Profiled launches of one kernel, grid and block.
struct ProfiledKernel {
  enum class By : uint8_t { kNone, kName, kFunction };
  By by = By::kNone;                         ///< how the trace's kernel was found
  bool ambiguous = false;                    ///< several kernels of the trace could be this one
  std::vector<size_t> profiled;              ///< in KernelProfile::launches, in the order of the file
  /// All of the trace, in order of time: the first one is the first of `profiled`, and so on as far as both go.
  std::vector<ActivityId> launches;
};

/// In the order of the file. A kernel is found by its name, else by its function; then by grid and block.
std::vector<ProfiledKernel> match_profile(const KernelProfile& profile, const Trace& trace);

}  // namespace profgpu
