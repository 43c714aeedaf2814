// Facts: analyses of one rank's trace. Each is computed once, on first use, and kept.
// An analysis is a struct with `static T compute(const Facts&)`, which may use other facts. Thread-safe: a thread that
// needs an analysis while another computes it waits.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <unordered_map>

#include "trace/trace.h"

namespace profgpu {

struct AnalysisOptions {
  std::string step_pattern;   ///< POSIX extended regular expression, --step-pattern; empty: built-in names
  int64_t first_step = 0;     ///< --steps a:b: step numbers a to b - 1
  int64_t end_step = INT64_MAX;
};

class Facts {
 public:
  Facts(const Trace& trace, AnalysisOptions options) : trace_(trace), options_(std::move(options)) {}
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;

  [[nodiscard]] const Trace& trace() const { return trace_; }
  [[nodiscard]] const AnalysisOptions& options() const { return options_; }

  /// Sets a fact that this trace alone cannot show. Call before get<T>().
  template <class T>
  void provide(T fact) {
    known(typeid(T)).value = std::make_shared<const T>(std::move(fact));
  }

  template <class T>
  const T& get() const {
    Known& fact = known(typeid(T));
    std::call_once(fact.computed, [&] {
      if (!fact.value) fact.value = std::make_shared<const T>(T::compute(*this));
    });
    return *static_cast<const T*>(fact.value.get());
  }

 private:
  struct Known {
    std::once_flag computed;
    std::shared_ptr<const void> value;
  };
  Known& known(std::type_index type) const {
    const std::lock_guard lock(mutex_);
    return known_[type];   // adding others does not move it
  }

  const Trace& trace_;
  AnalysisOptions options_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::type_index, Known> known_;
};

/// A trace together with its facts.
struct TraceFacts {
  Trace trace;
  Facts facts;
  TraceFacts(Trace read, AnalysisOptions options) : trace(std::move(read)), facts(trace, std::move(options)) {}
};

struct RankFacts {
  int rank = 0;
  const Facts* facts = nullptr;
};

}  // namespace profgpu
