// What the Python hook and tests call: phases and steps as ranges of the domain "profgpu".
#include "record/inject/python_ranges.h"
#include "record/inject/recorder.h"

namespace profgpu::inject {
namespace {

void post_range(uint32_t domain, uint32_t thread, wire::RangeOp op, uint32_t name, uint64_t payload = 0) {
  wire::RangeEvent row;
  row.time_ns = host_now();
  row.thread = thread;
  row.name = name;
  row.domain = domain;
  row.op = op;
  row.payload = payload;
  if (op == wire::RangeOp::kStep) row.payload_type = wire::PayloadType::kInteger;
  post(row);
}

void post_phase(wire::RangeOp op, const char* name, uint64_t payload) {
  if (recording_here()) post_range(intern("profgpu", 7), thread_id(), op, intern(name), payload);
}

}  // namespace

void post_frame(uint32_t tid, uint32_t name) {
  post_range(intern("profgpu.stack", 13), thread_id(tid), name != 0 ? wire::RangeOp::kPush : wire::RangeOp::kPop, name);
}

}  // namespace profgpu::inject

using namespace profgpu;

PROFGPU_EXPORT int profgpu_start(const char* who) { return inject::start_recorder(who != nullptr ? who : "program"); }
PROFGPU_EXPORT void profgpu_push(const char* name) { inject::post_phase(wire::RangeOp::kPush, name, 0); }
PROFGPU_EXPORT void profgpu_pop(void) { inject::post_phase(wire::RangeOp::kPop, nullptr, 0); }
PROFGPU_EXPORT void profgpu_mark(const char* name) { inject::post_phase(wire::RangeOp::kMark, name, 0); }
PROFGPU_EXPORT void profgpu_step(long number) {
  inject::post_phase(wire::RangeOp::kStep, nullptr, static_cast<uint64_t>(number));
}
PROFGPU_EXPORT void profgpu_end(void) { inject::end_recorder(); }
PROFGPU_EXPORT void profgpu_property(const char* key, const char* value) {
  if (key != nullptr && value != nullptr && inject::recording_here()) inject::property(key, value);
}
