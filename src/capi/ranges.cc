#include "capi/ranges.h"

#include <pthread.h>
#include <profgpu/c.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/dyn_lib.h"
#include "capi/c_values.h"

namespace profgpu {
namespace {

/// libprofgpu-inject.so, where `profgpu run --trace` has put it into the environment: what its entry.cc exports.
struct Recorder {
  DynLib library;
  int (*start)(const char*) = nullptr;
  void (*push)(const char*) = nullptr;
  void (*pop)() = nullptr;
  void (*mark)(const char*) = nullptr;
  [[nodiscard]] bool there() const { return start && push && pop && mark; }
};

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

Recorder open_recorder() {
  Recorder recorder;
  if (!is_set("PROFGPU_RECORD") || !is_set("PROFGPU_INJECT")) return recorder;
  auto library = DynLib::open(std::getenv("PROFGPU_INJECT"));
  if (!library) return recorder;
  recorder.library = *std::move(library);
  recorder.start = recorder.library.symbol<int (*)(const char*)>("profgpu_start");
  recorder.push = recorder.library.symbol<void (*)(const char*)>("profgpu_push");
  recorder.pop = recorder.library.symbol<void (*)()>("profgpu_pop");
  recorder.mark = recorder.library.symbol<void (*)(const char*)>("profgpu_mark");
  return recorder;
}

std::atomic<bool> has_started{false};   // in this process; a forked child starts its own

struct Followed {
  Monitor* monitor;
  std::thread::id thread;
};

// They outlive the destructors of static objects.
std::atomic<int> followed_count{0};
std::mutex& followed_mutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}
std::vector<Followed>& followed() {
  static auto* const all = new std::vector<Followed>;
  return *all;
}

// No thread but the forking one goes on in a child, and monitors run in none.
void prepare_for_forks() {
  static const int done = ::pthread_atfork([] { followed_mutex().lock(); }, [] { followed_mutex().unlock(); },
                                           [] {
                                             has_started = false;
                                             followed_count = 0;
                                             followed().clear();
                                             followed_mutex().unlock();
                                           });
  static_cast<void>(done);
}

/// Null: this process is not recorded. The recorder starts with the first range: a process without any leaves no file.
const Recorder* recorder() {
  static const Recorder* const opened = [] {
    prepare_for_forks();
    return new Recorder(open_recorder());   // never closed: ranges may come until the process ends
  }();
  if (!opened->there()) return nullptr;
  if (!has_started.load(std::memory_order_relaxed)) {
    if (opened->start("program") == 0) return nullptr;
    has_started = true;
  }
  return opened;
}

// A monitor that is started between two ranges, or whose thread leaves the outermost one.
constexpr const char* kBetween = "other";

thread_local std::vector<std::string> open_ranges;

// `popped`: the range that is the innermost one now was open before.
void mark_monitors(bool popped) {
  if (followed_count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(followed_mutex());
  for (const Followed& f : followed()) {
    if (f.thread != std::this_thread::get_id()) continue;
    if (open_ranges.empty())
      f.monitor->mark(kBetween);
    else if (popped)
      f.monitor->go_on(open_ranges.back());
    else
      f.monitor->mark(open_ranges.back());
  }
}

// `phase`: what monitors call it.
void push(const std::string& name, std::string phase) {
  if (const Recorder* r = recorder()) r->push(name.c_str());
  open_ranges.push_back(std::move(phase));
  mark_monitors(false);
}

}  // namespace

void follow_ranges(Monitor& monitor) {
  prepare_for_forks();
  unfollow_ranges(monitor);
  const std::lock_guard lock(followed_mutex());
  followed().push_back({&monitor, std::this_thread::get_id()});
  ++followed_count;
  if (!open_ranges.empty()) monitor.mark(open_ranges.back());
}

void unfollow_ranges(Monitor& monitor) {
  const std::lock_guard lock(followed_mutex());
  std::vector<Followed>& all = followed();
  followed_count -= static_cast<int>(std::erase_if(all, [&](const Followed& f) { return f.monitor == &monitor; }));
}

}  // namespace profgpu

using namespace profgpu;

extern "C" {

void profgpu_range_push(profgpu_string name) { push(std::string(view(name)), std::string(view(name))); }

void profgpu_range_pop(void) {
  if (open_ranges.empty()) return;
  if (const Recorder* r = recorder()) r->pop();
  open_ranges.pop_back();
  mark_monitors(true);
}

void profgpu_step_push(int64_t number) { push("ProfilerStep#" + std::to_string(number), "step"); }

void profgpu_range_mark(profgpu_string name) {
  if (const Recorder* r = recorder()) r->mark(std::string(view(name)).c_str());
}

int profgpu_is_recorded(void) { return recorder() != nullptr ? 1 : 0; }
}
