#include "app/export/timeline_ids.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "analyse/rank/collectives.h"
#include "base/decimal.h"

namespace profgpu {
namespace {

// Linux's limit of process numbers.
constexpr int64_t kProcesses = 1 << 22;
constexpr int64_t kFirstOfHost = 500, kMaxOfHost = 500;
constexpr size_t kMaxCollectives = 2;   // in a stream's name

/// Time by collective's name.
using CollectiveTimes = std::map<std::string_view, int64_t>;

std::string names_by_time(const CollectiveTimes& times) {
  std::vector<std::pair<int64_t, std::string_view>> all;
  for (const auto& [name, ns] : times) all.emplace_back(-ns, name);
  std::sort(all.begin(), all.end());
  std::string text;
  for (size_t i = 0; i < all.size() && i < kMaxCollectives; ++i)
    text += (i == 0 ? ": " : ", ") + std::string(all[i].second);
  return all.size() > kMaxCollectives ? text + " …" : text;
}

}  // namespace

TimelineIds::TimelineIds(const RunRows& run, const RankRows& rank) : rank_(rank), moved_(run.ranks.size() > 1) {
  if (moved_) rank_name_ = "rank " + std::to_string(rank.rank());
  if (const std::string& host = rank.trace().host_name; moved_ && !host.empty()) rank_name_ += " · " + host;
  number_threads();
  name_streams();
}

void TimelineIds::number_threads() {
  std::map<std::string_view, int64_t> known;
  const std::vector<Thread>& threads = rank_.trace().threads;
  for (size_t t = 0; t < threads.size(); ++t) {
    const auto [it, fresh] = known.try_emplace(threads[t].process, 0);
    const auto place = static_cast<int64_t>(known.size());
    if (fresh && moved_) {
      it->second = first_process() + kFirstOfHost + std::min(place, kMaxOfHost) - 1;
    } else if (fresh) {
      const auto n = whole_number(threads[t].process);
      it->second = n && *n > 0 && *n < kProcesses ? *n : kProcesses - place;
    }
    processes_.push_back(it->second);
    const auto n = whole_number(threads[t].id);
    threads_.push_back(n && *n >= 0 && *n <= INT32_MAX ? *n : INT32_MAX - static_cast<int64_t>(t));
  }
}

void TimelineIds::name_streams() {
  const Trace& trace = rank_.trace();
  constexpr std::array<const char*, 3> kKinds = {"compute", "communication", "memory"};
  std::vector<std::array<int64_t, kKinds.size()>> time_ns(trace.queues.size());
  for (uint32_t a = 0; a < trace.activity.size(); ++a)
    time_ns[trace.activity.queue[a]][static_cast<size_t>(rank_.devices().kind[a])] += trace.activity.duration_ns[a];
  std::vector<CollectiveTimes> collectives(trace.queues.size());
  const CollectiveCalls& calls = rank_.facts().get<CollectiveCalls>();
  std::vector<std::string> terms;
  for (const CollectiveKind& k : calls.kinds) {
    const std::string term = k.described ? k.name : collective_name(k.name);
    terms.push_back(term.empty() ? k.name : term);
  }
  for (const CollectiveCall& c : calls.calls)
    if (c.activity.valid()) collectives[c.queue][terms[c.kind]] += c.end_ns - c.start_ns;
  for (size_t q = 0; q < trace.queues.size(); ++q) {
    const auto most = std::max_element(time_ns[q].begin(), time_ns[q].end());
    const auto kind = static_cast<size_t>(most - time_ns[q].begin());
    std::string& name = streams_.emplace_back("stream " + std::to_string(trace.queues[q].stream));
    if (*most == 0) continue;
    name += std::string(" (") + kKinds[kind];
    if (kind == static_cast<size_t>(WorkKind::kCommunication)) name += names_by_time(collectives[q]);
    name += ')';
  }
}

std::string TimelineIds::name_of(std::string_view what) const {
  return moved_ ? rank_name_ + " · " + std::string(what) : std::string(what);
}

std::string TimelineIds::process_name(size_t thread) const {
  return name_of("pid " + rank_.trace().threads[thread].process);
}

std::string TimelineIds::device_name(int32_t device) const {
  const std::string model = moved_ ? "" : rank_.trace().properties(device).name;
  return name_of("GPU " + std::to_string(device) + (model.empty() ? "" : " " + model));
}

CollectiveArrows::CollectiveArrows(const RunRows& run) {
  std::vector<CollectiveEnd*> all;
  for (const RankRows& rank : run.ranks) {
    std::vector<CollectiveEnd>& ends = ends_[rank.rank()];
    for (const CallTiming& call : rank.timings().calls)
      if (rank.shows_call(call.activity)) ends.push_back({.call = &call});
  }
  // Of those that arrived at once the last rank counts as the latest: readers that sort by time and leave the order of
  // equal times alone then find the arrow's begin first.
  for (auto& [rank, ends] : ends_)
    for (CollectiveEnd& end : ends)
      if (end.call->collective >= 0) all.push_back(&end);
  std::stable_sort(all.begin(), all.end(), [](const CollectiveEnd* a, const CollectiveEnd* b) {
    return std::tie(a->call->collective, b->call->wait_ns) < std::tie(b->call->collective, a->call->wait_ns);
  });
  uint64_t next = 1;
  for (size_t i = 0, j = 0; i < all.size(); i = j) {
    while (j < all.size() && all[j]->call->collective == all[i]->call->collective) ++j;
    if (j - i < 2) continue;
    *all[j - 1] = {all[j - 1]->call, next, j - i - 1, true};
    for (; i + 1 < j; ++i) *all[i] = {all[i]->call, next++, 1, false};
  }
}

const CollectiveEnd* CollectiveArrows::find(const RankRows& rank, ActivityId activity) const {
  const auto ends = ends_.find(rank.rank());
  if (ends == ends_.end()) return nullptr;
  const auto at = std::lower_bound(ends->second.begin(), ends->second.end(), activity,
                                   [](const CollectiveEnd& e, ActivityId a) { return e.call->activity < a; });
  return at != ends->second.end() && at->call->activity == activity ? &*at : nullptr;
}

}  // namespace profgpu
