#include "analyse/rank/request_waits.h"

#include <algorithm>
#include <string_view>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLongWait_ns = 20'000'000;
constexpr int64_t kLongSteps = 2;   // a wait that may be scheduling takes as long as this many steps

struct FrameName {
  string_view file, function;   // parts of "queue.py(171): get"
};

bool is_any(string_view name, std::initializer_list<FrameName> frames) {
  return std::ranges::any_of(frames, [&](const FrameName& f) {
    return contains(name, f.file) && name.ends_with(f.function) &&
           name.substr(0, name.size() - f.function.size()).ends_with("): ");
  });
}

// vLLM's core and SGLang's scheduler take requests from a queue or socket; TensorRT-LLM's executor fetches them.
bool awaits_requests(string_view name) {
  constexpr string_view kCalls[] = {"<built-in method poll of ", "<built-in function select>", "<built-in method recv"};
  if (std::ranges::any_of(kCalls, [&](string_view call) { return name.starts_with(call); })) return true;
  return is_any(name, {{"queue.py(", "get"},
                       {"vllm/v1/engine/", "_process_input_queue"},
                       {"zmq/", "poll"},
                       {"zmq/", "recv"},
                       {"zmq/", "recv_multipart"},
                       {"selectors.py(", "select"},
                       {"sglang/srt/managers/", "recv_requests"},
                       {"sglang/srt/managers/", "on_idle"},
                       {"sglang/srt/managers/", "self_check_during_idle"},
                       {"sglang/srt/managers/", "maybe_sleep_on_idle"},
                       {"tensorrt_llm/", "_fetch_new_requests"},
                       {"tensorrt_llm/", "fetch_new_requests"},
                       {"tensorrt_llm/", "get_from_request_queue"}});
}

// A worker waits for the process that schedules, or sleeps.
bool awaits_process(string_view name) {
  constexpr string_view kCalls[] = {"<built-in function sleep>", "<built-in function sched_yield>",
                                    "<built-in method acquire of "};
  if (std::ranges::any_of(kCalls, [&](string_view call) { return name.starts_with(call); })) return true;
  return is_any(name, {{"shm_broadcast.py(", "acquire_read"},
                       {"shm_broadcast.py(", "dequeue"},
                       {"sglang/srt/utils", "broadcast_pyobj"},
                       {"multiprocessing/connection.py(", "wait"},
                       {"multiprocessing/connection.py(", "poll"},
                       {"multiprocessing/connection.py(", "recv"},
                       {"threading.py(", "wait"}});
}

// Time between the engine's steps on a thread, from the first to the last.
Intervals between_steps(const Trace& trace, const Thread& thread, int64_t& median_step_ns) {
  std::vector<bool> served(trace.strings.size());
  for (size_t i = 0; i < served.size(); ++i) {
    const auto step = engine_step(trace.strings[StringId(i)]);
    served[i] = step && is_served(step->kind);
  }
  if (std::find(served.begin(), served.end(), true) == served.end()) return {};
  Intervals steps;
  std::vector<int64_t> durations;
  for (HostId i = thread.begin; i < thread.end; ++i) {
    if (trace.host.kind[i.value] != HostKind::kAnnotation && trace.host.kind[i.value] != HostKind::kOp) continue;
    if (!served[trace.host.name[i.value].value]) continue;
    steps.push_back(trace.host.interval(i));
    durations.push_back(trace.host.duration_ns[i.value]);
  }
  if (steps.size() < 2) return {};
  median_step_ns = lower_median(std::move(durations));
  steps = merged(std::move(steps));
  return subtract({{steps.front().start, steps.back().end}}, steps);
}

}  // namespace

bool RequestWaits::explain(uint32_t thread, Interval part) const {
  if (certain.empty()) return false;
  if (2 * overlap_length(certain[thread], part) > part.length()) return true;
  const int64_t all = length(thread, part);
  return 2 * all > part.length() && all >= long_ns;
}

int64_t RequestWaits::length(uint32_t thread, Interval part) const {
  return certain.empty() ? 0 : overlap_length(certain[thread], part) + overlap_length(possible[thread], part);
}

RequestWaits RequestWaits::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const HostTable& h = trace.host;
  const ThreadId engine = facts.get<Steps>().thread;
  RequestWaits waits;
  if (!engine.valid()) return waits;
  int64_t step_ns = 0;
  const Intervals between = between_steps(trace, trace.threads[engine.value], step_ns);
  if (between.empty()) return waits;
  waits.long_ns = std::max(kLongWait_ns, kLongSteps * step_ns);
  waits.certain.resize(trace.threads.size());
  waits.possible.resize(trace.threads.size());
  Intervals certain, possible, recorded;
  const auto read = [&](const Thread& thread) {
    for (HostId i = thread.begin; i < thread.end; ++i) {
      const HostKind kind = h.kind[i.value];
      if (kind == HostKind::kAnnotation) continue;
      recorded.push_back(h.interval(i));
      if (kind != HostKind::kPython) continue;
      if (awaits_requests(trace.name(i))) certain.push_back(h.interval(i));
      else if (awaits_process(trace.name(i))) possible.push_back(h.interval(i));
    }
  };
  read(trace.threads[engine.value]);
  if (const ThreadId sampled = trace.sampled_stacks()[engine.value]; sampled.valid())
    read(trace.threads[sampled.value]);
  certain = intersect(merged(std::move(certain)), between);
  possible = unite(intersect(merged(std::move(possible)), between), subtract(between, merged(std::move(recorded))));
  waits.possible[engine.value] = subtract(possible, certain);
  waits.certain[engine.value] = std::move(certain);
  return waits;
}

}  // namespace profgpu
