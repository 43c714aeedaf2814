// What the device's work computes and moves: the FLOPs and bytes of operators, and which kernels do them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/tile_bounds.h"
#include "analyse/rank/work_per_step.h"
#include "analyse/report/document.h"
#include "analyse/work/op_work.h"

namespace profgpu {

/// What the name of a product's kernel shows, as cuBLAS, cuDNN, CUTLASS and hipBLASLt make them.
Precision precision_in_kernel_name(std::string_view name);

/// The text of an operator's recorded shapes; invalid: not recorded.
inline StringId shapes_of(const Trace& trace, HostId op) {
  const OpArgsId args = trace.host.args[op.value];
  return args.valid() ? trace.op_args[args.value].shapes : StringId();
}
/// Of an operator; nothing in `at`: not recorded.
OpInputs op_inputs(const Trace& trace, HostId op);

/// Work of each operator on the host. One with FLOPs inside another with FLOPs counts, and the outer one does not:
/// aten::linear calls aten::addmm.
struct OpWorks {
  std::vector<OpWork> known;             ///< distinct; the first is unknown in all
  std::vector<uint32_t> of_host;         ///< by host row: index into known; 0: unknown, or an inner operator has it
  bool shapes = false;                   ///< whether any operator has recorded shapes
  bool values = false;                   ///< whether any has recorded values of its other inputs

  /// Of one call.
  [[nodiscard]] const OpWork& of(HostId op) const { return known[of_host[op.value]]; }
  static OpWorks compute(const Facts& facts);
};

struct HashOfWork {
  size_t operator()(const OpWork& w) const;
};

/// A call of an operator with known work, and the kernels that do it. One that was captured into a graph is done once
/// for each replay.
struct WorkRun {
  HostId op;
  const OpWork* work;        ///< precision: TF32 where a kernel's name or speed shows that FP32 is rounded to it
  ActivityId first;          ///< of its kernels, the one that starts first
  int64_t device_ns = 0;     ///< sum of its kernels' durations
};

/// Kernels whose FLOPs or bytes are not known, or whose FLOPs have only a lower bound, by what launched them.
struct UnknownWorkRow {
  std::string name;          ///< of the operator; of the kernel where none launched it
  std::string reason;        ///< "no shapes recorded" ...
  int64_t kernels = 0;
  int64_t device_ns = 0;

  void fields(auto&& v) const {
    v("name", name), v("reason", reason), v("kernels", kernels), v("device_ns", device_ns);
  }
};

/// Kernels but for communication. A kernel's work is that of the innermost operator around its launch whose work is
/// known.
struct DeviceWork {
  static constexpr uint32_t kNone = UINT32_MAX;

  DeviceWork() = default;
  DeviceWork(DeviceWork&&) = default;    // a copy's runs would point into the original
  DeviceWork& operator=(DeviceWork&&) = default;

  std::unordered_set<OpWork, HashOfWork> works;   ///< that runs point to: most are alike
  std::vector<WorkRun> runs;             ///< by first
  std::vector<uint32_t> run_of;          ///< by activity: index into runs; kNone: unknown, or none of these kernels
  std::vector<Precision> by_name;        ///< by StringId, for names of kernels of products: what the name shows
  int64_t kernel_ns = 0;                 ///< sum of durations
  int64_t flops_known_ns = 0, bytes_known_ns = 0;
  std::vector<UnknownWorkRow> unknown;   ///< most time first

  /// For a run to point to.
  [[nodiscard]] const OpWork* keep(const OpWork& work) { return &*works.insert(work).first; }
  /// Null: unknown.
  [[nodiscard]] const WorkRun* run(ActivityId a) const {
    return run_of[a.value] == kNone ? nullptr : &runs[run_of[a.value]];
  }
  static DeviceWork compute(const Facts& facts);
};

/// Work of one family of operators.
struct FamilyWorkRow {
  std::string family;        ///< "products", "attention" ...
  int64_t calls = 0;
  int64_t flops = 0, needed_flops = 0, bytes = 0;   ///< of calls where they are known
  int64_t device_ns = 0;
  bool flops_is_lower_bound = false;                ///< some calls have at least so many

  void fields(auto&& v) const {
    v("family", family), v("calls", calls), v("flops", flops), v("needed_flops", needed_flops), v("bytes", bytes);
    v("device_ns", device_ns), v("flops_is_lower_bound", flops_is_lower_bound);
  }
};

struct WorkSection {
  bool shapes = false, values = false;
  int64_t kernel_ns = 0;
  double flops_known_pct = 0, bytes_known_pct = 0;   ///< of kernel_ns
  std::vector<FamilyWorkRow> families;               ///< most time first
  std::vector<UnknownWorkRow> unknown;               ///< likewise; at most kMaxUnknown
  WorkPerStep per_step;
  std::vector<TileBoundRow> at_least;                ///< of products without shapes, most time first; see there
  std::string advice;                                ///< how to record what is missing; empty: nothing is
  static constexpr size_t kMaxUnknown = 20;

  void fields(auto&& v) const {
    v("shapes_recorded", shapes), v("values_recorded", values), v("kernel_ns", kernel_ns);
    v("flops_known_pct", flops_known_pct), v("bytes_known_pct", bytes_known_pct), v("families", families);
    v("per_step", per_step), v("at_least", at_least), v("unknown", unknown), v("advice", only_if(!advice.empty(), advice));
  }
  /// None without such kernels.
  static std::optional<WorkSection> compute(const Facts& facts);
};

}  // namespace profgpu
