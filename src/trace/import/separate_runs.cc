#include "trace/import/separate_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr int64_t kFarApart = 60'000'000'000, kZones = 26 * int64_t{3'600'000'000'000};
constexpr int64_t kFirstUnix = 1'000'000'000'000'000'000;   // 2001: clocks that begin at 0 are not there yet

// "node0.log" and "node1.log": names that count.
bool named_alike(const InputPart& a, const InputPart& b) {
  const auto without_digits = [](std::string_view path) {
    std::string name(base_name(path));
    std::erase_if(name, is_digit);
    return name;
  };
  return without_digits(a.source.path) == without_digits(b.source.path);
}

template <class Set>
bool disjoint_sets(const Set& a, const Set& b) {
  return std::ranges::none_of(a, [&](const auto& x) { return std::ranges::find(b, x) != b.end(); });
}

bool has_steps(const WindowFacts& w) { return w.first_step <= w.last_step; }

// Of logs.
bool other_programs(const LogFacts& a, const LogFacts& b) {
  return !a.family.empty() && !b.family.empty() && std::ranges::count(b.families, a.family) == 0 &&
         std::ranges::count(a.families, b.family) == 0;
}

int64_t gap_ns(const WindowFacts& a, const WindowFacts& b) {
  return a.extent.start < b.extent.start ? b.extent.start - a.extent.end : a.extent.start - b.extent.end;
}

bool far_apart(const InputPart& a, const InputPart& b) {
  const WindowFacts &x = a.window, &y = b.window;
  const bool logs = !x.log.family.empty() && !y.log.family.empty();
  if (x.extent.start < kFirstUnix || y.extent.start < kFirstUnix || gap_ns(x, y) < kFarApart) return false;
  if (!logs) return !x.calls_collectives && !y.calls_collectives && !x.world_size && !y.world_size;
  if (!x.log.dated || !y.log.dated) return false;
  const bool steps_apart = has_steps(x) && has_steps(y) && (x.last_step < y.first_step || y.last_step < x.first_step);
  return !named_alike(a, b) || steps_apart || gap_ns(x, y) > kZones;
}

}  // namespace

std::string why_separate_runs(const InputPart& a, const InputPart& b) {
  const WindowFacts &x = a.window, &y = b.window;
  if (x.world_size && y.world_size && *x.world_size != *y.world_size)
    return fmt::format("one states {} ranks, the other {}", *x.world_size, *y.world_size);
  if (x.log.family.empty() != y.log.family.empty()) return "";
  if (!x.devices.empty() && !y.devices.empty() && disjoint_sets(x.devices, y.devices))
    return fmt::format("one ran on {}, the other on {}", *x.devices.begin(), *y.devices.begin());
  if (other_programs(x.log, y.log) && !named_alike(a, b))
    return fmt::format("one is a log of {}, the other of {}", words(x.log.family), words(y.log.family));
  if (far_apart(a, b)) return "one begins more than a minute after the other ended";
  return "";
}

}  // namespace profgpu
