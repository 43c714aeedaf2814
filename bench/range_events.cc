// What the recorder costs where no GPU is:
//   range_events LIBRARY events THREADS COUNT   ns of one range event, in batches that the recorder's queue holds
//   range_events LIBRARY payloads COUNT         the same where every other event has 16 bytes of payload
//   range_events LIBRARY flood THREADS COUNT    as many as the threads can make, so that some are dropped
//   range_events LIBRARY spawn COUNT            wall time of a process that does nothing: bare, with the environment
//                                               set, with the library preloaded
// Prints one JSON object. PROFGPU_RECORD is set by the caller.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "record/inject/nvtx_types.h"

namespace {

void (*push)(const char*);
void (*pop)();

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void start(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) exit(2);
  push = reinterpret_cast<void (*)(const char*)>(dlsym(library, "profgpu_push"));
  pop = reinterpret_cast<void (*)()>(dlsym(library, "profgpu_pop"));
  const auto begin = reinterpret_cast<int (*)(const char*)>(dlsym(library, "profgpu_start"));
  const int64_t before = now_ns();
  if (begin("bench") != 1) exit(2);
  printf("{\"start_us\": %.1f, ", static_cast<double>(now_ns() - before) / 1e3);
}

template <class Work>
void on_threads(long count, Work work) {
  std::vector<std::thread> threads;
  for (long t = 0; t < count; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

void make(long events) {
  for (long i = 0; i < events / 2; ++i) {
    push("a range of the training loop");
    pop();
  }
}

// Between batches the recorder empties its queue.
void measure_events(long thread_count, long count) {
  constexpr long kBatch = 16'384;
  std::vector<double> costs;
  for (long done = 0; done < count; done += kBatch) {
    const long each = kBatch / thread_count;
    std::vector<double> of_threads(static_cast<size_t>(thread_count));
    std::vector<std::thread> threads;
    for (double& cost : of_threads)
      threads.emplace_back([&] {
        make(2);
        const int64_t before = now_ns();
        make(each);
        cost = static_cast<double>(now_ns() - before) / static_cast<double>(each);
      });
    for (std::thread& thread : threads) thread.join();
    costs.insert(costs.end(), of_threads.begin(), of_threads.end());
    usleep(30'000);
  }
  printf("\"ns\": %.1f}\n", median(costs));
}

// As NCCL hands over the size and the reduction of a call.
void measure_payloads(const char* path, long count) {
  namespace nvtx = profgpu::inject::nvtx;
  constexpr long kBatch = 8192;
  constexpr uint64_t kSchema = nvtx::kFirstStaticSchema + 5;
  intptr_t slots[16] = {};
  nvtx::Segment segment{0, 16, slots};
  nvtx::ModuleInfo info{3, sizeof info, nvtx::kPayloadModule, 0x104, 1, &segment, nullptr, nullptr};
  const auto attach = reinterpret_cast<int (*)(nvtx::ModuleInfo*)>(
      dlsym(dlopen(path, RTLD_NOW), "InitializeInjectionNvtxExtension"));
  if (attach == nullptr || attach(&info) != 1) exit(2);
  using Add = uint64_t (*)(const void*, const nvtx::SchemaAttributes*);
  const auto add = reinterpret_cast<Add>(slots[nvtx::kSchemaRegister]);
  using Call = int (*)(const void*, const nvtx::PayloadData*, size_t);
  const auto begin = reinterpret_cast<Call>(slots[nvtx::kRangePushPayload]);
  const auto end = reinterpret_cast<Call>(slots[nvtx::kRangePopPayload]);
  const nvtx::SchemaEntry fields[2] = {{0, 22, "Message size [bytes]", nullptr, 0, 0, nullptr, nullptr},
                                       {0, 5, "Reduction operation", nullptr, 0, 8, nullptr, nullptr}};
  const nvtx::SchemaAttributes schema{
      1 << 2 | 1 << 4 | 1 << 5 | 1 << 8, nullptr, 1, 0, fields, 2, 0, 0, kSchema, nullptr};
  if (add(nullptr, &schema) != kSchema) exit(2);
  const uint64_t said[2] = {1 << 20, 0};
  const nvtx::PayloadData data{kSchema, sizeof said, said};
  std::vector<double> costs;
  for (long done = 0; done < count; done += kBatch) {
    const int64_t before = now_ns();
    for (long i = 0; i < kBatch / 2; ++i) {
      begin(nullptr, &data, 1);
      end(nullptr, nullptr, 0);
    }
    costs.push_back(static_cast<double>(now_ns() - before) / kBatch);
    usleep(30'000);
  }
  printf("\"ns\": %.1f}\n", median(costs));
}

void flood(long thread_count, long count) {
  const int64_t before = now_ns();
  on_threads(thread_count, [=] { make(count / thread_count); });
  const double seconds = static_cast<double>(now_ns() - before) / 1e9;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const long made = count / thread_count / 2 * 2 * thread_count;
  printf("\"made\": %ld, \"seconds\": %.4f, \"resident_bytes\": %ld}\n", made, seconds, usage.ru_maxrss * 1024);
}

double spawn_us(const std::vector<std::string>& more) {
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  for (const std::string& variable : more) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  char name[] = "/bin/true";
  char* arguments[] = {name, nullptr};
  pid_t child = 0;
  int status = 0;
  const int64_t before = now_ns();
  if (posix_spawn(&child, name, nullptr, nullptr, arguments, environment.data()) != 0) exit(2);
  waitpid(child, &status, 0);
  return static_cast<double>(now_ns() - before) / 1e3;
}

void measure_spawns(const std::string& library, long count) {
  const std::vector<std::string> set = {"CUDA_INJECTION64_PATH=" + library, "NVTX_INJECTION64_PATH=" + library,
                                        "NCCL_PROFILER_PLUGIN=" + library};
  std::vector<std::string> preloaded = set;
  preloaded.push_back("LD_PRELOAD=" + library);
  std::vector<double> bare, with_set, with_preload;
  for (long i = 0; i < count; ++i) {
    bare.push_back(spawn_us({}));
    with_set.push_back(spawn_us(set));
    with_preload.push_back(spawn_us(preloaded));
  }
  printf("{\"bare_us\": %.1f, \"set_us\": %.1f, \"preloaded_us\": %.1f}\n", median(bare), median(with_set),
         median(with_preload));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string what = argv[2];
  const long first = atol(argv[3]), second = argc > 4 ? atol(argv[4]) : 0;
  if (what == "spawn") {
    measure_spawns(argv[1], first);
    return 0;
  }
  start(argv[1]);
  if (what == "events") measure_events(first, second);
  if (what == "payloads") measure_payloads(argv[1], first);
  if (what == "flood") flood(first, second);
}
