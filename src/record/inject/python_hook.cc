// The functions that the Python hook and tests call: phases and steps as ranges of the domain "profgpu", and samples of
// the Python stack of the thread that runs the training loop. Each frame is a range of that thread; the innermost
// starts anew with each sample, so that its start is the time of the sample.
//
// A thread of ours takes Python's lock for a sample. Where the loop waits in a call that released the lock, it gets the
// lock at once; where the loop runs Python code, after the interval at which Python's threads take turns, or earlier at
// a wait: with a long interval, samples would be biased to waits. No Python code runs for a sample: signal handlers,
// tracers and compilers do not notice it.
//
// Budget: 100 us a sample of a stack of 30 frames, with caches that the loop has used meanwhile.
#include "record/inject/core.h"
#include "record/inject/glibc.h"
#include "record/inject/recorder.h"
#include "record/inject/system_call.h"

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

// A frame of the Python stack of a thread begins; name 0: the innermost ends.
void post_frame(uint32_t tid, uint32_t name) {
  post_range(intern("profgpu.stack", 13), thread_id(tid), name != 0 ? wire::RangeOp::kPush : wire::RangeOp::kPop, name);
}

using Object = void;   // Python's; opaque to us

// CPython's, from 3.9 on. All but the last are in its stable ABI.
struct Python {
  int (*PyGILState_Ensure)();
  void (*PyGILState_Release)(int);
  void* (*PyEval_SaveThread)();
  void (*PyEval_RestoreThread)(void*);
  Object* (*PyFrame_GetBack)(Object*);
  Object* (*PyFrame_GetCode)(Object*);
  int (*PyFrame_GetLineNumber)(Object*);
  int (*PyFrame_GetLasti)(Object*);            // null before 3.11
  int (*PyCode_Addr2Line)(Object*, int);
  Object* (*PyObject_GetAttrString)(Object*, const char*);
  const char* (*PyUnicode_AsUTF8AndSize)(Object*, intptr_t*);
  Object* (*PyLong_FromUnsignedLong)(unsigned long);
  Object* (*PyDict_GetItemWithError)(Object*, Object*);
  void (*PyErr_Clear)();
  void (*Py_IncRef)(Object*);
  void (*Py_DecRef)(Object*);
  Object* (*_PyThread_CurrentFrames)();
};

constexpr uint32_t kDeepest = 128;   // frames; those further out are left out
constexpr size_t kFolders = 4096;

/// A function and its position: an instruction, before 3.11 a line.
struct Frame {
  Object* code;    // a reference
  int at;
  uint32_t name;   // 0: not shown: one of ours, or too many names
};

// Read and written with Python's lock held, except the atomic words.
struct Sampler {
  Python python;
  int64_t interval_ns;
  char folders[kFolders];            // prefixes of file names, longest first, each with its '/' and a NUL
  unsigned long thread;              // the sampled one, by Python's number; 0: none yet
  uint32_t tid;                      // and the kernel's
  Frame open[kDeepest];              // its frames as of the last sample, outermost first
  uint32_t depth;
  uint32_t open_tid;
  std::atomic<uint32_t> generation;  // of the recorder; in a forked child it is the parent's
  std::atomic<uint32_t> stop, ended;
};
Sampler sampler;

