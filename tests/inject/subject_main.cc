// inject-subject LIBRARY WHAT [N]: a process that loads the recorder and then does one thing that processes do to the
// libraries in them. The tests read what the recorder made of it. Exit code 3: something that must not change did.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Library {
  void* handle;
  int (*start)(const char*);
  void (*push)(const char*);
  void (*pop)();
  void (*mark)(const char*);
  void (*step)(long);
  void (*property)(const char*, const char*);
};
Library lib;
char** arguments;
long number;

template <class F>
void find(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(lib.handle, name));
  if (function == nullptr) exit(2);
}

void load(const char* path) {
  lib.handle = dlopen(path, RTLD_NOW);
  if (lib.handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  find(lib.start, "profgpu_start");
  find(lib.push, "profgpu_push");
  find(lib.pop, "profgpu_pop");
  find(lib.mark, "profgpu_mark");
  find(lib.step, "profgpu_step");
  find(lib.property, "profgpu_property");
}

void must(bool good, const char* what) {
  if (good) return;
  fprintf(stderr, "changed: %s\n", what);
  _exit(3);
}

void sleep_ms(long ms) { usleep(static_cast<useconds_t>(ms * 1000)); }

void ranges(long count) {
  for (long i = 0; i < count; ++i) {
    lib.push("work");
    lib.pop();
  }
}

void say(const char* word) {
  printf("%s\n", word);
  fflush(stdout);
}

void plain() { ranges(number); }
void leave_at_once() {
  ranges(number);
  _exit(0);
}
void leave_quickly() {
  ranges(number);
  quick_exit(0);
}
void wait_then_leave_at_once() {
  ranges(number);
  sleep_ms(700);
  _exit(0);
}

// Steps for ever, each said on standard output once it was recorded.
void for_ever() {
  for (long i = 0;; ++i) {
    lib.step(i);
    char line[32];
    const int length = snprintf(line, sizeof line, "%ld\n", i);
    if (write(1, line, static_cast<size_t>(length)) < 0) return;
    usleep(100);
  }
}

std::atomic<bool> stop_threads;

// Children of a process whose threads are all in the recorder: half use it, half do not.
void fork_busy() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (long i = 0; !stop_threads; ++i) {
        lib.mark(("busy " + std::to_string(i % 1000)).c_str());
        if (i % 100 == 99) usleep(1000);
      }
    });
  for (long i = 0; i < number; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i % 2 == 0) ranges(3);
      exit(0);
    }
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 0, "a child's end");
  }
  stop_threads = true;
  for (std::thread& thread : threads) thread.join();
}

void grandchildren() {
  ranges(1);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      exit(status != 0);
    }
    lib.push("generation");
  }
}

// The other way to a child, of which no handler hears.
void bare_clone() {
  ranges(5);
  const long child = syscall(56 /* clone */, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    ranges(2);
    sleep_ms(100);
    _exit(0);
  }
  int status = 0;
  must(waitpid(static_cast<pid_t>(child), &status, 0) == child && status == 0, "the child's end");
}

void vfork_exec() {
  ranges(2);
  const pid_t child = vfork();
  if (child == 0) {
    execl(arguments[0], arguments[0], arguments[1], "plain", "3", nullptr);
    _exit(127);
  }
  int status = 0;
  must(waitpid(child, &status, 0) == child && status == 0, "the child's end");
  ranges(2);
}

void exec_same_pid() {
  ranges(2);
  sleep_ms(400);
  execl(arguments[0], arguments[0], arguments[1], "plain", "3", nullptr);
}

// Threads with the smallest stack there is, each with a name of its own.
void small_threads() {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 16384);
  for (long i = 0; i < number; ++i) {
    pthread_t thread;
    const auto run = +[](void* which) -> void* {
      char name[16];
      snprintf(name, sizeof name, "small-%ld", reinterpret_cast<long>(which));
      pthread_setname_np(pthread_self(), name);
      ranges(2);
      return nullptr;
    };
    must(pthread_create(&thread, &small, run, reinterpret_cast<void*>(i)) == 0, "pthread_create");
    pthread_join(thread, nullptr);
  }
}

void close_library() {
  ranges(2);
  for (int i = 0; i < 5; ++i) dlclose(lib.handle);
  ranges(2);
}

struct AtTheVeryEnd {
  bool armed = false;
  ~AtTheVeryEnd() {
    if (armed) ranges(5);
  }
} at_the_very_end;
void destructors() {
  at_the_very_end.armed = true;
  ranges(number);
}

void become_daemon() {
  ranges(2);
  const pid_t child = fork();
  if (child != 0) _exit(0);
  setsid();
  for (int fd = 0; fd < 2000; ++fd) close(fd);
  ranges(7);
  sleep_ms(500);
  exit(0);
}

// The limit on the size of files is passed, with the signal that comes of it as it is by default: death.
void file_limit() {
  const rlimit limit{static_cast<rlim_t>(number), static_cast<rlim_t>(number)};
  setrlimit(RLIMIT_FSIZE, &limit);
  for (long i = 0; i < 200'000; ++i) {
    lib.mark(("a name that is not known yet " + std::to_string(i)).c_str());
    if (i % 50'000 == 0) sleep_ms(100);
  }
}

void disk_fills() {
  for (long i = 0; i < number; ++i) {
    lib.mark(("a name that takes room on the disk " + std::to_string(i % 5000)).c_str());
    if (i % 5'000 == 0) sleep_ms(15);
  }
  say("full");
  char line[8];
  if (read(0, line, sizeof line) < 0) return;  // room is made meanwhile
  lib.mark("after");
  sleep_ms(100);
}

// No descriptor is left when the recorder starts again in a child; there are some later.
void no_descriptors() {
  const rlimit limit{40, 40};
  setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<int> open_ones;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY)) >= 0;) open_ones.push_back(fd);
  ranges(3);
  sleep_ms(100);
  for (const int fd : open_ones) close(fd);
  ranges(4);
  sleep_ms(100);
}

