#include "trace/import/host_profile.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kNear_ns = 20'000;   // a call begins this much before its operator, at most

// "matmul" of "aten::matmul", "Tensor.matmul" and "torch.nn.functional.linear".
string_view call_in(string_view name) {
  name = name.substr(0, name.find(" ("));
  if (const size_t frame = name.find("): "); frame != name.npos) name.remove_prefix(frame + 3);
  if (name.starts_with("<")) name = name.substr(0, name.rfind('>'));
  const size_t end = name.find_last_of(".: ");
  return end == name.npos ? name : name.substr(end + 1);
}

/// Starts of calls by name, in order of time.
using Calls = std::map<string_view, std::vector<int64_t>>;

Calls calls_of(const Trace& trace, HostKind kind, const Calls* wanted) {
  Calls calls;
  const HostTable& h = trace.host;
  for (uint32_t i = 0; i < h.size(); ++i) {
    if (h.kind[i] != kind) continue;
    if (kind == HostKind::kOp && !trace.name(HostId(i)).starts_with("aten::")) continue;
    const string_view call = call_in(trace.name(HostId(i)));
    if (wanted == nullptr || wanted->contains(call)) calls[call].push_back(h.start_ns[i]);
  }
  for (auto& [name, starts] : calls) std::ranges::sort(starts);
  return calls;
}

/// What puts a call where an operator is.
struct ShiftOfPair {
  int64_t shift_ns;
  uint32_t op, call;
};

/// How many different numbers are in it: one operator near many calls, or one call near many, agrees once.
class CountOfDistinct {
 public:
  explicit CountOfDistinct(size_t numbers) : times_(numbers) {}
  void add(uint32_t number) { count_ += times_[number]++ == 0; }
  void remove(uint32_t number) { count_ -= --times_[number] == 0; }
  [[nodiscard]] int64_t count() const { return count_; }

 private:
  std::vector<uint32_t> times_;
  int64_t count_ = 0;
};

}  // namespace

std::string frame_name(string_view function, string_view file, int64_t line) {
  if (file.empty()) return std::string(function);
  return fmt::format("{}({}): {}", file, std::max<int64_t>(line, 0), function);
}

int64_t written_ns(const std::string& path) {
  struct stat info {};
  if (path == "-" || ::stat(path.c_str(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

ClockShift shift_by_calls(const Trace& profile, const Trace& trace) {
  constexpr size_t kMaxOps = 400, kMaxCalls = 20'000;
  Calls ops = calls_of(trace, HostKind::kOp, nullptr);
  const Calls calls = calls_of(profile, HostKind::kPython, &ops);
  std::erase_if(ops, [&](const auto& op) { return !calls.contains(op.first); });
  // Rare calls tell most; the most frequent ones are left out where there are many.
  std::vector<const Calls::value_type*> order;
  for (const auto& op : ops) order.push_back(&op);
  std::ranges::stable_sort(order, {}, [](const auto* op) { return op->second.size(); });
  ClockShift best;
  size_t first_call = 0;   // of the name, among all calls
  std::vector<ShiftOfPair> shifts;
  for (const auto* op : order) {
    const std::vector<int64_t>& starts = calls.at(op->first);
    if (starts.size() > kMaxCalls) continue;
    for (const int64_t at : op->second) {
      if (static_cast<size_t>(best.pairs) == kMaxOps || shifts.size() > (size_t{1} << 23)) break;
      const auto number = static_cast<uint32_t>(best.pairs++);
      for (size_t i = 0; i < starts.size(); ++i)
        shifts.push_back({at - starts[i], number, static_cast<uint32_t>(first_call + i)});
    }
    first_call += starts.size();
  }
  std::ranges::sort(shifts, {}, &ShiftOfPair::shift_ns);
  CountOfDistinct in_ops(static_cast<size_t>(best.pairs)), in_calls(first_call);
  for (size_t begin = 0, end = 0; begin < shifts.size(); ++begin) {
    for (; end < shifts.size() && shifts[end].shift_ns - shifts[begin].shift_ns <= kNear_ns; ++end)
      in_ops.add(shifts[end].op), in_calls.add(shifts[end].call);
    const int64_t agree = std::min(in_ops.count(), in_calls.count());
    if (agree > best.agree) best.agree = agree, best.shift_ns = shifts[begin].shift_ns;
    in_ops.remove(shifts[begin].op), in_calls.remove(shifts[begin].call);
  }
  return best;
}

int64_t add_stacks(const Trace& profile, int64_t shift_ns, Trace& trace) {
  std::map<string_view, std::vector<size_t>> by_id;
  for (size_t t = 0; t < trace.threads.size(); ++t) by_id[trace.threads[t].id].push_back(t);
  std::set<std::pair<std::string, std::string>> taken;
  for (const Thread& t : trace.threads) taken.emplace(t.process, t.id);
  const std::vector<StringId> names = trace.strings.absorb(profile.strings);
  HostTable& to = trace.host;
  const HostTable& from = profile.host;
  const Interval window = trace.windows.empty() ? Interval{INT64_MIN, INT64_MAX}
                                                : Interval{trace.windows.front().start, trace.windows.back().end};
  int64_t same = 0;
  std::vector<Thread> added;
  for (const Thread& t : profile.threads) {
    if (t.begin == t.end) continue;
    Thread thread{t.process, t.id, t.name, HostId(to.size()), {}};
    if (const auto at = by_id.find(t.id); at != by_id.end() && at->second.size() == 1) {
      thread.process = trace.threads[at->second.front()].process;
      ++same;
    }
    thread.id += kSampledStack;
    if (!taken.emplace(thread.process, thread.id).second) continue;   // the trace has its own
    const auto number = trace.threads.size() + added.size();
    std::vector<HostId> rows(t.end.value - t.begin.value);   // of those that the profile has
    for (uint32_t i = t.begin.value; i < t.end.value; ++i) {
      const int64_t start = from.start_ns[i] + shift_ns, end = start + from.duration_ns[i];
      if (end <= window.start || start >= window.end) continue;
      const Interval time{std::max(start, window.start), std::min(end, window.end)};
      rows[i - t.begin.value] = HostId(to.size());
      to.start_ns.push_back(time.start);
      to.duration_ns.push_back(time.end - time.start);
      to.name.push_back(names[from.name[i].value]);
      to.thread.emplace_back(number);
      to.kind.push_back(HostKind::kPython);
      // One that encloses it is there as well.
      to.parent.push_back(from.parent[i].valid() ? rows[from.parent[i].value - t.begin.value] : HostId());
      to.link.push_back(0);
      to.args.emplace_back();
    }
    thread.end = HostId(to.size());
    added.push_back(std::move(thread));
  }
  trace.threads.insert(trace.threads.end(), added.begin(), added.end());
  trace.events += profile.events;
  return same;
}

}  // namespace profgpu
