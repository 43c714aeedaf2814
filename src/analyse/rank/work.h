// What the device's work computes and moves: the FLOPs and bytes of operators, and which activities do them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "analyse/work/op_work.h"

namespace profgpu {

/// A call of an operator with known work, and the activities that do it. One that was captured into a graph is done once
/// for each replay.
struct WorkRun {
  HostId op;
  OpWork work;               ///< precision: the kernels' own where their names tell (TF32), else the inputs'
  ActivityId first;          ///< of its activities, the one that starts first
  int64_t device_ns = 0;     ///< sum of its activities' durations
};

/// An operator whose work is not known, and the device time that it is innermost for.
struct UnknownWorkRow {
  std::string name;          ///< of the operator; of the kernel where none launched it
  std::string_view reason;   ///< "no shapes", "no values", "unknown op", "no op"
  int64_t calls = 0;
  int64_t device_ns = 0;

  void fields(auto&& v) const { v("name", name), v("reason", reason), v("calls", calls), v("device_ns", device_ns); }
};

/// An activity's work is that of the innermost operator around its launch whose work is known. An operator with FLOPs
/// inside one with FLOPs counts, and the outer one does not: aten::linear calls aten::addmm.
struct DeviceWork {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::vector<WorkRun> runs;             ///< by first
  std::vector<uint32_t> run_of;          ///< by activity: index into runs; kNone: unknown, or no kernel
  std::vector<Precision> by_name;        ///< by StringId, for names of kernels: what the name shows
  std::vector<OpWork> known;             ///< distinct; the first is unknown in all
  std::vector<uint32_t> of_host;         ///< by host row: index into known; 0: unknown, or an inner operator has it
  int64_t kernel_ns = 0;                 ///< of all kernels but communication: sum of durations
  int64_t flops_known_ns = 0, bytes_known_ns = 0;
  std::vector<UnknownWorkRow> unknown;   ///< most time first
  bool shapes = false;                   ///< whether any operator has recorded shapes

  /// Of one call; unknown in all where an inner operator has it.
  [[nodiscard]] const OpWork& of(HostId op) const { return known[of_host[op.value]]; }
  /// Null: unknown.
  [[nodiscard]] const WorkRun* run(ActivityId a) const {
    return run_of[a.value] == kNone ? nullptr : &runs[run_of[a.value]];
  }
  static DeviceWork compute(const Facts& facts);
};

}  // namespace profgpu
