/* The C interface from many threads at once: monitors of their own and a shared one, ranges, and forks meanwhile. Run under the
 * thread sanitizer, it also says what races. */
#include <profgpu/c.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The address sanitizer of GCC 12 forks with its allocator's locks as they are: a child that allocates may wait for ever. */
#if defined(WITH_ADDRESS_SANITIZER)
enum { kForks = 0 };
#else
enum { kForks = 8 };
#endif
enum { kThreads = 4, kMonitors = 8, kSteps = 10 };

static profgpu_monitor* shared;

static profgpu_string text_of(const char* text) {
  const profgpu_string string = {text, strlen(text)};
  return string;
}

static void sleep_us(long us) {
  const struct timespec time = {0, us * 1000};
  nanosleep(&time, NULL);
}

static profgpu_monitor* open_monitor(void) {
  profgpu_monitor_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.interval_s = 0.002;
  options.backend = text_of("replay:examples/replay.jsonl,loop,speed=50");
  options.keep_samples = 100;
  return profgpu_monitor_open(&options);
}

static void read_all(const profgpu_monitor* monitor) {
  profgpu_text_free(profgpu_monitor_summary(monitor));
  profgpu_text_free(profgpu_monitor_summary_text(monitor));
  profgpu_table_free(profgpu_monitor_samples(monitor));
}

/* NULL, or what is wrong. */
static void* own_monitors(void* nothing) {
  (void)nothing;
  for (int i = 0; i < kMonitors; ++i) {
    profgpu_monitor* monitor = open_monitor();
    profgpu_monitor_start(monitor);
    for (int step = 0; step < kSteps; ++step) {
      profgpu_step_push(step);
      profgpu_range_push(text_of("inner"));
      sleep_us(200);
      profgpu_range_pop();
      profgpu_range_pop();
    }
    profgpu_monitor_stop(monitor);
    profgpu_text* summary = profgpu_monitor_summary(monitor);
    const char* json = profgpu_text_view(summary).data;
    /* A step goes on after the range within it: ten steps, not twenty. */
    const char* step = strstr(json, "\"name\": \"step\", \"count\": 10,");
    const char* inner = strstr(json, "\"name\": \"inner\", \"count\": 10,");
    const char* others = strstr(json, "\"of the shared monitor\"");
    profgpu_text_free(summary);
    profgpu_monitor_free(monitor);
    if (!step || !inner || others) return "a monitor has other phases than its thread's";
  }
  return NULL;
}

static void* shared_monitor(void* nothing) {
  (void)nothing;
  for (int i = 0; i < 4 * kMonitors; ++i) {
    profgpu_monitor_start(shared);
    profgpu_range_push(text_of("of the shared monitor"));
    profgpu_monitor_mark(shared, text_of("by hand"));
    sleep_us(500);
    read_all(shared);
    profgpu_range_pop();
    if (i % 3 == 0) profgpu_monitor_stop(shared);
  }
  return NULL;
}

static int child_fails(void) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20); /* a lock that another thread held for ever */
    profgpu_range_push(text_of("in the child"));
    profgpu_range_pop();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status != 0;
}

int main(void) {
  int failures = 0;
  pthread_t threads[2 * kThreads];
  shared = open_monitor();
  for (int i = 0; i < 2 * kThreads; ++i) pthread_create(&threads[i], NULL, i < kThreads ? own_monitors : shared_monitor, NULL);
  for (int i = 0; i < kForks; ++i) {
    failures += child_fails();
    sleep_us(5000);
  }
  for (int i = 0; i < 2 * kThreads; ++i) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    if (wrong) fprintf(stderr, "%s\n", (const char*)wrong), ++failures;
  }
  profgpu_monitor_free(shared);
  if (failures == 0) puts("threads do not disturb each other");
  return failures != 0;
}
