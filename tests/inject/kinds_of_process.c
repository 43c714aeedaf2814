// A program of many kinds, for kinds_of_process_test.py: each prints what it does and ends in its own way. The recorder is in it
// only where it is preloaded, and then marks ranges all the while.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char** environ;
extern int profgpu_start(const char*) __attribute__((weak));
extern void profgpu_push(const char*) __attribute__((weak));
extern void profgpu_pop(void) __attribute__((weak));
extern void profgpu_mark(const char*) __attribute__((weak));

static char* self;

static void start(void) {
  if (profgpu_start) profgpu_start("kinds");
}
static void work(int count) {
  for (int i = 0; i < count; ++i) {
    if (profgpu_push) profgpu_push("work");
    if (profgpu_pop) profgpu_pop();
  }
}
static void moment(void) { nanosleep(&(struct timespec){0, 5000000}, NULL); }
static void collect(void) {
  int status = 0, codes = 0, signals = 0, count = 0;
  while (wait(&status) > 0) {
    ++count;
    if (WIFEXITED(status)) codes += WEXITSTATUS(status);
    if (WIFSIGNALED(status)) signals += WTERMSIG(status);
  }
  printf("%d children, codes %d, signals %d\n", count, codes, signals);
}

static void plain(void) { work(1000), puts("plain"); }
static void fork_storm(void) {
  for (int i = 0; i < 200; ++i)
    if (fork() == 0) work(i % 3), exit(i % 2);
  collect();
}
static void fork_at_once(void) {
  for (int i = 0; i < 100; ++i)
    if (fork() == 0) _exit(1);
  collect();
}
static void fork_tree(void) {
  for (int depth = 0; depth < 6; ++depth)
    if (fork() == 0) continue;
  work(10);
  int status;
  while (wait(&status) > 0) {}
}
static void vfork_storm(void) {
  for (volatile int i = 0; i < 100; ++i)
    if (vfork() == 0) execl(self, self, "exit", "1", NULL), _exit(99);
  collect();
}
static void exec_storm(void) {
  const char* left = getenv("LEFT");
  const int n = left ? atoi(left) : 30;
  if (n == 0) return (void)puts("the last");
  work(5);
  char text[16];
  snprintf(text, sizeof text, "%d", n - 1);
  setenv("LEFT", text, 1);
  execl(self, self, "exec_storm", NULL);
}
static void* exec_in_thread(void* unused) {
  (void)unused;
  execl(self, self, "exit", "5", NULL);
  return NULL;
}
static void exec_from_thread(void) {
  pthread_t t;
  pthread_create(&t, NULL, exec_in_thread, NULL);
  for (;;) work(10);
}
static void spawn_storm(void) {
  char* words[] = {self, "exit", "1", NULL};
  for (int i = 0; i < 100; ++i) {
    pid_t pid;
    if (posix_spawn(&pid, self, NULL, NULL, words, environ) != 0) puts("posix_spawn failed");
  }
  collect();
}
static void children_killed(void) {
  for (int i = 0; i < 40; ++i) {
    const pid_t pid = fork();
    if (pid == 0)
      for (;;) work(10);
    if (i % 4 == 0) moment();
    kill(pid, i % 2 ? SIGKILL : SIGTERM);
  }
  collect();
}
static void children_abort(void) {
  for (int i = 0; i < 20; ++i)
    if (fork() == 0) {
      work(3);
      if (i % 2) abort();
      *(volatile int*)0 = 1;
    }
  collect();
}
static void zombies(void) {
  signal(SIGCHLD, SIG_IGN);
  for (int i = 0; i < 50; ++i)
    if (fork() == 0) work(2), exit(0);
  printf("%d\n", wait(NULL) == -1 && errno == ECHILD);
}
static void* thread_work(void* unused) {
  (void)unused;
  return work(50), NULL;
}
static void thread_storm(void) {
  for (int i = 0; i < 300; ++i) {
    pthread_t t;
    if (pthread_create(&t, NULL, thread_work, NULL) == 0) pthread_join(t, NULL);
  }
  puts("threads");
}
static int clone_work(void* unused) {
  (void)unused;
  return syscall(SYS_getpid) > 0 ? 0 : 1;
}
static void bare_clone_threads(void) {   // of which the C library knows nothing
  for (int i = 0; i < 20; ++i) {
    char* stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    clone(clone_work, stack + 65536, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
    moment();
  }
  puts("cloned");
}
static void cancelled_threads(void) {
  for (int i = 0; i < 30; ++i) {
    pthread_t t;
    if (pthread_create(&t, NULL, (void* (*)(void*))(void*)pause, NULL) != 0) continue;
    pthread_cancel(t);
    pthread_join(t, NULL);
  }
  puts("cancelled");
}
static void main_thread_leaves(void) {
  pthread_t t;
  pthread_create(&t, NULL, thread_work, NULL);
  pthread_detach(t);
  puts("left");
  fflush(stdout);
  pthread_exit(NULL);
}
static void daemonize(void) {
  if (fork() != 0) _exit(0);
  setsid();
  if (fork() != 0) _exit(0);
  if (chdir("/") != 0) return;
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  work(100);
  puts("daemon");
}
static void closed_streams(void) {   // what this program writes to nowhere must not get into a file of the recorder's
  for (int fd = 0; fd < 3; ++fd) close(fd);
  start();
  work(10);
  for (int fd = 0; fd < 3; ++fd)
    if (write(fd, "lost", 4) != -1 || errno != EBADF) exit(9);
  moment();
  const int fd = open("/dev/null", O_RDWR);
  exit(fd == 0 ? 0 : 8);
}
static void few_descriptors(void) {
  const struct rlimit limit = {16, 16};
  setrlimit(RLIMIT_NOFILE, &limit);
  closed_streams();
}
static void all_closed(void) {
  syscall(436 /* close_range */, 3U, ~0U, 0);
  work(1000);
  moment();
  const int fd = open("/dev/null", O_RDONLY);
  printf("%d\n", fd);
}
static void on_exit_signal(int n) {
  work(1);
  exit(n == SIGUSR1 ? 21 : 22);
}
static void exit_in_handler(void) {
  signal(SIGUSR1, on_exit_signal);
  const struct itimerval soon = {{0, 0}, {0, 3000}};
  signal(SIGALRM, on_exit_signal);
  setitimer(ITIMER_REAL, &soon, NULL);
  for (;;) work(10), usleep(10);
}
static jmp_buf back;
static void jump(int n) { siglongjmp(back, n); }
static void jump_out_of_handlers(void) {
  signal(SIGALRM, jump);
  volatile int jumps = 0;
  const struct itimerval often = {{0, 300}, {0, 300}};
  sigsetjmp(back, 1);
  setitimer(ITIMER_REAL, &often, NULL);
  if (++jumps < 300)
    for (;;) work(1);
  signal(SIGALRM, SIG_IGN);
  puts("jumped");
}
static volatile sig_atomic_t handled;
static void count_signal(int n) { (void)n, ++handled, work(1); }
static void signal_storm(void) {
  for (int s = 1; s < SIGRTMAX; ++s)
    if (s != SIGKILL && s != SIGSTOP) signal(s, count_signal);
  const pid_t me = getpid();
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 4000; ++i) {
      const int s = i % 2 ? SIGUSR1 : SIGRTMIN + 5 + i % 20;
      kill(me, s);
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) != child) work(1);
  printf("%d\n", handled > 0);
}
static int depth_reached;
static volatile int deepest = 1 << 30;
static void __attribute__((noinline)) deeper(int n) {
  volatile char room[4096];
  room[0] = (char)n;
  depth_reached = n;
  if (n % 100 == 0) work(1);
  if (n < deepest) deeper(n + 1);
  room[1] = room[0];
}
static void stack_end(int n) {
  (void)n;
  const char text[] = "the stack is full\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(1);
  _exit(depth_reached > 1000 ? 33 : 34);
}
static void stack_overflow(void) {
  const stack_t other = {malloc(1 << 16), 0, 1 << 16};
  sigaltstack(&other, NULL);
  struct sigaction action = {.sa_handler = stack_end, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  deeper(0);
}
static void __attribute__((noinline)) ranges_deep(int n) {
  if (profgpu_push) profgpu_push("deep");
  if (n > 0) ranges_deep(n - 1);
  if (profgpu_pop) profgpu_pop();
}
static void deep_recursion(void) { ranges_deep(50000), puts("deep"); }
static void raise_signal(void) { raise(SIGTERM); }
static void raise_abort(void) { abort(); }
static void raise_segv(void) { *(volatile int*)0 = 1; }
static void raise_kill(void) { raise(SIGKILL); }
static void stop_itself(void) {
  const pid_t me = getpid();
  if (fork() == 0) {
    usleep(30000);
    kill(me, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
  wait(NULL);
  puts("continued");
}
static void fill_memory(void) {
  const struct rlimit limit = {256 << 20, 256 << 20};
  setrlimit(RLIMIT_AS, &limit);
  while (malloc(1 << 20)) work(1);
  work(1000);
  puts("no memory is left");
}
static void no_processes(void) {
  const struct rlimit limit = {0, 0};
  setrlimit(RLIMIT_NPROC, &limit);
  work(10);
  puts("no processes");
}
static void seccomp_strict(void) {
  work(10);
  fflush(stdout);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) exit(7);
  const char text[] = "strict\n";
  if (write(1, text, sizeof text - 1) < 0) {}
  syscall(SYS_exit, 0);   // this thread only, and all that there is
}
static void seccomp_filter(void) {   // as a sandbox has it: opening files kills
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {4, filter};
  work(10);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(7);
  work(1000);
  moment();
  puts("filtered");
}
static void traced(void) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    work(100);
    _exit(3);
  }
  int status = 0, stops = 0;
  while (waitpid(child, &status, 0) == child && !WIFEXITED(status)) {
    ++stops;
    ptrace(PTRACE_CONT, child, NULL, NULL);
  }
  printf("%d stops, code %d\n", stops, WEXITSTATUS(status));
}
static void at_exit_exits(void) { _exit(44); }
static void leaves_in_atexit(void) {
  atexit(at_exit_exits);
  work(10);
  puts("leaves");
  fflush(stdout);
}
static ucontext_t main_context, other_context;
static void in_coroutine(void) {
  work(500);
  puts("coroutine");
}
static void coroutines(void) {
  static char stack[65536];
  getcontext(&other_context);
  other_context.uc_stack.ss_sp = stack;
  other_context.uc_stack.ss_size = sizeof stack;
  other_context.uc_link = &main_context;
  makecontext(&other_context, in_coroutine, 0);
  swapcontext(&main_context, &other_context);
  puts("back");
}
static void clear_environment(void) {
  clearenv();
  work(10);
  if (fork() == 0) work(10), exit(6);
  collect();
}
static void another_user(void) {
  work(10);
  if (setgid(65534) != 0 || setuid(65534) != 0) exit(7);
  work(100);
  moment();
  if (fork() == 0) work(3), exit(6);
  collect();
}

