#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/decimal.h"
#include "trace/import/execution_trace.h"

namespace profgpu {
namespace {

using Rows = std::vector<HostId>;
using Pairs = std::vector<std::pair<HostId, HostId>>;   // of the execution trace and of the profiler's

bool is_joined_kind(HostKind kind) { return kind == HostKind::kOp || kind == HostKind::kAnnotation; }

Rows rows_of(const Trace& trace, const Thread& thread) {
  Rows rows;
  for (uint32_t i = thread.begin.value; i < thread.end.value; ++i)
    if (is_joined_kind(trace.host.kind[i])) rows.emplace_back(i);
  return rows;
}

bool same_name(const Trace& execution, HostId a, const Trace& profiled, HostId b) {
  return execution.name(a) == profiled.name(b);
}

constexpr std::string_view kFunctionNumber = "{\"Record function id\": ";

// Rows of the profiler's and their numbers: those of the execution trace where the profiler wrote them, as it does
// while an observer runs, else its own, which older profilers took from there.
std::vector<std::pair<HostId, uint32_t>> numbers_of(const Trace& profiled) {
  std::vector<std::pair<HostId, uint32_t>> numbers;
  for (const RangeArguments& a : profiled.range_arguments) {
    std::string_view text = profiled.strings[a.text];
    if (!text.starts_with(kFunctionNumber)) continue;
    text.remove_prefix(kFunctionNumber.size());
    const auto number = leading_number(text);
    if (number && number->value >= 0 && number->value <= UINT32_MAX)
      numbers.emplace_back(a.host, static_cast<uint32_t>(number->value));
  }
  if (!numbers.empty()) return numbers;
  for (uint32_t i = 0; i < profiled.host.size(); ++i)
    if (profiled.host.link[i] != 0) numbers.emplace_back(HostId(i), profiled.host.link[i]);
  return numbers;
}

// Nine in ten names must agree with the numbers: older profilers count otherwise.
Pairs pairs_by_number(const Trace& execution, const Trace& profiled) {
  std::unordered_map<uint32_t, HostId> numbered;
  for (uint32_t i = 0; i < execution.host.size(); ++i)
    if (execution.host.link[i] != 0) numbered.emplace(execution.host.link[i], HostId(i));
  Pairs pairs;
  size_t met = 0;
  for (const auto& [row, number] : numbers_of(profiled)) {
    if (!is_joined_kind(profiled.host.kind[row.value])) continue;
    const auto at = numbered.find(number);
    if (at == numbered.end()) continue;
    ++met;
    if (same_name(execution, at->second, profiled, row)) pairs.emplace_back(at->second, row);
  }
  return 10 * pairs.size() >= 9 * met ? pairs : Pairs();
}

// Names of both in step; where they part, the nearest place is taken from which on a few agree again.
Pairs aligned(const Trace& execution, const Rows& a, const Trace& profiled, const Rows& b) {
  constexpr size_t kFar = 256, kRun = 4;
  const auto agree = [&](size_t i, size_t j) {
    for (size_t k = 0; k < kRun; ++k) {
      if (i + k >= a.size() || j + k >= b.size()) return k > 0;
      if (!same_name(execution, a[i + k], profiled, b[j + k])) return false;
    }
    return true;
  };
  const auto resume = [&](size_t& i, size_t& j) {
    for (size_t far = 1; far <= kFar; ++far)
      for (size_t left = 0; left <= far; ++left)
        if (i + left < a.size() && j + far - left < b.size() && agree(i + left, j + far - left))
          return i += left, j += far - left, true;
    return false;
  };
  Pairs pairs;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size(); ++i, ++j) {
    if (!same_name(execution, a[i], profiled, b[j]) && !resume(i, j)) break;
    pairs.emplace_back(a[i], b[j]);
  }
  return pairs;
}

// Each thread of the execution trace with the one that it agrees with most: threads are numbered otherwise there. Nine
// in ten of the shorter one must agree.
Pairs pairs_by_order(const Trace& execution, const Trace& profiled) {
  std::vector<Rows> theirs;
  for (const Thread& t : profiled.threads) theirs.push_back(rows_of(profiled, t));
  std::vector<bool> taken(theirs.size());
  Pairs all;
  for (const Thread& t : execution.threads) {
    const Rows own = rows_of(execution, t);
    Pairs best;
    size_t of = 0;
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (taken[i] || theirs[i].empty()) continue;
      Pairs pairs = aligned(execution, own, profiled, theirs[i]);
      if (10 * pairs.size() < 9 * std::min(own.size(), theirs[i].size()) || pairs.size() <= best.size()) continue;
      best = std::move(pairs), of = i;
    }
    if (best.empty()) continue;
    taken[of] = true;
    all.insert(all.end(), best.begin(), best.end());
  }
  return all;
}

// Shapes and types of `from`, unless the operator has shapes.
bool give(const Trace& execution, OpArgsId from, Trace& profiled, HostId to) {
  const OpArgs& known = execution.op_args[from.value];
  if (!known.shapes.valid() || execution.strings[known.shapes].empty()) return false;
  OpArgsId& place = profiled.host.args[to.value];
  OpArgs args = place.valid() ? profiled.op_args[place.value] : OpArgs{};
  if (args.shapes.valid() && !profiled.strings[args.shapes].empty()) return false;
  args.shapes = profiled.strings.intern(execution.strings[known.shapes]);
  if (known.types.valid()) args.types = profiled.strings.intern(execution.strings[known.types]);
  if (known.values.valid()) args.values = profiled.strings.intern(execution.strings[known.values]);
  if (known.strides.valid()) args.strides = profiled.strings.intern(execution.strings[known.strides]);
  if (args.sequence < 0) args.sequence = known.sequence;
  place = OpArgsId(profiled.op_args.size());   // others may share what it had
  profiled.op_args.push_back(args);
  return true;
}

}  // namespace

std::string function_number_text(uint32_t number) { return fmt::format("{}{}}}", kFunctionNumber, number); }

ExecutionJoin join_execution(const Trace& execution, Trace& profiled) {
  ExecutionJoin join;
  for (const HostKind kind : profiled.host.kind) join.ops += kind == HostKind::kOp;
  Pairs pairs = pairs_by_number(execution, profiled);
  join.by_number = !pairs.empty();
  if (pairs.empty()) pairs = pairs_by_order(execution, profiled);
  for (const auto& [from, to] : pairs) {
    join.joined += profiled.host.kind[to.value] == HostKind::kOp;
    if (const OpArgsId args = execution.host.args[from.value]; args.valid())
      join.given += give(execution, args, profiled, to);
  }
  return join;
}

TraceIssue joined_execution(const Trace& execution, const std::string&, Trace& profiled) {
  const ExecutionJoin join = join_execution(execution, profiled);
  return {TraceIssueKind::kNote, join.joined,
          join.joined == 0
              ? "its operators are not those of the trace beside it: it was not used"
              : fmt::format("{} of the {} operators of the trace beside it are in this one ({}); {} got their shapes "
                            "and types from it",
                            join.joined, join.ops, join.by_number ? "by their numbers" : "by thread, order and name",
                            join.given)};
}

}  // namespace profgpu
