// Facts: analyses of one rank's trace. Each is computed once, on first use, and kept.
// An analysis is a struct with `static T compute(const Facts&)`, which may use other facts. Thread-safe: a thread that
// needs an analysis while another computes it waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analyse/work/device_limits.h"
#include "analyse/work/model_config.h"
#include "trace/trace.h"

namespace profgpu {

/// What a step processes on one GPU, as the user says; see StepLoad.
struct GivenLoad {
  std::optional<double> tokens, samples, sequence_length;
};

/// What a kilowatt hour costs; none: not given.
struct EnergyRates {
  std::optional<double> price_per_kwh, gco2_per_kwh;
};

struct AnalysisOptions {
  std::string step_pattern;   ///< POSIX extended regular expression, --step-pattern; empty: built-in names
  int64_t first_step = 0;     ///< --steps a:b: step numbers a to b - 1
  int64_t end_step = INT64_MAX;
  std::string gpu = {};       ///< --gpu: what the trace's devices are; empty: as the trace says
  MeasuredMachine machine = {};           ///< this one, by `profgpu bench --save`: for traces of devices with its UUIDs
  MeasuredMachine peaks = {};             ///< --peaks; without devices: the machine's, else known_limits()
  GivenLoad load = {};                    ///< --tokens-per-step, --samples-per-step
  EnergyRates rates = {};                 ///< --price-kwh, --gco2-kwh
  std::optional<ModelConfig> model = {};  ///< --model-config
};

class Facts {
 public:
  Facts(const Trace& trace, AnalysisOptions options) : trace_(trace), options_(std::move(options)) {}
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;

  [[nodiscard]] const Trace& trace() const { return trace_; }
  [[nodiscard]] const AnalysisOptions& options() const { return options_; }

  /// Sets a fact that this trace alone cannot show, in the place of one that was computed. No other thread may use the
  /// facts meanwhile, and what get<T>() gave before is gone.
  template <class T>
  void provide(T fact) {
    Known& known = known_[kIndex<T>];
    known.value = std::make_shared<const T>(std::move(fact));
    known.computed.store(known.value.get(), std::memory_order_release);
  }

  /// Costs a few instructions once the fact is known, so that loops may call it.
  template <class T>
  const T& get() const {
    Known& fact = known_[kIndex<T>];
    const void* value = fact.computed.load(std::memory_order_acquire);
    return *static_cast<const T*>(value != nullptr ? value : compute<T>(fact));
  }

 private:
  struct Known {
    std::once_flag once;
    std::shared_ptr<const void> value;
    std::atomic<const void*> computed = nullptr;   ///< the value, once it has been computed
  };
  // Every type of fact that the program uses has an index of its own, assigned before main() begins.
  static inline size_t types_ = 0;
  template <class T>
  static inline const size_t kIndex = types_++;

  template <class T>
  const void* compute(Known& fact) const {
    std::call_once(fact.once, [&] {
      if (!fact.value) fact.value = std::make_shared<const T>(T::compute(*this));
      fact.computed.store(fact.value.get(), std::memory_order_release);
    });
    return fact.value.get();
  }

  const Trace& trace_;
  AnalysisOptions options_;
  std::unique_ptr<Known[]> known_ = std::make_unique<Known[]>(types_);
};

/// A trace together with its facts.
struct TraceFacts {
  Trace trace;
  Facts facts;
  /// The trace's devices are what the options call them.
  TraceFacts(Trace read, AnalysisOptions options);
};

struct RankFacts {
  int rank = 0;
  const Facts* facts = nullptr;
};

}  // namespace profgpu