static const struct {
  const char* name;
  void (*run)(void);
} kinds[] = {
    {"plain", plain}, {"fork_storm", fork_storm}, {"fork_at_once", fork_at_once}, {"fork_tree", fork_tree}, {"vfork_storm", vfork_storm},
    {"exec_storm", exec_storm}, {"exec_from_thread", exec_from_thread}, {"spawn_storm", spawn_storm}, {"children_killed", children_killed},
    {"children_abort", children_abort}, {"zombies", zombies}, {"thread_storm", thread_storm}, {"bare_clone_threads", bare_clone_threads},
    {"cancelled_threads", cancelled_threads}, {"main_thread_leaves", main_thread_leaves}, {"daemonize", daemonize}, {"closed_streams", closed_streams},
    {"few_descriptors", few_descriptors}, {"all_closed", all_closed}, {"exit_in_handler", exit_in_handler}, {"jump_out_of_handlers", jump_out_of_handlers},
    {"signal_storm", signal_storm}, {"stack_overflow", stack_overflow}, {"deep_recursion", deep_recursion}, {"raise_signal", raise_signal},
    {"raise_abort", raise_abort}, {"raise_segv", raise_segv}, {"raise_kill", raise_kill}, {"stop_itself", stop_itself}, {"fill_memory", fill_memory},
    {"no_processes", no_processes}, {"seccomp_strict", seccomp_strict}, {"seccomp_filter", seccomp_filter}, {"traced", traced},
    {"leaves_in_atexit", leaves_in_atexit}, {"coroutines", coroutines}, {"clear_environment", clear_environment}, {"another_user", another_user},
};

int main(int argc, char** argv) {
  if (argc < 2) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) puts(kinds[i].name);
    return 0;
  }
  self = argv[0];
  if (strcmp(argv[1], "closed_streams") != 0 && strcmp(argv[1], "few_descriptors") != 0) start();
  if (strcmp(argv[1], "exit") == 0) return atoi(argv[2]);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (strcmp(kinds[i].name, argv[1]) == 0) kinds[i].run();
  return 0;
}
