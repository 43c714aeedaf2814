// What can be exported: the traces of a run's ranks with their facts, and samples of devices.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyse/devices.h"
#include "analyse/idle.h"
#include "job/job.h"
#include "analyse/kernels.h"
#include "analyse/ops.h"
#include "analyse/phases.h"
#include "trace/sample.h"

namespace profgpu {

/// One rank, with the analyses that its rows are described by. Each is computed when first asked for. One thread.
class RankRows {
 public:
  RankRows(int rank, const Facts& facts) : rank_(rank), facts_(facts) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  [[nodiscard]] const Trace& trace() const { return facts_.trace(); }
  [[nodiscard]] const Devices& devices() const { return kept(devices_); }
  [[nodiscard]] const Kernels& kernels() const { return kept(kernels_); }
  [[nodiscard]] const Ops& ops() const { return kept(ops_); }
  [[nodiscard]] const Phases& phases() const { return kept(phases_); }
  /// Every gap of every device, by device.
  [[nodiscard]] const std::vector<const Gap*>& gaps() const;
  [[nodiscard]] const Idle& idle() const { return kept(idle_); }
  /// short_kernel_name() of a name of the trace; lives as long as this.
  [[nodiscard]] std::string_view short_name(StringId name) const;

 private:
  template <class T>
  const T& kept(const T*& fact) const {
    if (fact == nullptr) fact = &facts_.get<T>();
    return *fact;
  }
  int rank_;
  const Facts& facts_;
  mutable const Devices* devices_ = nullptr;
  mutable const Kernels* kernels_ = nullptr;
  mutable const Ops* ops_ = nullptr;
  mutable const Phases* phases_ = nullptr;
  mutable const Idle* idle_ = nullptr;
  mutable std::vector<const Gap*> gaps_;
  mutable std::unordered_map<uint32_t, std::string> short_names_;
};

struct RunRows {
  std::deque<RankRows> ranks;          ///< by rank; none: samples alone
  const Job* job = nullptr;            ///< null for one rank
  const SampleLog* samples = nullptr;  ///< null: none

  /// What is added to a rank's times to get Unix time, or what stands for it, on the first rank's clock.
  [[nodiscard]] int64_t unix_shift_ns(const RankRows& rank) const;
  /// For each series of samples, the samples up to its end.
  [[nodiscard]] const std::vector<size_t>& sample_ends() const;

 private:
  mutable std::vector<size_t> sample_ends_;
};

/// "op", "runtime" ... and "kernel", "memcpy", "memset", as the tables and timelines name them.
std::string_view host_kind_name(HostKind kind);
std::string_view activity_kind_name(ActivityKind kind);

}  // namespace profgpu