template <class F>
bool find(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

bool find_python(Python& p) {
#define PROFGPU_FIND(name) find(p.name, #name)
  if (dlsym != nullptr) PROFGPU_FIND(PyFrame_GetLasti);
  return dlsym != nullptr && PROFGPU_FIND(PyGILState_Ensure) && PROFGPU_FIND(PyGILState_Release) &&
         PROFGPU_FIND(PyEval_SaveThread) && PROFGPU_FIND(PyEval_RestoreThread) &&
         PROFGPU_FIND(PyFrame_GetBack) && PROFGPU_FIND(PyFrame_GetCode) && PROFGPU_FIND(PyFrame_GetLineNumber) &&
         PROFGPU_FIND(PyCode_Addr2Line) && PROFGPU_FIND(PyObject_GetAttrString) &&
         PROFGPU_FIND(PyUnicode_AsUTF8AndSize) &&
         PROFGPU_FIND(PyLong_FromUnsignedLong) && PROFGPU_FIND(PyDict_GetItemWithError) && PROFGPU_FIND(PyErr_Clear) &&
         PROFGPU_FIND(Py_IncRef) && PROFGPU_FIND(Py_DecRef) && PROFGPU_FIND(_PyThread_CurrentFrames);
#undef PROFGPU_FIND
}

/// A text attribute of an object, valid while this lives.
class Attribute {
 public:
  Attribute(Object* of, const char* name) : object_(sampler.python.PyObject_GetAttrString(of, name)) {
    if (object_ != nullptr) text = sampler.python.PyUnicode_AsUTF8AndSize(object_, nullptr);
    if (text == nullptr) sampler.python.PyErr_Clear(), text = "?";
  }
  ~Attribute() {
    if (object_ != nullptr) sampler.python.Py_DecRef(object_);
  }
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;

  const char* text = nullptr;

 private:
  Object* object_;
};

const char* without_folder(const char* file) {
  for (const char* folder = sampler.folders; *folder != 0; folder += strlen(folder) + 1)
    if (strncmp(file, folder, strlen(folder)) == 0) return file + strlen(folder);
  return file;
}

// As torch.profiler names frames, but with the line that runs.
uint32_t name_of(const Frame& frame) {
  const Attribute file(frame.code, "co_filename"), function(frame.code, "co_name");
  const char* const slash = strrchr(file.text, '/');
  if (slash != nullptr && strcmp(slash, "/profgpu_phases.py") == 0) return 0;
  const bool has_line = sampler.python.PyFrame_GetLasti == nullptr;
  const int line = has_line ? frame.at : sampler.python.PyCode_Addr2Line(frame.code, frame.at);
  Text<1024> name;
  name << without_folder(file.text) << '(' << int64_t{line} << "): " << function.text;
  return intern(name.c_str(), name.length());
}

void leave(uint32_t depth) {
  while (sampler.depth > depth) {
    const Frame& frame = sampler.open[--sampler.depth];
    if (frame.name != 0) post_frame(sampler.open_tid, 0);
    sampler.python.Py_DecRef(frame.code);
  }
}

// The innermost frames of a stack, innermost first. Takes over the reference to the frame.
uint32_t read_frames(Object* frame, Frame (&frames)[kDeepest]) {
  Python& python = sampler.python;
  uint32_t count = 0;
  while (frame != nullptr) {
    if (count < kDeepest) {
      const auto at = python.PyFrame_GetLasti != nullptr ? python.PyFrame_GetLasti : python.PyFrame_GetLineNumber;
      frames[count++] = {python.PyFrame_GetCode(frame), at(frame), 0};
    }
    Object* const back = count < kDeepest ? python.PyFrame_GetBack(frame) : nullptr;
    python.Py_DecRef(frame);
    frame = back;
  }
  return count;
}

// Frames stay open that are the same call as far as visible: the same line of the same function in the same caller.
void take_sample(Object* frame) {
  Frame frames[kDeepest];
  const uint32_t count = read_frames(frame, frames);
  if (sampler.open_tid != sampler.tid) leave(0);
  sampler.open_tid = sampler.tid;
  uint32_t last = 0;   // how many there are up to the innermost shown one
  bool same = true;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Frame& now = frames[count - 1 - i];
    const Frame* const before = i < sampler.depth ? &sampler.open[i] : nullptr;
    const bool unmoved = before != nullptr && before->code == now.code && before->at == now.at;
    now.name = unmoved ? before->name : name_of(now);
    same = same && before != nullptr && before->code == now.code && before->name == now.name;
    if (same) kept = i + 1;
    if (now.name != 0) last = i + 1;
  }
  const uint32_t shorter = sampler.depth < last ? sampler.depth : last;
  if (kept + 1 > shorter) kept = shorter > 0 ? shorter - 1 : 0;
  leave(kept);
  for (uint32_t i = 0; i < count; ++i) {
    const Frame& now = frames[count - 1 - i];
    if (i < kept) sampler.open[i].at = now.at;
    if (i < kept || i >= last) {
      sampler.python.Py_DecRef(now.code);
    } else {
      sampler.open[sampler.depth++] = now;
      if (now.name != 0) post_frame(sampler.tid, now.name);
    }
  }
}

bool is_over() { return sampler.stop.load() != 0 || sampler.generation.load() != recorder_generation(); }

