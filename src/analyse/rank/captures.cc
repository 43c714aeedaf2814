// A captured graph's nodes are its launching calls, in order; on one stream a replay runs them in that order. A replay
// belongs to a capture with as many calls as the replay has activities, each of the kind that its call makes. If
// several captures fit, the batch size of the replay's step decides, or if all of them call the same operators of the
// same modules, these are certain and sizes are not; else none matches.
#include "analyse/rank/captures.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/names.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

/// A name's role in captures.
enum class CaptureWord : uint8_t { kNone, kBegin, kEnd, kStep, kReplay, kNode };

CaptureWord capture_word(string_view name, HostKind kind, CallKind call) {
  if (kind == HostKind::kAnnotation) {
    const auto step = engine_step(name);
    return step && step->kind == StepKind::kCapture ? CaptureWord::kStep : CaptureWord::kNone;
  }
  if (kind != HostKind::kRuntime && kind != HostKind::kDriver) return CaptureWord::kNone;
  if (contains(name, "StreamBeginCapture")) return CaptureWord::kBegin;
  if (contains(name, "StreamEndCapture")) return CaptureWord::kEnd;
  if (contains(name, "GraphLaunch")) return CaptureWord::kReplay;
  const bool queued = call == CallKind::kLaunch || contains(name, "emcpyAsync");
  return queued && !contains(name, "HostFunc") ? CaptureWord::kNode : CaptureWord::kNone;
}

/// Classifies each name once.
class CaptureWords {
 public:
  explicit CaptureWords(const Facts& facts)
      : trace_(facts.trace()), calls_(facts.get<Names>().call), known_(trace_.strings.size(), kUnknown) {}
  CaptureWord operator()(HostId id) {
    const StringId name = trace_.host.name[id.value];
    const HostKind kind = trace_.host.kind[id.value];
    if (kind == HostKind::kOp || kind == HostKind::kPython || kind == HostKind::kOverhead) return CaptureWord::kNone;
    uint8_t& known = known_[name.value];
    if (known == kUnknown) known = static_cast<uint8_t>(capture_word(trace_.strings[name], kind, calls_[name.value]));
    return static_cast<CaptureWord>(known);
  }

 private:
  static constexpr uint8_t kUnknown = 255;
  const Trace& trace_;
  const std::vector<CallKind>& calls_;
  std::vector<uint8_t> known_;
};

// Batch size of the innermost step around a range.
std::optional<int64_t> batch_around(const Trace& trace, HostId range) {
  for (HostId at = range; at.valid(); at = trace.host.parent[at.value]) {
    const auto step = trace.host.kind[at.value] == HostKind::kAnnotation ? engine_step(trace.name(at)) : std::nullopt;
    if (step && step->sequences) return step->sequences;
  }
  return std::nullopt;
}

struct Capture {
  Interval time;
  std::vector<HostId> calls;      // its nodes
  std::optional<int64_t> batch;
  bool known = true;              // all of its nodes are known
};

/// Finds each thread's captures. An engine's capture step counts as one if no calls mark its begin and end.
class CaptureReader {
 public:
  CaptureReader(const Facts& facts, CaptureWords& words) : trace_(facts.trace()), h_(trace_.host), words_(words) {}

  /// False: there are no captures.
  bool read(std::vector<Intervals>& time) {
    time.resize(trace_.threads.size());
    for (size_t t = 0; t < trace_.threads.size(); ++t) {
      const size_t first = all.size();
      read_thread(trace_.threads[t]);
      const size_t marked = all.size();
      for (size_t c = first; c < marked; ++c) time[t].push_back(all[c].time);
      for (Capture& step : steps_) {
        time[t].push_back(step.time);
        const std::span calls = std::span(all).subspan(first, marked - first);
        const bool has_calls = std::ranges::any_of(calls, [&](const Capture& c) {
          return step.time.start <= c.time.start && c.time.end <= step.time.end;
        });
        if (!has_calls) all.push_back(std::move(step));
      }
      time[t] = merged(std::move(time[t]));
      for (size_t c = first; c < all.size(); ++c) add_calls(trace_.threads[t], all[c]);
    }
    return !all.empty();
  }

