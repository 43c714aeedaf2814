// What can be exported: the traces of a run's ranks with their facts, and samples of devices.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyse/devices.h"
#include "analyse/idle.h"
#include "analyse/kernels.h"
#include "analyse/ops.h"
#include "analyse/phases.h"
#include "job/job.h"
#include "trace/sample.h"

namespace profgpu {

/// One rank, with the analyses that its rows are described by. Each is computed when first asked for. One thread.
///
/// Of a rank that is cut to a part of its time, timelines show what lies in that part: host ranges up to its ends, and
/// whole whatever a device ran in it or was given in it.
class RankRows {
 public:
  static constexpr Interval kAllTime{INT64_MIN, INT64_MAX};
  RankRows(int rank, const Facts& facts, Interval part = kAllTime) : rank_(rank), facts_(facts), part_(part) {}

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

  [[nodiscard]] bool is_cut() const { return part_ != kAllTime; }
  /// What is shown of a range; none: nothing.
  [[nodiscard]] std::optional<Interval> shown(Interval range) const;
  [[nodiscard]] bool shows(int64_t time_ns) const { return part_.start <= time_ns && time_ns <= part_.end; }
  [[nodiscard]] bool shows(HostId h) const { return shown(trace().host.interval(h)).has_value(); }
  [[nodiscard]] bool shows(ActivityId a) const;
  /// Where the rank begins: of a cut one, where it was cut.
  [[nodiscard]] int64_t start_ns() const { return is_cut() ? part_.start : extent().start; }
  /// From the first to the last time of any range or activity that is shown; empty: there is none.
  [[nodiscard]] Interval extent() const;
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
  Interval part_;
  mutable const Devices* devices_ = nullptr;
  mutable const Kernels* kernels_ = nullptr;
  mutable const Ops* ops_ = nullptr;
  mutable const Phases* phases_ = nullptr;
  mutable const Idle* idle_ = nullptr;
  mutable std::vector<const Gap*> gaps_;
  mutable std::unordered_map<uint32_t, std::string> short_names_;
};

/// From a rank's times to Unix time, or what stands for it, on the clock of the job's first rank. Later times never
/// come out earlier.
class RunClock {
 public:
  RunClock(int64_t base_ns, const RankClock* clock) : base_ns_(base_ns), clock_(clock) {}
  [[nodiscard]] int64_t operator()(int64_t time_ns) const {
    return clock_ != nullptr ? clock_->aligned(time_ns + base_ns_) : time_ns + base_ns_;
  }
  [[nodiscard]] Interval operator()(Interval range) const { return {(*this)(range.start), (*this)(range.end)}; }

 private:
  int64_t base_ns_;
  const RankClock* clock_;   // null: the rank's own times
};

struct RunRows {
  std::deque<RankRows> ranks;          ///< by rank; none: samples alone
  const Job* job = nullptr;            ///< null for one rank; may know more ranks
  const SampleLog* samples = nullptr;  ///< null: none

  /// Null: a job of one rank.
  [[nodiscard]] const RankClock* job_clock(const RankRows& rank) const;
  /// A rank that nothing ties to the others begins with the first one that something does.
  [[nodiscard]] RunClock clock(const RankRows& rank) const;
  /// For each series of samples, the samples up to its end.
  [[nodiscard]] const std::vector<size_t>& sample_ends() const;

 private:
  mutable std::vector<size_t> sample_ends_;
};

/// What to say of a rank's clock that collectives do not settle; empty: nothing.
std::string_view clock_note(const RankClock& clock);

/// "op", "runtime" ... and "kernel", "memcpy", "memset", as the tables and timelines name them.
std::string_view host_kind_name(HostKind kind);
std::string_view activity_kind_name(ActivityKind kind);

}  // namespace profgpu
