#include "analyse/rank/places.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/steps.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr size_t kLongestName = 200;
constexpr string_view kModule = "nn.Module: ";

/// "transformers/image_transforms.py(390): normalize"
struct Frame {
  string_view file, function;
  int64_t line = 0;
};

std::optional<Frame> frame_of(string_view name) {
  const size_t close = name.find("): ");
  const size_t open = close == name.npos ? name.npos : name.rfind('(', close);
  if (open == name.npos || open == 0) return std::nullopt;
  Frame frame{name.substr(0, open), name.substr(close + 3), 0};
  const string_view number = name.substr(open + 1, close - open - 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), frame.line);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return frame;
}

// Code through which everything goes, and which nobody would change.
bool is_plumbing(string_view file) {
  for (const string_view part :
       {"torch/nn/modules/", "torch/nn/functional.py", "torch/_tensor.py", "torch/functional.py", "torch/autograd/",
        "torch/_ops.py", "torch/utils/_contextlib.py", "torch/utils/_device.py", "torch/profiler/", "torch/cuda/",
        "torch/_dynamo/eval_frame.py", "torch/amp/", "torch/overrides.py", "threading.py", "contextlib.py",
        "runpy.py", "<frozen", "<string>", "<__array_function__", "numpy/", "functools.py", "multiprocessing/process.py",
        "concurrent/futures/", "torch/_inductor/utils.py", "triton/runtime/"})
    if (file.find(part) != file.npos) return true;
  return file.empty() || file.front() == '<';
}

// Frames that are the same for all that a program does: they tell nothing.
bool is_whole_program(string_view function) { return function == "<module>"; }

std::string cut(string_view text) {
  if (text.size() <= kLongestName) return std::string(text);
  size_t keep = kLongestName;
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  return std::string(text.substr(0, keep)) + "…";
}

}  // namespace

Places::Places(const Facts& facts)
    : trace_(facts.trace()),
      captures_(facts.get<Captures>()),
      stacks_(trace_.sampled_stacks()),
      steps_(trace_.strings.size()) {
  for (const Step& step : facts.get<Steps>().steps)
    if (step.range.valid()) steps_[trace_.host.name[step.range.value].value] = true;
}

HostId Places::told_by(HostId range) const {
  const HostTable& h = trace_.host;
  HostId framework, function, program;   // function: innermost that is no plumbing
  for (HostId at = range; at.valid(); at = h.parent[at.value]) {
    if (h.kind[at.value] == HostKind::kPython) {
      const auto frame = frame_of(trace_.name(at));
      if (!frame) continue;
      if (!function.valid() && !is_plumbing(frame->file)) (is_whole_program(frame->function) ? program : function) = at;
      if (function.valid()) return function;
    } else if (steps_[h.name[at.value].value]) {
      continue;
    } else if (h.kind[at.value] == HostKind::kOp) {
      framework = at;   // the outermost: "aten::batch_norm" rather than the "aten::view" within
    } else if (!framework.valid() && h.kind[at.value] == HostKind::kAnnotation) {
      framework = at;
    }
  }
  return framework.valid() ? framework : program;
}

Place Places::place_of(HostId range) const {
  const HostTable& h = trace_.host;
  Place place;
  const string_view name = trace_.name(range);
  const auto frame = h.kind[range.value] == HostKind::kPython ? frame_of(name) : std::nullopt;
  place.name = cut(frame ? frame->function : name);
  if (frame) place.file = cut(frame->file), place.line = frame->line;
  for (HostId at = range; at.valid() && place.module.empty(); at = h.parent[at.value])
    if (h.kind[at.value] == HostKind::kPython && trace_.name(at).starts_with(kModule))
      place.module = cut(trace_.name(at).substr(kModule.size()));
  return place;
}