  std::vector<Capture> all;

 private:
  void read_thread(const Thread& thread) {
    steps_.clear();
    HostId begun;
    for (HostId id = thread.begin; id < thread.end; ++id) {
      const CaptureWord word = words_(id);
      if (word == CaptureWord::kStep) steps_.push_back({h_.interval(id), {}, batch_around(trace_, id)});
      if (word == CaptureWord::kBegin && !begun.valid()) begun = id;
      if (word != CaptureWord::kEnd || !begun.valid()) continue;
      all.push_back({{h_.start_ns[begun.value], h_.end_ns(id)}, {}, batch_around(trace_, begun)});
      begun = {};
    }
  }

  // A call with its own activity ran and was not captured.
  void add_calls(const Thread& thread, Capture& capture) {
    HostId id = trace_.first_from(thread, capture.time.start);
    for (; id < thread.end && h_.start_ns[id.value] < capture.time.end; ++id) {
      const CaptureWord word = words_(id);
      const bool ran = std::binary_search(trace_.launching.begin(), trace_.launching.end(), id);
      if (word == CaptureWord::kReplay && !ran) capture.known = false;   // a graph within the graph
      if (word == CaptureWord::kNode && !ran && !h_.is_inner_call(id)) capture.calls.push_back(id);
    }
  }

  const Trace& trace_;
  const HostTable& h_;
  CaptureWords& words_;
  std::vector<Capture> steps_;   // of the thread
};

// ROCm copies and sets memory with kernels.
ActivityKind kind_of_activity(const Trace& trace, ActivityId a) {
  if (trace.activity.kind[a.value] != ActivityKind::kKernel) return trace.activity.kind[a.value];
  const string_view name = trace.name(a);
  if (name.starts_with("__amd_rocclr_copy")) return ActivityKind::kMemcpy;
  return name.starts_with("__amd_rocclr_fill") ? ActivityKind::kMemset : ActivityKind::kKernel;
}

ActivityKind kind_of_call(string_view name) {
  if (contains(name, "emcpy")) return ActivityKind::kMemcpy;
  return contains(name, "emset") ? ActivityKind::kMemset : ActivityKind::kKernel;
}

struct GraphReplay {
  uint32_t first = 0, end = 0;    // of Trace::launched
  std::optional<int64_t> batch;
};

struct Match {
  const Capture* capture = nullptr;   // null: none is certain
  bool sizes_uncertain = false;
};

/// Finds the capture of a replay.
class CaptureMatch {
 public:
  CaptureMatch(const Trace& trace, const std::vector<Capture>& captures) : trace_(trace), captures_(captures) {}

  Match operator()(const GraphReplay& replay) {
    const auto queue = [&](uint32_t i) { return trace_.activity.queue[trace_.launched[i].value]; };
    for (uint32_t i = replay.first; i < replay.end; ++i)
      if (queue(i) != queue(replay.first)) return {};   // branches run in any order
    std::vector<const Capture*> alike;
    for (const Capture& c : captures_)
      if (agrees(c, replay)) alike.push_back(&c);
    std::vector<const Capture*> of_batch = alike;
    if (alike.size() > 1)
      std::erase_if(of_batch, [&](const Capture* c) { return !c->batch || c->batch != replay.batch; });
    if (of_batch.size() == 1) return {of_batch.front(), false};
    return alike.size() > 1 && same_operators(alike) ? Match{alike.front(), true} : Match{};
  }

 private:
  [[nodiscard]] bool agrees(const Capture& capture, const GraphReplay& replay) const {
    if (!capture.known || capture.calls.size() != replay.end - replay.first) return false;
    if (capture.batch && replay.batch && *capture.batch < *replay.batch) return false;   // batches are padded, not cut
    for (size_t i = 0; i < capture.calls.size(); ++i)
      if (kind_of_call(trace_.name(capture.calls[i])) != kind_of_activity(trace_, trace_.launched[replay.first + i]))
        return false;
    return true;
  }

