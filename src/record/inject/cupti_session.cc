#include "record/inject/cupti_session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>

#include "record/inject/cupti_decode.h"
#include "record/inject/cupti_library.h"
#include "record/inject/glibc.h"

namespace profgpu::inject::cupti {

namespace {

using wire::DropReason;
using wire::RecorderState;
using wire::Severity;

// A CUPTI clock that differs from the machine's by more than this has been changed.
constexpr int64_t kClockJumpNs = 1'000'000;
// After another profiler's stop, before its callbacks are replaced: it may still collect its own records.
constexpr int64_t kResumeAfterNs = 1'000'000'000;
// After another profiler took our place unannounced: longer than most profiles.
constexpr int64_t kAwayNs = 60'000'000'000;
// Recording pauses when CUPTI's buffers beyond our bound exceed this part of it, until they are back.
constexpr size_t kPauseBeyondPart = 2;
// When CUPTI holds more than this part of our bound, its growth is watched.
constexpr size_t kBehindPart = 4;

struct Session {
  uint32_t generation;  // of the recorder that it belongs to
  Library library;
  Buffers buffers;
  void* subscriber;
  std::atomic<bool> enabled, registered, yielded, finalized;
  std::atomic<bool> reopen;  // a window is to be open once nobody else records
  std::atomic<int64_t> resume_at_ns;
  bool robbed;               // another profiler came unannounced
  bool choked;               // paused until CUPTI's buffers are back
  int64_t looked_ns;         // when CUPTI's buffers were counted last, at most once a flush interval
  size_t held, held_before;  // their number then, and the time before
  bool refusals_reported, second_reported;
  bool own_thread_ids;       // CUPTI's, which are not the kernel's
  int64_t clock_difference;  // of CUPTI's clock to the machine's, at the last look
  bool clock_known;
};
Session session;

[[gnu::format(printf, 1, 2)]] void warn(const char* format, ...) {
  char sentence[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  note(Severity::kWarning, sentence);
}

void no_device(const char* reason) {
  set_state(RecorderState::kNoDevice, reason);
  note(Severity::kWarning, reason);
}

void pause() { set_state(RecorderState::kPaused, "another profiler in the process records the device now"); }

// Buffers, on CUPTI's and the program's threads.

void requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = session.buffers.take(session.library.version < kApi_12_9);
  *size = *buffer != nullptr ? Buffers::kBytes : 0;
  *most_records = 0;
  if (*buffer != nullptr && session.buffers.beyond() > 0) wake_recorder();  // to pause the source of records
}

void collect(uint8_t* buffer, size_t valid) {
  const Calls& calls = session.library.calls;
  Undecoded undecoded;
  {
    const Collecting held;
    undecoded = decode(calls, buffer, valid, held);
  }
  if (undecoded.unfinished > 0) drop(wire::ChunkKind{}, DropReason::kCupti, undecoded.unfinished);
  if (undecoded.damaged)
    note(Severity::kWarning, "CUPTI delivered a buffer that it cannot read itself; the rest of it is missing");
}

void completed(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  if (buffer == nullptr) return;
  const int error = errno;
  const Calls& calls = session.library.calls;
  const Buffers::Origin origin = session.buffers.origin(buffer);
  if (origin == Buffers::Origin::kForeign) {
    note(Severity::kWarning, "CUPTI delivered a buffer of another profiler; some of that profiler's records are missing");
    return;
  }
  // Counting is much faster than decoding: CUPTI's thread catches up before memory runs out.
  const bool behind = session.buffers.taken() > session.buffers.count() * 3 / 4;
  if (origin == Buffers::Origin::kBeyond || behind) {
    drop(wire::ChunkKind{}, DropReason::kRecorderFull, count_records(calls, buffer, valid));
  } else if (valid > 0) {
    collect(buffer, valid);
  }
  session.buffers.give_back(buffer);
  size_t dropped = 0;
  if (calls.ActivityGetNumDroppedRecords(context, stream, &dropped) == kSuccess && dropped > 0)
    drop(wire::ChunkKind{}, DropReason::kCupti, dropped);
  errno = error;
}

// What is enabled.

// What CUPTI forgets when it is finalized.
bool configure() {
  const Calls& calls = session.library.calls;
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  if (calls.ActivitySetAttribute != nullptr) calls.ActivitySetAttribute(kAttributeZeroedBuffers, &size, &zeroed);
  session.own_thread_ids = calls.SetThreadIdType != nullptr && calls.SetThreadIdType(kThreadIdSystem) != kSuccess;
  const Result result = calls.ActivityRegisterCallbacks(requested, completed);
  if (result != kSuccess) {
    char reason[200];
    snprintf(reason, sizeof reason, "CUPTI cannot record: cuptiActivityRegisterCallbacks failed with error %d",
             result);
    no_device(reason);
  }
  session.registered = result == kSuccess;
  return session.registered;
}

void disable_all() {
  session.enabled = false;
  disable_kinds(session.library.calls);
}

bool enable_all() {
  char reason[200];
  if (!enable_kinds(session.library.calls, !options().graph_nodes, !session.refusals_reported, reason, sizeof reason)) {
    no_device(reason);
    return false;
  }
  if (session.own_thread_ids && !session.refusals_reported)
    note(Severity::kWarning, "CUPTI does not report the kernel's thread ids; calls cannot be matched with ranges");
  session.refusals_reported = true;
  session.enabled = true;
  return true;
}

// cudaProfilerStart and Stop.

constexpr uint32_t kRuntimeStart = 171, kRuntimeStop = 172, kDriverStart = 308, kDriverStop = 309;

// The runtime's function calls the driver's: the second of both finds the window in the wanted state.
void called(void*, uint32_t, uint32_t cbid, const CallbackInfo* info) {
  if (info->site != kSiteExit) return;
  if (cbid == kDriverStart || cbid == kRuntimeStart) open_window("cudaProfilerStart");
  if (cbid == kDriverStop || cbid == kRuntimeStop) close_window("cudaProfilerStop");
}

Result subscribe(char* holder, size_t size) {
  const Calls& calls = session.library.calls;
  if (calls.SubscribeV2 != nullptr) {
    SubscriberParams parameters{sizeof parameters, "profgpu", holder, size};
    return calls.SubscribeV2(&session.subscriber, called, nullptr, &parameters);
  }
  return calls.Subscribe != nullptr ? calls.Subscribe(&session.subscriber, called, nullptr) : kMultipleSubscribers;
}

void follow_profiler_calls() {
  const Calls& calls = session.library.calls;
  char holder[128] = "";
  Result result = subscribe(holder, sizeof holder);
  for (const uint32_t cbid : {kDriverStart, kDriverStop, kRuntimeStart, kRuntimeStop})
    if (result == kSuccess && calls.EnableCallback != nullptr)
      result = calls.EnableCallback(1, session.subscriber, cbid < kDriverStart ? kRuntimeApi : kDriverApi, cbid);
  if (result == kSuccess) return;
  warn("cudaProfilerStart cannot be followed (error %d)%s%s%s; the whole run is recorded instead", result,
       *holder != 0 ? ": CUPTI is held by " : "", holder,
       result == kMultipleSubscribers && *holder == 0 ? ": another tool holds CUPTI" : "");
  open_window("cudaProfilerStart cannot be followed");
}

// What the recorder asks for.

bool open(const char*) {
  session.reopen = session.yielded.load();
  if (session.yielded) return false;
  if (!session.registered && !configure()) return false;
  return enable_all();
}

void close(const char*) {
  session.reopen = false;
  if (session.enabled) disable_all();
  // Where memory runs out, a flush would wait for all of CUPTI's records; the next one gets them.
  if (!session.yielded && !session.choked) session.library.calls.ActivityFlushAll(0);
}

// CUPTI's default clock: no call removes another profiler's clock, one can only set another.
uint64_t machine_clock() { return static_cast<uint64_t>(clock_ns(CLOCK_REALTIME)); }

int64_t device_clock() {
  uint64_t time = 0;
  return session.library.calls.GetTimestamp(&time) == kSuccess ? static_cast<int64_t>(time) : 0;
}

// The difference of CUPTI's clock to the machine's: 0 unless another profiler changed CUPTI's clock. Between readings
// the thread may be interrupted and the machine's clock be set: the closest of several counts, and a time between two
// readings of the machine's clock does not differ from it.
bool clock_difference(int64_t& difference) {
  constexpr int kTries = 5;
  int64_t least = INT64_MAX;
  for (int i = 0; i < kTries && least > kClockJumpNs / 10; ++i) {
    const auto before = static_cast<int64_t>(machine_clock());
    const int64_t device_ns = device_clock();
    const auto after = static_cast<int64_t>(machine_clock());
    if (device_ns == 0) return false;
    const int64_t low = before < after ? before : after, high = before < after ? after : before;
    if (high - low >= least) continue;
    least = high - low;
    difference = device_ns < low ? device_ns - low : device_ns > high ? device_ns - high : 0;
  }
  return true;
}

bool is_jump(int64_t ns) { return ns > kClockJumpNs || ns < -kClockJumpNs; }

// Where this library is not preloaded, another profiler is detected by its clock. By then it has replaced our callbacks,
// and the enabled kinds are also its own: nothing is disabled. We resume when it restores the clock, or after kAwayNs.
void watch_clock() {
  int64_t difference = 0;
  if (!clock_difference(difference)) return;
  const int64_t moved = difference - session.clock_difference;
  if (session.yielded) {
    if (session.robbed && !is_jump(difference) && session.resume_at_ns > host_now() + kResumeAfterNs)
      session.resume_at_ns = host_now() + kResumeAfterNs;
  } else if (session.clock_known && is_jump(moved)) {
    warn("CUPTI's clock moved by %.3f ms: another profiler in the process uses CUPTI; recording of the device pauses",
         static_cast<double>(moved) * 1e-6);
    session.robbed = true;
    session.yielded = true;
    const bool was = session.enabled.exchange(false);
    session.resume_at_ns = host_now() + kAwayNs;
    if (was) close_window("another profiler in the process uses CUPTI");
    session.reopen = was;
    pause();
  }
  session.clock_difference = difference;
  session.clock_known = true;
}

// The other profiler's buffers go to it first; then everything is as before.
void take_up_again() {
  const Calls& calls = session.library.calls;
  calls.ActivityFlushAll(kFlushForced);
  int64_t difference = 0;
  if (calls.ActivityRegisterTimestampCallback != nullptr && clock_difference(difference) && is_jump(difference))
    calls.ActivityRegisterTimestampCallback(machine_clock);
  session.resume_at_ns = 0;
  session.yielded = false;
  session.robbed = false;
  session.registered = false;
  session.clock_known = false;
  if (session.finalized.exchange(false) && session.subscriber != nullptr) follow_profiler_calls();
  if (session.reopen) {
    open_window("resumed");
  } else {
    set_state(RecorderState::kWaiting, nullptr);
  }
}

// CUPTI before 12.9 must not be denied a buffer: while it does not return its buffers, recording pauses.
void watch_memory() {
  const size_t beyond = session.buffers.beyond();
  if (!session.choked && beyond * kPauseBeyondPart > session.buffers.count()) {
    session.choked = true;
    close_window("out of memory for records");
    note(Severity::kWarning,
         "CUPTI delivers records more slowly than they come; recording pauses until it has caught up");
  } else if (session.choked && beyond == 0 && session.buffers.taken() * 2 < session.buffers.count()) {
    session.choked = false;
    open_window("memory for records is free again");
  }
}

// CUPTI's backlog grows; it delivers full buffers by itself. A flush would wait for all of it and delay the check for
// memory.
bool falls_behind() {
  const size_t held = session.buffers.taken() + session.buffers.beyond();
  if (const int64_t now = host_now(); now - session.looked_ns >= options().flush_ns) {
    session.looked_ns = now;
    session.held_before = session.held;
    session.held = held;
  }
  return !session.choked && held > session.held_before && held * kBehindPart > session.buffers.count();
}

void watch_libraries() {
  char other[300];
  if (session.second_reported || mapped_libraries(session.library.path, other, sizeof other) == 0) return;
  session.second_reported = true;
  warn("a second libcupti is in the process: %s; only one of them can record", other);
}

void flush(bool at_end) {
  if (!at_end && session.registered) watch_clock();
  if (session.yielded) {
    const int64_t at = session.resume_at_ns;
    if (!at_end && at != 0 && host_now() >= at) take_up_again();
    return;
  }
  if (!session.registered) return;
  if (!at_end) watch_memory();  // first: a flush waits for all records
  if (at_end || !falls_behind()) session.library.calls.ActivityFlushAll(at_end ? kFlushForced : 0);
  add_seen_devices();
  if (!at_end) watch_libraries();
}

constexpr Source kSource{open, close, flush, device_clock};

int driver_version() {
  void* const driver = dlopen != nullptr ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : nullptr;
  const auto get = driver != nullptr ? reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion")) : nullptr;
  int version = 0;
  return get != nullptr && get(&version) == 0 ? version : 0;
}

void put_properties(int driver) {
  char text[32];
  snprintf(text, sizeof text, "%u", session.library.version);
  property("cupti_version", text);
  property("cupti_path", session.library.path);
  snprintf(text, sizeof text, "%d.%d", driver / 1000, driver % 1000 / 10);
  if (driver > 0) property("driver_version", text);
}

}  // namespace

void start_session() {
  if (!start_recorder("cuda") || !options().cuda || session.generation == recorder_generation()) return;
  // A forked child starts anew; its parent's CUPTI does not work in it.
  memset(static_cast<void*>(&session), 0, sizeof session);
  session.generation = recorder_generation();
  const int driver = driver_version();
  if (!open_library(driver, session.library)) return no_device(session.library.problem);
  put_properties(driver);
  if (!session.buffers.reserve(options().device_bytes())) return no_device("no memory for CUPTI's buffers");
  reset_decoder(session.library.version);
  if (rival_records()) {
    session.yielded = true;
    pause();
  } else if (!configure()) {
    return;
  }
  watch_libraries();
  set_source(&kSource);
  if (options().window == WindowKind::kCudaProfilerApi) follow_profiler_calls();
}

void yield_to(const char* whom) {
  if (session.generation == 0 || session.generation != recorder_generation() || !session.registered) return;
  if (session.yielded.exchange(true)) return;
  session.resume_at_ns = 0;
  const bool was = session.enabled;
  if (was) disable_all();
  session.library.calls.ActivityFlushAll(kFlushForced);
  if (was) close_window(whom);
  session.reopen = was;
  pause();
}

void resume_after(bool finalized) {
  if (!session.yielded) return;
  if (finalized) session.finalized = true;
  session.resume_at_ns = host_now() + kResumeAfterNs;
}

const Calls* session_calls() { return session.registered || session.yielded ? &session.library.calls : nullptr; }

}  // namespace profgpu::inject::cupti

