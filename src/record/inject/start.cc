// The recorder's life: memory, start, its own thread, the end of the process, and children.
#include <linux/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "base/launcher.h"
#include "record/inject/core.h"
#include "record/inject/glibc.h"
#include "record/inject/recorder.h"

extern "C" void __tsan_init() __attribute__((weak));   // the thread sanitizer's, in programs that have it

namespace profgpu::inject {

std::atomic<Core*> the_core;

namespace {

// Unlike the core, a forked child inherits this. Written where a recorder starts.
struct Inherited {
  size_t mapped_bytes;
  std::atomic<uint32_t> generation;
  std::atomic<uint32_t> has_handlers;
  OutputFile file;
};
Inherited inherited;

constexpr size_t kPage = 4096;
constexpr size_t kCoreBytes = (sizeof(Core) + kPage - 1) / kPage * kPage;
static_assert(kCoreBytes <= size_t{32} << 20, "the smallest bound on memory (96 MiB) allows for this much");

// Text and each of the two buffers.
size_t share_bytes(size_t mapped_bytes) { return (mapped_bytes - kCoreBytes) / 3 / kPage * kPage; }

void* map_core(void* at, size_t size) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
  void* const memory = map_memory(at, size, PROT_READ | PROT_WRITE, flags);
  // Also for children that our handler does not see (clone). Kernels before 4.14 do not have it.
  if (!is_failure(memory)) system_call(SYS_madvise, as_word(memory), static_cast<long>(size), 18 /* MADV_WIPEONFORK */);
  return memory;
}

// The process's only core; null where there is no memory for it.
Core* ensure_core(const Options& options) {
  Core* core = the_core.load(std::memory_order_acquire);
  if (core != nullptr) return core;
  const size_t size = kCoreBytes + 3 * (options.memory_bytes / 16 / kPage * kPage);
  void* const memory = map_core(nullptr, size);
  if (is_failure(memory)) return nullptr;
  if (the_core.compare_exchange_strong(core, static_cast<Core*>(memory))) {
    inherited.mapped_bytes = size;
    return static_cast<Core*>(memory);
  }
  system_call(SYS_munmap, as_word(memory), static_cast<long>(size));
  return core;
}

void in_child() {
  Core* const core = the_core.load();
  if (core == nullptr) return;
  map_core(core, inherited.mapped_bytes);
  close_inherited(inherited.file);
}

void flush_as_guest(Core& core, bool at_end) {
  const SignalsHeld held;
  flush(core, at_end);
  if (at_end) write_end(core);
}

// Gives up on an unresponsive thread of ours: a process must be able to end.
constexpr int64_t kExitWaitNs = 10'000'000'000;

// Whether this thread of ours is the last: the main thread has left by pthread_exit(), and all others have. Without us
// the process would have ended. Opens nothing: a program that closes a stream and opens another expects its number.
bool is_last_thread() {
  struct stat threads {};
  char path[16];
  return system_call(SYS_newfstatat, AT_FDCWD, as_word("/proc/self/task"), as_word(&threads), 0) == 0 &&
         threads.st_nlink == 2 + 2 &&   // the main thread stays as a zombie, which has no program any more
         system_call(SYS_readlinkat, AT_FDCWD, as_word("/proc/self/exe"), as_word(path), sizeof path) == -ENOENT;
}

void* run(void* argument) {
  Core& core = *static_cast<Core*>(argument);
  core.own_thread = kernel_thread_id();
  system_call(SYS_prctl, PR_SET_NAME, as_word("profgpu"));
  int64_t flush_at = 0;
  for (bool ending = false; !ending;) {
    const uint32_t seen = core.wake_word.load();
    const int64_t due = tend_windows(core, host_now());
    ending = core.phase.load() != Phase::kRecording;
    const int64_t now = host_now();
    if (!ending && now < flush_at) {
      wait_on(&core.wake_word, seen, (due < flush_at ? due : flush_at) - now);
      // Woken early: a buffer is half full.
      if (core.wake_word.load() == seen) continue;
    }
    ending = ending || is_last_thread();
    flush(core, ending);
    flush_at = host_now() + core.options.flush_ns;
  }
  core.phase = Phase::kEnding;
  write_end(core);
  core.has_ended = 1;
  wake_all(&core.has_ended);
  return nullptr;
}

// With all signals blocked, which the new thread inherits: the program's handlers run on its own threads.
bool start_thread(Core& core) {
  if (pthread_create == nullptr || pthread_detach == nullptr) return false;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // CUPTI works on this thread; a program may have made the default small.
  if (pthread_attr_setstacksize != nullptr) pthread_attr_setstacksize(&attributes, size_t{2} << 20);
  pthread_t thread;
  core.has_thread = 1;
  const bool started = pthread_create(&thread, &attributes, run, &core) == 0;
  pthread_attr_destroy(&attributes);
  if (started)
    pthread_detach(thread);
  else
    core.has_thread = 0;
  return started;
}

bool fail(Core& core, const char* reason, int error) {
  Text<256> text;
  text << reason << " (errno " << static_cast<int64_t>(-error) << ")";
  set_state(wire::RecorderState::kFailed, text.c_str());
  if (core.control != nullptr) set_word(core.control->state, static_cast<uint32_t>(wire::RecorderState::kFailed));
  core.phase = Phase::kFailed;
  return false;
}

void set_memory(Core& core) {
  const size_t share = share_bytes(inherited.mapped_bytes);
  char* const text = reinterpret_cast<char*>(&core) + kCoreBytes;
  auto* const buffers = reinterpret_cast<uint8_t*>(text + share);
  core.names.set_text(text, share);
  core.device.set_buffers(buffers, buffers + share, share);
}

bool start(Core& core, const char* folder, const Options& options, const char* complaint) {
  core.options = options;
  core.pid = process_id();
  core.generation = inherited.generation.fetch_add(1) + 1;
  core.started_ns = host_now();
  set_memory(core);
  const ProcessFacts facts = process_facts();
  if (const int error = core.file.create({folder, facts.host, facts.rank, core.pid}); error < 0)
    return fail(core, "cannot write into the recording folder", error);
  inherited.file = core.file;
  core.control = map_control_page(folder, facts.host, core.pid);
  if (core.control != nullptr) set_word(core.control->started_unix_ns, clock_ns(CLOCK_REALTIME));
  add_properties(facts, core.pid);
  set_state(wire::RecorderState::kNoDevice, "this process has not used CUDA so far");
  core.phase.store(Phase::kRecording, std::memory_order_release);
  if (*complaint != 0) {
    Text<512> text;
    text << "PROFGPU_RECORD_OPTIONS: invalid: " << complaint;
    note(wire::Severity::kWarning, text.c_str());
  }
  start_windows(core);
  if (inherited.has_handlers.exchange(1) == 0) {
    atexit(end_recorder);
    at_quick_exit(end_recorder);
    pthread_atfork(nullptr, nullptr, in_child);
  }
  // The thread sanitizer ends a forked child that starts a thread. Without one, rows are written by those who record.
  if (core.generation == 1 || __tsan_init == nullptr) start_thread(core);
  return true;
}

// Another thread may be starting it; a signal handler that interrupted it must not wait.
bool wait_for_start(const Core& core) {
  for (int i = 0; i < 10'000 && core.phase.load(std::memory_order_acquire) == Phase::kStarting; ++i) {
    if (core.starting_thread == kernel_thread_id()) return false;
    const timespec moment{0, 100'000};
    system_call(SYS_nanosleep, as_word(&moment));
  }
  return core.phase.load(std::memory_order_acquire) == Phase::kRecording;
}

bool start_once(const char* folder) {
  Options options;
  Text<256> complaint;
  parse_options(getenv("PROFGPU_RECORD_OPTIONS"), options, complaint);
  Core* const core = ensure_core(options);
  if (core == nullptr) return false;
  Phase phase = Phase::kOff;
  if (!core->phase.compare_exchange_strong(phase, Phase::kStarting))
    return phase == Phase::kStarting ? wait_for_start(*core) : phase == Phase::kRecording;
  core->starting_thread = kernel_thread_id();
  const SignalsHeld held;
  return start(*core, folder, options, complaint.c_str());
}

void add_recorded_by(Core& core, const char* who) {
  if (!core.recorded_by_lock.try_lock()) return;
  Text<sizeof core.recorded_by> text;
  text << core.recorded_by;
  if (strstr(core.recorded_by, who) == nullptr) {
    if (text.length() > 0) text << ' ';
    text << who;
    memcpy(core.recorded_by, text.c_str(), text.length() + 1);
    property("recorded_by", text.c_str());
  }
  core.recorded_by_lock.unlock();
}

}  // namespace

bool start_recorder(const char* who) {
  const int saved_errno = errno;
  const char* const folder = getenv("PROFGPU_RECORD");
  const bool started = folder != nullptr && *folder == '/' && start_once(folder);
  if (Core* const core = recording_core(); started && core != nullptr) add_recorded_by(*core, who);
  errno = saved_errno;
  return started;
}

void end_recorder() {
  Core* const core = recording_core();
  Phase expected = Phase::kRecording;
  if (core == nullptr || core->pid != process_id()) return;
  if (!core->phase.compare_exchange_strong(expected, Phase::kEnding)) return;
  if (core->has_thread.load() == 0) {
    flush_as_guest(*core, true);
  } else if (kernel_thread_id() != core->own_thread) {
    core->wake_word.fetch_add(1);
    wake_all(&core->wake_word);
    const int64_t until = host_now() + kExitWaitNs;
    for (int64_t now = host_now(); core->has_ended.load() == 0 && now < until; now = host_now())
      wait_on(&core->has_ended, 0, until - now);
  }
  core->phase = Phase::kEnded;
}

bool recording_here() {
  const Core* const core = the_core.load(std::memory_order_acquire);
  if (core == nullptr) return false;
  const Phase phase = core->phase.load(std::memory_order_acquire);
  if (phase == Phase::kRecording) return true;
  return phase == Phase::kOff && start_recorder("fork");
}

void wake_recorder() {
  Core* const core = recording_core();
  if (core == nullptr) return;
  if (core->has_thread.load(std::memory_order_relaxed) != 0) {
    core->wake_word.fetch_add(1);
    wake_all(&core->wake_word);
  } else if (core->flushing.try_lock()) {
    core->flushing.unlock();
    flush_as_guest(*core, false);
  }
}

namespace {

// Null where none of the variables has a number.
const char* first_number(LauncherVariables& names) {
  for (const char* name : names) {
    const char* const value = getenv(name);
    if (value == nullptr || *value == 0 || strlen(value) > 9) continue;
    if (strspn(value, "0123456789") == strlen(value)) return value;
  }
  return nullptr;
}

void add_first_number(const char* key, LauncherVariables& names) {
  if (const char* const value = first_number(names); value != nullptr) property(key, value);
}

// Whether `part`, in lower case, is in the text; its letters' case does not matter.
bool holds(const char* begin, const char* end, const char* part) {
  for (; begin < end; ++begin) {
    long same = 0;
    while (part[same] != 0 && begin + same < end && (begin[same] | 0x20) == (part[same] | 0x20)) ++same;
    if (part[same] == 0) return true;
  }
  return false;
}

// Whether an argument's name says that its value is a secret. base/secrets.h knows more of them, for who reads the
// recording; what is obvious does not even get into it.
bool names_secret(const char* begin, const char* end) {
  if (holds(begin, end, "tokens") || holds(begin, end, "tokenizer")) return false;
  for (const char* part : {"token", "secret", "passw", "api_key", "api-key", "apikey", "access_key", "access-key",
                           "private_key", "private-key", "credential", "authorization", "_pwd"})
    if (holds(begin, end, part)) return true;
  return false;
}

void add_command() {
  char arguments[4096];
  const long length = read_whole("/proc/self/cmdline", arguments, sizeof arguments - 1);
  Text<sizeof arguments> command;
  bool value = false;   // of the flag before
  for (long at = 0; at < length;) {
    arguments[length] = 0;
    const char* const begin = arguments + at;
    const char* end = begin;
    const char* equals = nullptr;
    for (; *end != 0; ++end)
      if (*end == '=' && equals == nullptr) equals = end;
    at = end - arguments + 1;
    const bool flag = *begin == '-';
    const bool secret = (flag || equals != nullptr) && names_secret(begin, equals != nullptr ? equals : end);
    const bool masked = value && !(begin[0] == '-' && begin[1] == '-');   // a token may begin with one dash
    if (command.length() > 0) command << ' ';
    const char* const stop = masked ? begin : secret && equals != nullptr ? equals + 1 : end;
    for (const char* c = begin; c < stop; ++c) command << *c;
    if (masked || (secret && equals != nullptr)) command << "***";
    value = secret && equals == nullptr;
  }
  if (command.length() > 0) property("command", command.c_str());
}

void add_exe() {
  char path[4096];
  const long length = system_call(SYS_readlinkat, AT_FDCWD, as_word("/proc/self/exe"), as_word(path), sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  property("exe", path);
}

void add_number(const char* key, int64_t number) {
  Text<24> text;
  text << number;
  property(key, text.c_str());
}

}  // namespace

ProcessFacts process_facts() {
  ProcessFacts facts{"localhost", -1};
  utsname system{};
  if (system_call(SYS_uname, as_word(&system)) == 0 && system.nodename[0] != 0) {
    // What could not stand in a file name becomes '_'.
    size_t length = 0;
    for (const char* at = system.nodename; *at != 0 && length + 1 < sizeof facts.host; ++at) {
      const bool good = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                        *at == '-' || *at == '_' || (*at == '.' && length > 0);
      facts.host[length++] = good ? *at : '_';
    }
    facts.host[length] = 0;
  }
  if (const char* rank = first_number(kRankVariables); rank != nullptr) facts.rank = strtol(rank, nullptr, 10);
  return facts;
}

void add_properties(const ProcessFacts& facts, uint32_t pid) {
  add_number("pid", pid);
  add_number("ppid", system_call(SYS_getppid));
  property("host", facts.host);
  add_exe();
  add_command();
  add_first_number("rank", kRankVariables);
  add_first_number("world_size", kWorldSizeVariables);
  add_first_number("local_rank", kLocalRankVariables);
  // Which `profgpu run` this is: several may share a folder.
  if (const char* run = getenv("PROFGPU_RUN"); run != nullptr && *run != 0 && strlen(run) < 300) property("run", run);
  add_number("started_unix_ns", clock_ns(CLOCK_REALTIME));
  property("library_version", PROFGPU_VERSION);
}

}  // namespace profgpu::inject
