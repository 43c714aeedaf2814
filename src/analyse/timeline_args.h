// What events were called with, as keys and texts for a person; events that agree share an entry of the page.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/page.h"
#include "trace/trace.h"

namespace profgpu {

class TimelineArgs {
 public:
  TimelineArgs(const Trace& trace, PageData& page);

  uint32_t of(ActivityArgsId id);
  uint32_t of(HostId row);
  uint32_t of(const Collective& call);

 private:
  // Beyond that many sets, calls differ so much that arguments would be most of the page.
  static constexpr size_t kMost = 50'000;

  uint32_t add(PageArgs args);
  uint32_t of(OpArgsId id);

  const Trace& trace_;
  PageData& page_;
  std::vector<uint32_t> of_activity_, of_op_;            // known ones, else kUnknown
  std::unordered_map<std::string, uint32_t> known_;
};

}  // namespace profgpu