// Closes all descriptors and opens a file of the program's under every number that the recorder's could have had.
void close_all_descriptors() {
  const rlimit limit{1100, 1100};
  setrlimit(RLIMIT_NOFILE, &limit);
  ranges(2);
  sleep_ms(100);
  for (int fd = 3; fd < 1100; ++fd) close(fd);
  for (int fd = 0; (fd = open(getenv("VICTIM"), O_RDWR | O_CREAT, 0600)) >= 0;) {}
  ranges(4);
  sleep_ms(100);
  for (int fd = 3; fd < 1100; ++fd) close(fd);
  ranges(8);
  sleep_ms(100);
}

void many_names() {
  for (long i = 0; i < number; ++i) lib.mark(("name " + std::to_string(i)).c_str());
}
void odd_names() {
  lib.mark(std::string(1 << 20, 'x').c_str());
  lib.mark("\xff\xfe not UTF-8 \x80");
  lib.mark("");
  lib.mark(nullptr);
  lib.mark("a \"quote\"\nand\ttabs\\");
  lib.push(nullptr);
  lib.pop();
  lib.property(nullptr, "x");
  lib.property("x", nullptr);
  lib.property("empty", "");
  lib.start(nullptr);
}

void flood() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([] { ranges(number / 8); });
  for (std::thread& thread : threads) thread.join();
}

std::atomic<long> handled;
void in_handlers() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    lib.mark("handler");
    ++handled;
  };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &every, nullptr);
  for (long i = 0; handled < number; ++i) lib.mark(("in main " + std::to_string(i % 20'000)).c_str());
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  printf("%ld\n", handled.load());
}

void keep_errno() {
  const auto check = [](const char* what) {
    must(errno == 77, what);
    errno = 77;
  };
  errno = 77;
  lib.start("test");
  check("errno of profgpu_start");
  lib.push("p");
  check("errno of profgpu_push");
  lib.pop();
  check("errno of profgpu_pop");
  lib.mark(std::to_string(errno).c_str());
  check("errno of profgpu_mark");
  lib.step(1);
  check("errno of profgpu_step");
  lib.property("k", "v");
  check("errno of profgpu_property");
}

int descriptors() {
  int count = 0;
  for (int fd = 0; fd < 2000; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}
int threads_of_process() {
  struct stat found {};
  stat("/proc/self/task", &found);
  return static_cast<int>(found.st_nlink) - 2;
}
struct Signals {
  struct sigaction actions[65];
  sigset_t mask;
};
void read_signals(Signals& signals) {
  memset(&signals, 0, sizeof signals);
  for (int s = 1; s < 65; ++s) sigaction(s, nullptr, &signals.actions[s]);
  pthread_sigmask(SIG_SETMASK, nullptr, &signals.mask);
}

// Called before the recorder starts. `number` 1: it will record, with one thread and one descriptor of its own.
void leave_no_mark() {
  Signals before, after;
  read_signals(before);
  const int descriptors_before = descriptors();
  must(lib.start("test") == number, "profgpu_start");
  ranges(2);
  lib.step(1);
  lib.property("k", "v");
  sleep_ms(50);
  read_signals(after);
  for (int s = 1; s < 65; ++s)
    must(before.actions[s].sa_handler == after.actions[s].sa_handler &&
             before.actions[s].sa_flags == after.actions[s].sa_flags, strsignal(s));
  // The kernel knows 64 signals; what glibc's sets have beyond is not written.
  must(memcmp(&before.mask, &after.mask, 8) == 0, "signal mask");
  must(descriptors() == descriptors_before + number, "descriptors");
  must(threads_of_process() == 1 + number, "threads");
}

// The program's own change of identity waits for every thread to take glibc's signal.
void change_identity() {
  ranges(2);
  must(setgid(getgid()) == 0 && setuid(getuid()) == 0, "setuid");
}

void steps_slowly() {
  for (long i = 0; i < number; ++i) {
    lib.step(i);
    sleep_ms(5);
  }
}
void wait_for_line() {
  say("ready");
  char line[8];
  if (read(0, line, sizeof line) < 0) return;
}

struct Mode {
  const char* name;
  void (*run)();
  bool starts = true;
};
constexpr Mode kModes[] = {
    {"plain", plain}, {"_exit", leave_at_once}, {"quick_exit", leave_quickly}, {"late_exit", wait_then_leave_at_once},
    {"for_ever", for_ever}, {"fork_busy", fork_busy}, {"grandchildren", grandchildren}, {"bare_clone", bare_clone},
    {"vfork_exec", vfork_exec}, {"exec_same_pid", exec_same_pid}, {"small_threads", small_threads},
    {"close_library", close_library}, {"destructors", destructors}, {"daemon", become_daemon},
    {"file_limit", file_limit}, {"disk_fills", disk_fills}, {"no_descriptors", no_descriptors},
    {"close_all", close_all_descriptors}, {"many_names", many_names}, {"odd_names", odd_names}, {"flood", flood},
    {"in_handlers", in_handlers}, {"keep_errno", keep_errno, false}, {"leave_no_mark", leave_no_mark, false},
    {"change_identity", change_identity}, {"steps", steps_slowly}, {"wait", wait_for_line},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  arguments = argv;
  number = argc > 3 ? atol(argv[3]) : 1;
  load(argv[1]);
  for (const Mode& mode : kModes) {
    if (strcmp(mode.name, argv[2]) != 0) continue;
    if (mode.starts) lib.start("test");
    mode.run();
    return 0;
  }
  return 2;
}
