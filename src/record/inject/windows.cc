// When the device is recorded: what was asked for, counted in steps, occurrences of a range, time, or orders.
#include <string.h>

#include "record/inject/core.h"

namespace profgpu::inject {
namespace {

// The device follows `wanted` without anybody waiting: who finds another thread at it leaves the change to that one.
void want(Core& core, bool open, const char* reason) {
  WindowPlan& plan = core.windows;
  plan.reason.store(intern(reason), std::memory_order_relaxed);
  if (plan.wanted.exchange(open ? 1 : 0) != (open ? 1u : 0u)) reconcile_windows(core);
}

void apply(Core& core, const Source& source, bool open) {
  const int saved_errno = errno;
  WindowPlan& plan = core.windows;
  const uint32_t reason = plan.reason.load(std::memory_order_relaxed);
  char text[256] = "";
  if (reason != 0) {
    uint32_t length = 0;
    const char* const name = core.names.text_of(reason, length);
    memcpy(text, name, length < sizeof text ? length : sizeof text - 1);
  }
  if (open) {
    plan.is_open = source.open(text);
    // It has said why not; the next change of `wanted` tries again.
    if (!plan.is_open) plan.wanted = 0;
  } else {
    source.close(text);
    plan.is_open = false;
  }
  errno = saved_errno;
  if (plan.is_open != open) return;
  window(open ? wire::WindowEvent::kOpen : wire::WindowEvent::kClose, text);
  set_state(open ? wire::RecorderState::kRecording : wire::RecorderState::kWaiting, nullptr);
}

bool is_opening(wire::RangeOp op) { return op == wire::RangeOp::kPush || op == wire::RangeOp::kStart; }

void close_after_last(Core& core) {
  core.windows.last_thread = 0;
  core.windows.last_range = 0;
  want(core, false, "range");
}

// The ranges inside the last occurrence, up to its end.
void follow_last(Core& core, const wire::RangeEvent& row) {
  WindowPlan& plan = core.windows;
  if (row.op == wire::RangeOp::kEnd && row.range == plan.last_range.load(std::memory_order_acquire) && row.range != 0)
    return close_after_last(core);
  if (plan.last_thread.load(std::memory_order_acquire) != row.thread || row.domain != plan.last_domain) return;
  if (row.op == wire::RangeOp::kPush) ++plan.last_depth;
  if (row.op == wire::RangeOp::kPop && --plan.last_depth == 0) close_after_last(core);
}

int64_t tend_time(Core& core, int64_t now_ns) {
  const Options& o = core.options;
  const int64_t begin = core.started_ns + o.delay_ns;
  const int64_t end = o.duration_ns < INT64_MAX - begin ? begin + o.duration_ns : INT64_MAX;
  if (now_ns < begin) return begin;
  // Once each, so that an order of profgpu attach is not undone.
  const int64_t stage = core.windows.occurrences.load(std::memory_order_relaxed);
  if (stage == 0 && now_ns < end) {
    core.windows.occurrences = 1;
    want(core, true, "time");
  } else if (stage < 2 && now_ns >= end) {
    core.windows.occurrences = 2;
    want(core, false, "time");
  }
  return now_ns < end ? end : INT64_MAX;
}

void obey(Core& core) {
  wire::ControlPage* const page = core.control;
  if (page == nullptr) return;
  const uint64_t request = get_word(page->request);
  if (request == get_word(page->answered)) return;
  const auto order = static_cast<wire::ControlOrder>(request & 0xff);
  if (order == wire::ControlOrder::kStart) want(core, true, "attach");
  if (order == wire::ControlOrder::kStop) want(core, false, "attach");
  if (order == wire::ControlOrder::kMemory) {
    core.memory_orders.fetch_add(1);
    wake_all(&core.memory_orders);
  }
  set_word(page->answered, request);
}

}  // namespace

void reconcile_windows(Core& core) {
  WindowPlan& plan = core.windows;
  for (;;) {
    const Source* const source = plan.source.load();
    const bool wanted = plan.wanted.load() != 0;
    if (source == nullptr || wanted == plan.is_open.load() || !plan.lock.try_lock()) return;
    if (wanted != plan.is_open.load()) apply(core, *source, wanted);
    plan.lock.unlock();
  }
}

void start_windows(Core& core) {
  const Options& o = core.options;
  if (o.window == WindowKind::kRange) core.windows.range_name = intern(o.range);
  if (o.window == WindowKind::kAll) want(core, true, "start");
  if (o.window == WindowKind::kSteps && o.first == 0) want(core, true, "steps");
}

int64_t tend_windows(Core& core, int64_t now_ns) {
  obey(core);
  return core.options.window == WindowKind::kTime ? tend_time(core, now_ns) : INT64_MAX;
}

void follow_step(Core& core, int64_t number) {
  core.steps.fetch_add(1, std::memory_order_relaxed);
  const Options& o = core.options;
  if (o.window != WindowKind::kSteps) return;
  // Step `number` has ended: the next one runs from here on.
  if (number + 1 >= o.end)
    want(core, false, "steps");
  else if (number + 1 >= o.first)
    want(core, true, "steps");
}

void follow_range(Core& core, const wire::RangeEvent& row) {
  if (row.op == wire::RangeOp::kStep) return follow_step(core, static_cast<int64_t>(row.payload));
  WindowPlan& plan = core.windows;
  if (core.options.window != WindowKind::kRange) return;
  follow_last(core, row);
  if (!is_opening(row.op) || row.name == 0 || row.name != plan.range_name) return;
  const int64_t occurrence = plan.occurrences.fetch_add(1);
  if (occurrence == core.options.first) want(core, true, "range");
  if (occurrence + 1 != core.options.end) return;
  if (row.op == wire::RangeOp::kStart) {
    plan.last_range.store(row.range, std::memory_order_release);
  } else {
    plan.last_domain = row.domain;
    plan.last_depth = 1;
    plan.last_thread.store(row.thread, std::memory_order_release);
  }
}

void set_source(const Source* source) {
  Core* const core = recording_core();
  if (core == nullptr) return;
  core->windows.source.store(source);
  set_state(wire::RecorderState::kWaiting, nullptr);
  reconcile_windows(*core);
}

void open_window(const char* reason) {
  if (Core* const core = recording_core(); core != nullptr) want(*core, true, reason);
}

void close_window(const char* reason) {
  if (Core* const core = recording_core(); core != nullptr) want(*core, false, reason);
}

}  // namespace profgpu::inject