void sample() {
  Python& python = sampler.python;
  if (sampler.thread == 0 || !recording()) return;
  Object* const frames = python._PyThread_CurrentFrames();
  Object* const number = python.PyLong_FromUnsignedLong(sampler.thread);
  if (frames != nullptr && number != nullptr)
    if (Object* const frame = python.PyDict_GetItemWithError(frames, number); frame != nullptr) {
      python.Py_IncRef(frame);
      take_sample(frame);
    }
  if (number != nullptr) python.Py_DecRef(number);
  if (frames != nullptr) python.Py_DecRef(frames);
  python.PyErr_Clear();
}

void* take_samples(void*) {
  Python& python = sampler.python;
  system_call(SYS_prctl, 15 /* PR_SET_NAME */, as_word("profgpu stacks"));
  const int state = python.PyGILState_Ensure();
  uint32_t random = 1;
  while (!is_over()) {
    random = random * 1103515245 + 12345;   // not in step with the loop
    void* const thread_state = python.PyEval_SaveThread();
    wait_on(&sampler.stop, 0, sampler.interval_ns / 2 + sampler.interval_ns * (random >> 16) / 65536);
    python.PyEval_RestoreThread(thread_state);
    if (!is_over()) sample();
  }
  python.PyGILState_Release(state);
  sampler.ended = 1;
  wake_all(&sampler.ended);
  return nullptr;
}

}  // namespace
}  // namespace profgpu::inject

using namespace profgpu;

PROFGPU_EXPORT int profgpu_start(const char* who) { return inject::start_recorder(who != nullptr ? who : "program"); }
PROFGPU_EXPORT void profgpu_push(const char* name) { inject::post_phase(wire::RangeOp::kPush, name, 0); }
PROFGPU_EXPORT void profgpu_pop(void) { inject::post_phase(wire::RangeOp::kPop, nullptr, 0); }
PROFGPU_EXPORT void profgpu_mark(const char* name) { inject::post_phase(wire::RangeOp::kMark, name, 0); }
PROFGPU_EXPORT void profgpu_step(long number) {
  inject::post_phase(wire::RangeOp::kStep, nullptr, static_cast<uint64_t>(number));
}
/// A step ended that the program pushed as a range: counted, with no row of its own.
PROFGPU_EXPORT void profgpu_step_ended(void) {
  using namespace inject;
  if (Core* const core = recording_core(); core != nullptr) follow_step(*core, static_cast<int64_t>(core->steps.load()));
}
PROFGPU_EXPORT void profgpu_end(void) { inject::end_recorder(); }
PROFGPU_EXPORT void profgpu_property(const char* key, const char* value) {
  if (key != nullptr && value != nullptr && inject::recording_here()) inject::property(key, value);
}

/// Starts sampling, with Python's lock held. `folders`: prefixes to remove from file names, longest first, each ending
/// in '/', separated by newlines. 0: impossible with this Python.
PROFGPU_EXPORT int profgpu_stacks_start(long interval_ns, const char* folders) {
  using namespace inject;
  Python python;
  if (interval_ns <= 0 || !recording() || !find_python(python) || pthread_create == nullptr) return 0;
  if (sampler.generation.load() == recorder_generation()) return 1;
  memset(static_cast<void*>(&sampler), 0, sizeof sampler);
  sampler.python = python;
  sampler.interval_ns = interval_ns;
  for (size_t i = 0; folders[i] != 0 && i + 2 < kFolders; ++i)
    sampler.folders[i] = folders[i] == '\n' ? '\0' : folders[i];
  sampler.generation = recorder_generation();
  const uint64_t mask = block_signals();   // the new thread has what this one has
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, take_samples, nullptr) == 0;
  if (started) pthread_detach(thread);
  restore_signals(mask);
  return started;
}

/// Selects the calling thread, with Python's lock held. `thread`: Python's number of it.
PROFGPU_EXPORT void profgpu_stacks_follow(unsigned long thread) {
  inject::sampler.thread = thread;
  inject::sampler.tid = inject::kernel_thread_id();
}

/// Stops sampling, without Python's lock held: no more samples once this returns, unless Python hangs.
PROFGPU_EXPORT void profgpu_stacks_end(void) {
  using namespace inject;
  constexpr int64_t kMaxWaitNs = 1'000'000'000;
  if (sampler.generation.load() == 0 || sampler.generation.load() != recorder_generation()) return;
  sampler.stop = 1;
  wake_all(&sampler.stop);
  for (const int64_t until = host_now() + kMaxWaitNs; sampler.ended.load() == 0 && host_now() < until;)
    wait_on(&sampler.ended, 0, kMaxWaitNs / 10);
}