// The rows of a sampled stack in order of time: with each sample the frames that are new, and always the innermost.
HostId Places::sampled_in(HostId range) const {
  const HostTable& h = trace_.host;
  const ThreadId stack = stacks_[h.thread[range.value].value];
  if (!stack.valid()) return {};
  const Thread& t = trace_.threads[stack.value];
  const auto first = h.start_ns.begin() + t.begin.value, end = h.start_ns.begin() + t.end.value;
  const auto after = std::upper_bound(first, end, h.end_ns(range));
  if (after == first) return {};
  const HostId last(static_cast<size_t>(after - h.start_ns.begin()) - 1);
  if (h.start_ns[last.value] > h.start_ns[range.value]) return last;
  if (after == end) return {};
  const HostId next(size_t{last.value} + 1);   // the outermost that began with the sample after the range
  HostId frame = last;
  while (frame.valid() && h.parent[frame.value] != h.parent[next.value]) frame = h.parent[frame.value];
  return frame.valid() && h.name[frame.value] == h.name[next.value] ? frame : h.parent[next.value];
}

void Places::add(HostId range, int64_t ns) {
  if (!range.valid() || ns <= 0) return;
  HostId told = told_by(range);
  if (const HostId frame = sampled_in(range); frame.valid())
    if (const HostId function = told_by(frame); function.valid()) told = function;
  if (told.valid()) sum_up(told, ns);
}

void Places::sum_up(HostId told, int64_t ns) {
  Place place = place_of(told);
  const auto key = std::tuple(place.name, place.file, place.line.value_or(0));
  Place& sum = sums_.try_emplace(key, std::move(place)).first->second;
  sum.ns += ns;
  ++sum.count;
}

void Places::add(ActivityId activity) {
  add(captures_.origin(trace_, activity), trace_.activity.duration_ns[activity.value]);
}

void Places::add_samples(ThreadId stack, Interval part) {
  const HostTable& h = trace_.host;
  const Thread& t = trace_.threads[stack.value];
  const auto first = h.start_ns.begin() + t.begin.value, end = h.start_ns.begin() + t.end.value;
  for (auto it = std::lower_bound(first, end, part.start); it != end && *it < part.end; ++it) {
    const HostId row(static_cast<size_t>(it - h.start_ns.begin()));
    const HostId next(size_t{row.value} + 1);
    if (next < t.end && h.parent[next.value] == row) continue;   // of the same sample: frames that it called
    if (const HostId told = told_by(row); told.valid()) sum_up(told, h.duration_ns[row.value]);
  }
}

void Places::add_host_time(ThreadId thread, Interval part) {
  if (stacks_[thread.value].valid()) return add_samples(stacks_[thread.value], part);
  const HostTable& h = trace_.host;
  const Thread& t = trace_.threads[thread.value];
  const auto first = h.start_ns.begin() + t.begin.value, end = h.start_ns.begin() + t.end.value;
  const auto from = std::upper_bound(first, end, part.start);
  std::unordered_map<uint32_t, int64_t> self;
  const auto within = [&](HostId id) {
    return std::min(h.end_ns(id), part.end) - std::max(h.start_ns[id.value], part.start);
  };
  const auto take = [&](HostId id) {
    const int64_t ns = within(id);
    if (ns <= 0) return;
    self[id.value] += ns;
    if (const HostId parent = h.parent[id.value]; parent.valid()) self[parent.value] -= ns;
  };
  if (from != first)
    for (HostId open(static_cast<size_t>(from - h.start_ns.begin() - 1)); open.valid(); open = h.parent[open.value])
      take(open);
  for (auto it = from; it != end && *it < part.end; ++it) take(HostId(static_cast<size_t>(it - h.start_ns.begin())));
  for (const auto& [row, ns] : self) add(HostId(row), ns);
}

std::vector<Place> Places::most_expensive(size_t most) const {
  std::vector<Place> all;
  for (const auto& [key, place] : sums_) all.push_back(place);
  std::stable_sort(all.begin(), all.end(), [](const Place& a, const Place& b) { return a.ns > b.ns; });
  const auto hardly = [&](const Place& p) { return p.ns < all.front().ns / 100; };
  all.resize(std::min<size_t>(most, std::ranges::find_if(all, hardly) - all.begin()));
  return all;
}

}  // namespace profgpu
