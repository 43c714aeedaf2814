// What devices say once, waited for until a deadline only: one that hangs keeps nobody's facts but its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collect/backend.h"
#include "collect/pending.h"

namespace profgpu {

class PendingFacts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  PendingFacts(const std::shared_ptr<Backend>& backend, const std::vector<uint32_t>& devices) {
    for (const uint32_t d : devices) asked_.emplace_back([backend, d] { return backend->device_facts(d); });
  }
  /// In the order of the devices; nullopt: not told in time, and its thread is still in the driver.
  std::vector<std::optional<std::vector<Fact>>> await(Time deadline) {
    std::vector<std::optional<std::vector<Fact>>> facts;
    for (auto& asked : asked_) facts.push_back(asked.await(deadline));
    left_in_driver = left_in_driver || std::find(facts.begin(), facts.end(), std::nullopt) != facts.end();
    return facts;
  }

 private:
  std::vector<Pending<std::vector<Fact>>> asked_;
};

}  // namespace profgpu
