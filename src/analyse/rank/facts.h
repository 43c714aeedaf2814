// Facts: what is known about one rank's trace. Each analysis is computed once, when first asked for, and kept.
// An analysis is a struct with `static T compute(const Facts&)`; it may ask Facts for others. Several threads may ask:
// who comes while an analysis is being computed waits for it.
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
  int64_t first_step = 0;     ///< --steps a:b: indices a up to b - 1
  int64_t end_step = INT64_MAX;
};

class Facts {
 public:
  Facts(const Trace& trace, AnalysisOptions options) : trace_(trace), options_(std::move(options)) {}
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;

  [[nodiscard]] const Trace& trace() const { return trace_; }
  [[nodiscard]] const AnalysisOptions& options() const { return options_; }

  /// Gives a fact that this trace alone cannot tell, before anybody asks for it.
  template <class T>
  void know(T fact) {
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
    return known_[type];   // stays where it is when others are added
  }

  const Trace& trace_;
  AnalysisOptions options_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::type_index, Known> known_;
};

/// A trace together with its facts, for who keeps both.
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