  // The names of the operator and of the module around a captured call.
  using Origin = std::pair<StringId, StringId>;
  [[nodiscard]] Origin origin_of(HostId call) const {
    const HostTable& h = trace_.host;
    const auto name_of = [&](HostId at) { return at.valid() ? h.name[at.value] : StringId(); };
    const auto is_module = [&](HostId at) {
      return h.kind[at.value] == HostKind::kPython && trace_.name(at).starts_with("nn.Module: ");
    };
    const HostId op = trace_.enclosing(call, [&](HostId at) { return h.kind[at.value] == HostKind::kOp; });
    return {name_of(op), name_of(trace_.enclosing(call, is_module))};
  }

  // Many replays ask of the same captures.
  bool same_operators(const std::vector<const Capture*>& alike) {
    const auto [known, added] = same_.try_emplace(alike, true);
    const Capture& first = *alike.front();
    for (size_t i = 0; added && i < first.calls.size() && known->second; ++i) {
      const Origin origin = origin_of(first.calls[i]);
      known->second = origin.first.valid() && std::ranges::all_of(alike, [&](const Capture* c) {
        return origin_of(c->calls[i]) == origin;
      });
    }
    return known->second;
  }

  const Trace& trace_;
  const std::vector<Capture>& captures_;
  std::map<std::vector<const Capture*>, bool> same_;
};

std::vector<bool> windows_set_aside(const Trace& trace, const std::vector<Intervals>& time,
                                    const std::vector<GraphReplay>& replays) {
  Intervals all;
  for (const Intervals& of_thread : time) all = unite(all, of_thread);
  std::vector<bool> aside(trace.windows.size());
  for (size_t w = 0; w < aside.size(); ++w)
    aside[w] = 2 * overlap_length(all, trace.windows[w]) > trace.windows[w].length();
  const auto measured = [&](const GraphReplay& r) {
    const int64_t start = trace.activity.start_ns[trace.launched[r.first].value];
    const auto after = std::ranges::upper_bound(trace.windows, start, {}, &Interval::start);
    return after == trace.windows.begin() || !aside[static_cast<size_t>(after - trace.windows.begin()) - 1];
  };
  if (std::ranges::none_of(replays, measured)) aside.assign(aside.size(), false);
  return aside;
}

}  // namespace

bool Captures::is_set_aside(const Trace& trace, int64_t time_ns) const {
  for (size_t w = trace.windows.size(); w-- > 0;)
    if (trace.windows[w].start <= time_ns) return set_aside[w];
  return false;
}

Captures Captures::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Captures out;
  out.set_aside.resize(trace.windows.size());
  CaptureWords words(facts);
  CaptureReader reader(facts, words);
  const bool any = reader.read(out.time);
  if (!trace.captured_calls.empty()) {
    out.call.resize(trace.activity.size());
    for (const CapturedCall& c : trace.captured_calls) out.call[c.activity.value] = c.call;
    out.named = static_cast<int64_t>(trace.captured_calls.size());
    for (const ActivityArgsId args : trace.activity.args)
      out.replayed += args.valid() && trace.activity_args[args.value].graph_node != 0;
    return out;
  }
  if (!any) return out;
  std::vector<GraphReplay> replays;
  for (size_t c = 0; c < trace.launching.size(); ++c)
    if (words(trace.launching[c]) == CaptureWord::kReplay)
      replays.push_back(
          {trace.launched_first[c], trace.launched_first[c + 1], batch_around(trace, trace.launching[c])});
  out.set_aside = windows_set_aside(trace, out.time, replays);
  CaptureMatch capture_of(trace, reader.all);
  for (const GraphReplay& replay : replays) {
    out.replayed += replay.end - replay.first;
    const Match match = capture_of(replay);
    if (match.capture == nullptr) continue;
    if (out.call.empty()) out.call.resize(trace.activity.size());
    if (match.sizes_uncertain) out.sizes_uncertain.resize(trace.activity.size());
    for (uint32_t i = replay.first; i < replay.end; ++i) {
      out.call[trace.launched[i].value] = match.capture->calls[i - replay.first];
      if (match.sizes_uncertain) out.sizes_uncertain[trace.launched[i].value] = true;
    }
    out.named += replay.end - replay.first;
  }
  return out;
}

}  // namespace profgpu
