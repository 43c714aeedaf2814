#include "export/timeline_ids.h"

#include <map>

#include "base/decimal.h"

namespace profgpu {
namespace {

// Process and thread numbers are 32-bit in what reads them; a rank's processes get room for 4 million, Linux's limit.
constexpr int64_t kProcesses = 1 << 22;
constexpr int64_t kMostRanks = INT32_MAX / kProcesses - 1;

}  // namespace

TimelineIds::TimelineIds(const RunRows& run, const RankRows& rank) : rank_(rank), moved_(run.ranks.size() > 1) {
  std::map<std::string_view, int64_t> known;
  const std::vector<Thread>& threads = rank.trace().threads;
  for (size_t t = 0; t < threads.size(); ++t) {
    const auto [it, fresh] = known.try_emplace(threads[t].process, 0);
    if (fresh) {
      const auto n = whole_number(threads[t].process);
      it->second = n && *n > 0 && *n < kProcesses ? *n : kProcesses - static_cast<int64_t>(known.size());
      if (moved_) it->second += (rank.rank() % kMostRanks + 1) * kProcesses;
    }
    processes_.push_back(it->second);
    const auto n = whole_number(threads[t].id);
    threads_.push_back(n && *n >= 0 && *n <= INT32_MAX ? *n : INT32_MAX - static_cast<int64_t>(t));
  }
}

std::string TimelineIds::process_name(size_t thread) const {
  const std::string name = "pid " + rank_.trace().threads[thread].process;
  return moved_ ? "rank " + std::to_string(rank_.rank()) + ", " + name : name;
}

std::string TimelineIds::device_name(int32_t device) const {
  const std::string model = rank_.trace().properties(device).name;
  const std::string name = "GPU " + std::to_string(device) + (model.empty() ? "" : " " + model);
  return moved_ ? "rank " + std::to_string(rank_.rank()) + ", " + name : name;
}

}  // namespace profgpu
