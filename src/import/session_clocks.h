// What the sessions of a recording (`session.json`) say of their hosts' clocks.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "trace/trace.h"

namespace profgpu {

class SessionClocks {
 public:
  /// A file that cannot be read, or says nothing, adds nothing. Of several statements on a host the largest error stands;
  /// one that it was not synchronised stands before all.
  void add(const std::string& path);
  [[nodiscard]] bool empty() const { return by_host_.empty(); }
  [[nodiscard]] std::optional<ClockStatement> of(const std::string& host) const;

 private:
  void add(const std::string& host, ClockStatement statement);
  std::map<std::string, ClockStatement> by_host_;
};

}  // namespace profgpu
