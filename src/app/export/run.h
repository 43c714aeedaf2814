// What can be exported: the traces of a run's ranks with their facts, and samples of devices.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyse/job/job.h"
#include "analyse/job/rank_digest.h"
#include "analyse/rank/collectives.h"
#include "analyse/rank/devices.h"
#include "analyse/rank/energy.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/phases.h"
#include "base/byte_writer.h"
#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

/// One rank, with the analyses that its rows are described by. Each is computed when first asked for. One thread.
///
/// What an outline does not tell needs the rank's events: of a rank that is read when it is needed, between load() and
/// drop().
class RankRows {
 public:
  static constexpr Interval kAllTime = TracePart::kAllTime;
  using Reader = std::function<Result<std::unique_ptr<TraceFacts>>()>;

  /// Its events are there for good.
  RankRows(int rank, const Facts& facts, Interval part = kAllTime);
  /// They are read by `read`. `timings` must outlive this.
  RankRows(int rank, RankOutline outline, const CallTimings& timings, Reader read);

  /// The error: they cannot be read again.
  [[nodiscard]] Status load() const;
  void drop() const;
  [[nodiscard]] bool stays() const { return !read_; }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const RankOutline& outline() const { return outline_; }
  [[nodiscard]] const CallTimings& timings() const { return *timings_; }
  [[nodiscard]] bool is_cut() const { return outline_.is_cut(); }
  /// Where the rank begins: of a cut one, where it was cut.
  [[nodiscard]] int64_t start_ns() const { return is_cut() ? outline_.part->start : extent().start; }
  /// From the first to the last time of any range or activity that is shown; empty: there is none.
  [[nodiscard]] Interval extent() const { return outline_.extent.value_or(Interval{}); }
  /// Of kernels of collectives.
  [[nodiscard]] bool shows_call(ActivityId a) const;

  [[nodiscard]] const Facts& facts() const { return *loaded_->facts; }
  [[nodiscard]] const Trace& trace() const { return facts().trace(); }
  [[nodiscard]] const Devices& devices() const { return kept(loaded_->devices); }
  [[nodiscard]] const Kernels& kernels() const { return kept(loaded_->kernels); }
  [[nodiscard]] const Ops& ops() const { return kept(loaded_->ops); }
  [[nodiscard]] const Phases& phases() const { return kept(loaded_->phases); }
  /// Every gap of every device, by device.
  [[nodiscard]] const std::vector<const Gap*>& gaps() const;
  [[nodiscard]] const Idle& idle() const { return kept(loaded_->idle); }
  [[nodiscard]] std::optional<Interval> shown(Interval range) const { return loaded_->part.shown(range); }
  template <class What>
  [[nodiscard]] bool shows(What what) const {
    return !is_cut() || loaded_->part.shows(what);
  }
  /// short_kernel_name() of a name of the trace; lives as long as the events.
  [[nodiscard]] std::string_view short_name(StringId name) const;

 private:
  struct Loaded {
    std::unique_ptr<TraceFacts> own;   // null: they are another's
    const Facts* facts;
    TracePart part;
    const Devices* devices = nullptr;
    const Kernels* kernels = nullptr;
    const Ops* ops = nullptr;
    const Phases* phases = nullptr;
    const Idle* idle = nullptr;
    std::vector<const Gap*> gaps = {};
    std::unordered_map<uint32_t, std::string> short_names = {};
  };
  template <class T>
  const T& kept(const T*& fact) const {
    if (fact == nullptr) fact = &facts().get<T>();
    return *fact;
  }
  int rank_;
  RankOutline outline_;
  const CallTimings* timings_;
  Reader read_;                        // null: the events are there for good
  mutable std::unique_ptr<Loaded> loaded_;
};

/// From a rank's times to Unix time, or what stands for it, on the clock of the job's first rank. Later times never
/// come out earlier.
class RunClock {
 public:
  RunClock(int64_t base_ns, const RankClock* clock) : base_ns_(base_ns), clock_(clock) {}
  [[nodiscard]] int64_t operator()(int64_t time_ns) const {
    return clock_ != nullptr ? clock_->aligned(saturated_add(time_ns, base_ns_)) : saturated_add(time_ns, base_ns_);
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
  const std::map<int, EnergySection>* energy = nullptr;   ///< by rank; null: no samples

  /// Null: not known.
  [[nodiscard]] const EnergySection* energy_of(const RankRows& rank) const {
    const auto found = energy != nullptr ? energy->find(rank.rank()) : std::map<int, EnergySection>::const_iterator();
    return energy != nullptr && found != energy->end() ? &found->second : nullptr;
  }

  /// Null: a job of one rank.
  [[nodiscard]] const RankClock* job_clock(const RankRows& rank) const;
  /// A rank that nothing ties to the others begins with the first one that something does.
  [[nodiscard]] RunClock clock(const RankRows& rank) const;
  /// Ranks one after the other, each with its events, of which no two ranks' are there at once if they are read. The
  /// error: a rank's cannot be.
  template <class Each>
  [[nodiscard]] Status each_rank(Each&& each) const {
    for (const RankRows& rank : ranks) {
      if (Status status = rank.load(); !status) return status;
      each(rank);
      rank.drop();
    }
    return ok();
  }
  /// For each series of samples, the samples up to its end.
  [[nodiscard]] const std::vector<size_t>& sample_ends() const;

 private:
  mutable std::vector<size_t> sample_ends_;
};

/// The first and last time of anything that is shown, on the run's clock; of samples alone: theirs. Empty: there is
/// nothing.
Interval span_of(const RunRows& run);

/// What to say of a rank's clock that collectives do not settle; empty: nothing.
std::string_view clock_note(const RankClock& clock);

/// "op", "runtime" ... and "kernel", "memcpy", "memset", as the tables and timelines name them.
std::string_view host_kind_name(HostKind kind);
std::string_view activity_kind_name(ActivityKind kind);

// Exporter: a run in the format of another tool.

enum class Weight : uint8_t { kHost, kDevice };   ///< of stacks: time on the host, or of what they launched

/// How CSV writes names, which come from the profiled program. What a spreadsheet would take for a formula (it begins
/// with =, +, -, @, a tab or a carriage return, and is no number) gets an apostrophe before it, except in kRaw.
enum class CsvText : uint8_t {
  kForFile,       ///< control characters stay, quoted
  kForTerminal,   ///< they are escaped
  kRaw,           ///< names as they are
};

struct ExportOptions {
  Weight weight = Weight::kHost;
  std::string table = {};            ///< of formats that are a folder of tables: only this one
  CsvText csv = CsvText::kForFile;
};

struct Exporter {
  std::string_view name;
  std::string_view summary;      ///< one clause
  std::string_view reader;       ///< what opens it: "Perfetto (ui.perfetto.dev)"
  std::string_view extension;    ///< of the file, with its dot; of each file in a folder
  /// From front to back. An error is about the run; whether bytes could be written, the writer knows.
  Status (*write)(const RunRows& run, const ExportOptions& options, ByteWriter& out) = nullptr;
  /// Of formats that are written in place, instead: a file that is there already, and empty.
  Status (*write_file)(const RunRows& run, const std::string& path, std::atomic<int64_t>* written) = nullptr;
  /// Of formats that are a folder: what options.table may be.
  Result<std::vector<std::string>> (*tables)(const RunRows& run) = nullptr;
};

const std::vector<const Exporter*>& exporters();

/// Of a format that shows what was traced, where only samples are at hand.
Error only_samples(std::string_view format);

}  // namespace profgpu