PROFGPU_EXPORT int InitializeInjection() {
  const int error = errno;
  profgpu::inject::cupti::start_session();
  errno = error;
  return 1;  // whatever happened: a failure of ours must not be one of cuInit
}

namespace profgpu::inject::cupti {

bool Buffers::reserve(size_t bytes) {
  const size_t count = bytes / kBytes;
  count_ = count < 4 ? 4 : count > kMaxBound ? kMaxBound : count;
  uint8_t* const first = take(false);   // whether there is memory at all
  if (first != nullptr) give_back(first);
  return first != nullptr;
}

uint8_t* Buffers::take(bool must) {
  // The lowest that is free: touches as much memory as CUPTI holds at once, not all that it may.
  for (size_t at = 0; at < (must ? kSlots : count_); ++at) {
    Slot& slot = slots_[at];
    if (slot.in_use.load(std::memory_order_relaxed) || slot.in_use.exchange(true, std::memory_order_acquire)) continue;
    uint8_t* buffer = slot.buffer.load(std::memory_order_relaxed);
    if (buffer == nullptr) {
      // Pages come zeroed and only when they are written.
      constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
      void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
      buffer = mapped == MAP_FAILED ? nullptr : static_cast<uint8_t*>(mapped);
      slot.buffer.store(buffer, std::memory_order_relaxed);
    }
    if (buffer == nullptr) slot.in_use.store(false, std::memory_order_release);
    else (at < count_ ? taken_ : beyond_).fetch_add(1, std::memory_order_relaxed);
    return buffer;
  }
  return nullptr;
}

size_t Buffers::slot_of(const uint8_t* buffer) const {
  size_t at = 0;
  while (at < kSlots && slots_[at].buffer.load(std::memory_order_relaxed) != buffer) ++at;
  return at;
}

Buffers::Origin Buffers::origin(const uint8_t* buffer) const {
  const size_t at = slot_of(buffer);
  return at < count_ ? Origin::kBound : at < kSlots ? Origin::kBeyond : Origin::kForeign;
}

void Buffers::give_back(uint8_t* buffer) {
  const size_t at = slot_of(buffer);
  if (at == kSlots) return;
  if (at < count_) {
    memset(buffer, 0, kBytes);
  } else {
    slots_[at].buffer.store(nullptr, std::memory_order_relaxed);
    munmap(buffer, kBytes);
  }
  (at < count_ ? taken_ : beyond_).fetch_sub(1, std::memory_order_relaxed);
  slots_[at].in_use.store(false, std::memory_order_release);
}

}  // namespace profgpu::inject::cupti
