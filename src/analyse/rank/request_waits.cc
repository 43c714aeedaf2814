#include "analyse/rank/request_waits.h"

#include <algorithm>
#include <string_view>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

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
  if (starts_with_any(name, kCalls)) return true;
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
  if (starts_with_any(name, kCalls)) return true;
  return is_any(name, {{"shm_broadcast.py(", "acquire_read"},
                       {"shm_broadcast.py(", "dequeue"},
                       {"sglang/srt/utils", "broadcast_pyobj"},
                       {"multiprocessing/connection.py(", "wait"},
                       {"multiprocessing/connection.py(", "poll"},
                       {"multiprocessing/connection.py(", "recv"},
                       {"threading.py(", "wait"}});
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
  Intervals steps;
  std::vector<int64_t> durations;
  for (const EngineRange& step : facts.get<Steps>().of_engine)
    if (is_served(step.batch.kind)) steps.push_back(step.time), durations.push_back(step.time.length());
  RequestWaits waits;
  const Steps& all = facts.get<Steps>();
  if (steps.empty() && !facts.get<Frameworks>().serves()) return waits;
  const HostId first = steps.empty() ? HostId() : all.of_engine.front().range;
  const ThreadId engine = first.valid() ? h.thread[first.value] : all.thread;
  if (!engine.valid() || trace.windows.empty()) return waits;
  Intervals since_first;   // only after the engine's first step is a gap in the records a wait
  if (!steps.empty()) {
    waits.long_ns = longest_scheduling(std::move(durations));
    steps = merged(std::move(steps));
    since_first = subtract({{steps.front().start, std::max(steps.back().end, trace.windows.back().end)}}, steps);
  }
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
  certain = unite(subtract(merged(std::move(certain)), steps), all.without_requests);
  possible = unite(subtract(merged(std::move(possible)), steps), subtract(since_first, merged(std::move(recorded))));
  waits.possible[engine.value] = subtract(possible, certain);
  waits.certain[engine.value] = std::move(certain);
  return waits;
}

}  // namespace profgpu
