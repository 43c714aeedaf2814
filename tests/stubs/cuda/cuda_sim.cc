// A program that uses a GPU which is not there: it opens the stand-in for libcuda.so.1 and launches what its options say.
// At its end it prints as one JSON object what it did, for comparison with what was recorded of it.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda_sim_options.h"
#include "meeting.h"
#include "sim.h"

using namespace cuda_sim;

namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  auto* const f = reinterpret_cast<Function*>(dlsym(library, name));
  if (f == nullptr) {
    fprintf(stderr, "cuda-sim: no %s: this is not the simulated driver\n", name);
    _exit(1);
  }
  return f;
}

struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  int (*init)(unsigned) = nullptr;
  int (*profiler_start)() = nullptr;
  int (*profiler_stop)() = nullptr;
  uint32_t (*launch)(const Launch*) = nullptr;
  void (*copy)(uint32_t, uint64_t, uint32_t, uint32_t, int, bool) = nullptr;
  void (*set)(uint64_t, uint32_t, uint32_t, uint32_t) = nullptr;
  void (*sync)(uint32_t, uint32_t, uint32_t) = nullptr;
  uint64_t (*allocate)(uint64_t, uint32_t) = nullptr;
  void (*release)(uint64_t, uint64_t, uint32_t) = nullptr;
  void (*graph)(uint32_t, const Launch*, uint32_t) = nullptr;
  void (*call)(bool, uint32_t) = nullptr;
  void (*overhead)(uint32_t, uint64_t) = nullptr;

  bool open() {
    if (library == nullptr) return false;
    init = find<int(unsigned)>(library, "cuInit");
    profiler_start = find<int()>(library, "cuProfilerStart");
    profiler_stop = find<int()>(library, "cuProfilerStop");
    launch = find<uint32_t(const Launch*)>(library, "sim_launch");
    copy = find<void(uint32_t, uint64_t, uint32_t, uint32_t, int, bool)>(library, "sim_copy");
    set = find<void(uint64_t, uint32_t, uint32_t, uint32_t)>(library, "sim_set");
    sync = find<void(uint32_t, uint32_t, uint32_t)>(library, "sim_sync");
    allocate = find<uint64_t(uint64_t, uint32_t)>(library, "sim_malloc");
    release = find<void(uint64_t, uint64_t, uint32_t)>(library, "sim_free");
    graph = find<void(uint32_t, const Launch*, uint32_t)>(library, "sim_graph_launch");
    call = find<void(bool, uint32_t)>(library, "sim_call");
    overhead = find<void(uint32_t, uint64_t)>(library, "sim_overhead");
    return true;
  }
};

// What a recording must have.
struct Done {
  std::atomic<uint64_t> kernels{0}, kernel_ns{0}, copies{0}, copy_bytes{0}, peer_copies{0}, sets{0}, set_bytes{0};
  std::atomic<uint64_t> syncs{0}, allocations{0}, frees{0}, allocated_bytes{0}, graphs{0}, graph_kernels{0};
  std::atomic<uint64_t> runtime_launches{0}, driver_launches{0}, hot_calls{0}, overheads{0}, external{0}, failures{0};
  std::atomic<uint64_t> steps{0}, window_kernels{0}, rival_kernels{0};
  std::array<std::atomic<uint64_t>, 256> of_name{};
};

// The recorder's own entry points, where it is in the process.
struct Marks {
  void (*push)(const char*) = nullptr;
  void (*pop)() = nullptr;
  void (*step)(long) = nullptr;
  Marks() {
    const char* path = getenv("PROFGPU_INJECT");
    if (path == nullptr) path = getenv("CUDA_INJECTION64_PATH");
    void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (library == nullptr) return;
    if (auto start = reinterpret_cast<int (*)(const char*)>(dlsym(library, "profgpu_start"))) start("cuda-sim");
    push = reinterpret_cast<void (*)(const char*)>(dlsym(library, "profgpu_push"));
    pop = reinterpret_cast<void (*)()>(dlsym(library, "profgpu_pop"));
    step = reinterpret_cast<void (*)(long)>(dlsym(library, "profgpu_step"));
  }
};

// The most memory that this program has had, as the kernel counts since exec.
uint64_t peak_kb() {
  uint64_t kb = 0;
  if (FILE* const status = fopen("/proc/self/status", "r")) {
    char line[256];
    while (fgets(line, sizeof line, status) != nullptr)
      if (strncmp(line, "VmHWM:", 6) == 0) kb = strtoull(line + 6, nullptr, 10);
    fclose(status);
  }
  return kb;
}

class Program {
 public:
  Program(const Options& options, Driver& driver) : options_(options), driver_(driver) {
    for (int64_t i = 0; i < options.names; ++i) {
      char name[64];
      snprintf(name, sizeof name, "_Z%dsim_kernel_%03dPfi", 14, static_cast<int>(i));
      names_.emplace_back(name);
    }
    if (!options.meet.empty()) meeting_.emplace(options);
  }

  void run() {
    std::vector<std::thread> threads;
    for (int64_t t = 1; t < options_.threads; ++t) threads.emplace_back([this] { launch_all(); });
    launch_all();
    for (std::thread& t : threads) t.join();
    others();
    for (int64_t s = 0; s < options_.steps; ++s) step(s);
    if (options_.clock_jump_ns != 0 && options_.steps == 0) jump(), launch_all();
    driver_.sync(4, 0, 0);
    ++done_.syncs;
  }

  void print() const {
    const auto put = [](const char* name, uint64_t value) { printf("\"%s\": %llu, ", name, static_cast<unsigned long long>(value)); };
    printf("{\"simulated\": true, \"pid\": %d, \"peak_kb\": %llu, ", getpid(), static_cast<unsigned long long>(peak_kb()));
    put("kernels", done_.kernels), put("kernel_ns", done_.kernel_ns), put("copies", done_.copies);
    put("copy_bytes", done_.copy_bytes), put("peer_copies", done_.peer_copies), put("sets", done_.sets);
    put("set_bytes", done_.set_bytes), put("syncs", done_.syncs), put("allocations", done_.allocations);
    put("frees", done_.frees), put("allocated_bytes", done_.allocated_bytes), put("graphs", done_.graphs);
    put("graph_kernels", done_.graph_kernels), put("runtime_launches", done_.runtime_launches);
    put("driver_launches", done_.driver_launches), put("hot_calls", done_.hot_calls);
    put("overheads", done_.overheads), put("external", done_.external), put("failures", done_.failures);
    put("steps", done_.steps), put("window_kernels", done_.window_kernels), put("rival_kernels", done_.rival_kernels);
    printf("\"by_name\": {");
    for (size_t i = 0; i < names_.size(); ++i)
      printf("%s\"%s\": %llu", i == 0 ? "" : ", ", names_[i].c_str(), static_cast<unsigned long long>(done_.of_name[i]));
    printf("}}\n");
    fflush(stdout);
  }

 private:
  Launch launch_of(size_t name, uint32_t stream, uint32_t device) const {
    const auto n = static_cast<int32_t>(name);
    return {names_[name].c_str(), {n + 1, 2, 1}, {128, 1, 1}, 32 + n % 8, 1024, 0, stream, device,
            static_cast<uint64_t>(options_.kernel_ns + options_.kernel_ns * n / 100), 0, !options_.driver_launches};
  }
  void launch(size_t i) {
    const size_t name = i % names_.size();
    const Launch l = launch_of(name, static_cast<uint32_t>(i % static_cast<size_t>(options_.streams)) + 7,
                               static_cast<uint32_t>(i % static_cast<size_t>(options_.devices)));
    driver_.launch(&l);
    done_.kernels.fetch_add(1, std::memory_order_relaxed);
    done_.of_name[name].fetch_add(1, std::memory_order_relaxed);
    done_.kernel_ns.fetch_add(l.duration_ns, std::memory_order_relaxed);
    (options_.driver_launches ? done_.driver_launches : done_.runtime_launches).fetch_add(1, std::memory_order_relaxed);
    if (in_window_) done_.window_kernels.fetch_add(1, std::memory_order_relaxed);
  }
  void launch_all() {
    const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < options_.kernels; ++i) {
      // Paced in bursts of 64: a clock is read less often than a kernel is launched.
      if (options_.rate != 0 && i % 64 == 0)
        while (clock_ns(CLOCK_MONOTONIC) - begin < static_cast<uint64_t>(i) * 1'000'000'000u / static_cast<uint64_t>(options_.rate)) {
        }
      launch(static_cast<size_t>(i));
    }
  }

  void copies_and_sets() {
    for (int64_t i = 0; i < options_.copies; ++i, ++done_.copies) {
      driver_.copy(1 + static_cast<uint32_t>(i % 2), static_cast<uint64_t>(options_.copy_bytes), 0, 7, -1, i % 3 != 0);
      done_.copy_bytes += static_cast<uint64_t>(options_.copy_bytes);
    }
    for (int64_t i = 0; i < options_.peer_copies; ++i, ++done_.peer_copies)
      driver_.copy(8, static_cast<uint64_t>(options_.copy_bytes), 0, 7, 1, true);
    for (int64_t i = 0; i < options_.sets; ++i, ++done_.sets) {
      driver_.set(static_cast<uint64_t>(options_.set_bytes), 0xab, 0, 7);
      done_.set_bytes += static_cast<uint64_t>(options_.set_bytes);
    }
  }
  void others() {
    copies_and_sets();
    for (int64_t i = 0; i < options_.syncs; ++i, ++done_.syncs) driver_.sync(i % 2 == 0 ? 3 : 1, 0, 7);
    for (int64_t i = 0; i < options_.hot_calls; ++i, ++done_.hot_calls) driver_.call(false, 17);
    for (int64_t i = 0; i < options_.overheads; ++i, ++done_.overheads) driver_.overhead(1u << 16, 500);
    std::vector<uint64_t> held;
    for (int64_t i = 0; i < options_.allocations; ++i, ++done_.allocations) {
      held.push_back(driver_.allocate(4096 + static_cast<uint64_t>(i), 0));
      done_.allocated_bytes += 4096 + static_cast<uint64_t>(i);
    }
    for (size_t i = 0; i < held.size(); ++i, ++done_.frees) driver_.release(held[i], 4096 + i, 0);
    for (int64_t i = 0; i < options_.failures; ++i, ++done_.failures) {
      Launch l = launch_of(0, 7, 0);
      l.result = 1;
      driver_.launch(&l);
    }
    graphs();
    external();
  }
  void graphs() {
    std::vector<Launch> nodes;
    for (int64_t i = 0; i < options_.graph_nodes; ++i)
      nodes.push_back(launch_of(static_cast<size_t>(i) % names_.size(), 7, 0));
    for (int64_t i = 0; i < options_.graphs; ++i, ++done_.graphs) {
      driver_.graph(5, nodes.data(), static_cast<uint32_t>(nodes.size()));
      done_.graph_kernels += nodes.size();
    }
  }
  void external() {
    // Found as a framework finds it: in the library that is mapped.
    auto* const push = reinterpret_cast<int (*)(uint32_t, uint64_t)>(dlsym(RTLD_DEFAULT, "cuptiActivityPushExternalCorrelationId"));
    auto* const pop = reinterpret_cast<int (*)(uint32_t, uint64_t*)>(dlsym(RTLD_DEFAULT, "cuptiActivityPopExternalCorrelationId"));
    if (push == nullptr || pop == nullptr) return;
    for (int64_t i = 0; i < options_.external; ++i, ++done_.external) {
      push(3, 1000 + static_cast<uint64_t>(i));
      driver_.call(false, 135);
      pop(3, nullptr);
    }
  }

  void phase(const char* name, int64_t kernels) {
    if (marks_.push != nullptr) marks_.push(name);
    for (int64_t i = 0; i < kernels; ++i) launch(static_cast<size_t>(i));
    if (marks_.pop != nullptr) marks_.pop();
  }
  // As a loop of training makes it: load, forward, backward, update.
  void step(int64_t number) {
    before_step(number);
    if (marks_.push != nullptr) marks_.push("data_loading");
    driver_.copy(1, static_cast<uint64_t>(options_.copy_bytes), 0, 7, -1, true);
    ++done_.copies;
    done_.copy_bytes += static_cast<uint64_t>(options_.copy_bytes);
    if (marks_.pop != nullptr) marks_.pop();
    phase("forward", options_.step_kernels / 4);
    phase("backward", options_.step_kernels / 2);
    phase("optimizer", options_.step_kernels - options_.step_kernels / 4 - options_.step_kernels / 2);
    if (meeting_) all_reduce();
    driver_.sync(4, 0, 0);
    ++done_.syncs;
    if (meeting_) meeting_->ended();
    if (options_.step_us > 0) usleep(static_cast<useconds_t>(options_.step_us));
    ++done_.steps;
    if (marks_.step != nullptr) marks_.step(static_cast<long>(number));
    after_step(number);
  }
  void all_reduce() {
    meeting_->enqueue();
    const Launch l = meeting_->kernel();
    driver_.launch(&l);
    meeting_->enqueued();
    ++done_.kernels;
    ++done_.runtime_launches;
  }
  void before_step(int64_t number) {
    if (number == options_.window_first) {
      driver_.profiler_start();
      in_window_ = true;
    }
    if (number == options_.rival_first) {
      void* const rival = dlopen(options_.rival.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (rival == nullptr) fprintf(stderr, "cuda-sim: %s\n", dlerror()), _exit(1);
      find<void(int)>(rival, "rival_start")(static_cast<int>(options_.rival_clock));
    }
    if (options_.clock_jump_ns != 0 && number == options_.steps / 2) jump();
    if (options_.clock_set_ns != 0 && number == options_.steps / 2) set_clock();
  }
  void after_step(int64_t number) {
    if (number == options_.window_last) {
      in_window_ = false;
      driver_.profiler_stop();
    }
    if (number != options_.rival_last) return;
    void* const rival = dlopen(options_.rival.c_str(), RTLD_NOW | RTLD_LOCAL);
    done_.rival_kernels += find<uint64_t(int)>(rival, "rival_stop")(static_cast<int>(options_.rival_finalize));
  }
  void jump() {
    if (auto* const by = reinterpret_cast<void (*)(int64_t)>(dlsym(RTLD_DEFAULT, "sim_clock_jump"))) by(options_.clock_jump_ns);
  }
  // As tests/support/clock_jump.c, preloaded, takes it.
  void set_clock() {
    const char* const path = getenv("CLOCK_OFFSET");
    const int file = path != nullptr ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (file < 0 || pwrite(file, &options_.clock_set_ns, sizeof options_.clock_set_ns, 0) < 0)
      fprintf(stderr, "cuda-sim: --clock-set-ns: CLOCK_OFFSET names no file\n"), _exit(1);
    close(file);
  }

  const Options& options_;
  Driver& driver_;
  Marks marks_;
  Done done_;
  std::vector<std::string> names_;
  std::optional<Meeting> meeting_;
  bool in_window_ = false;
};

// One process a rank, as a launcher makes them. True in the ranks; the parent waits and leaves.
void become_ranks(int64_t ranks) {
  std::vector<pid_t> children;
  for (int64_t r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("RANK", std::to_string(r).c_str(), 1);
      setenv("LOCAL_RANK", std::to_string(r).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      return;
    }
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) worst = 1;
  }
  exit(worst);
}

void leave(const std::string& how) {
  if (how == "exit") exit(0);
  if (how == "_exit") _exit(0);
  if (how == "abort") abort();
  if (how == "kill") kill(getpid(), SIGKILL);
}

int simulate(const Options& options) {
  Driver driver;
  if (!driver.open()) {
    fputs("cuda-sim: no libcuda.so.1\n", stderr);
    return 1;
  }
  // A profiler that begins before CUDA is used.
  void* const early = options.rival_first == -2 ? dlopen(options.rival.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (early != nullptr) find<void(int)>(early, "rival_start")(static_cast<int>(options.rival_clock));
  if (const int error = driver.init(0)) {
    fprintf(stderr, "cuda-sim: cuInit: error %d\n", error);
    return 1;
  }
  if (!options.late.empty() && dlopen(options.late.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    fprintf(stderr, "cuda-sim: %s\n", dlerror());
  // Never destroyed: CUPTI hands out names of kernels until the process ends.
  Program& program = *new Program(options, driver);
  const uint64_t until = clock_ns(CLOCK_MONOTONIC) + static_cast<uint64_t>(options.repeat_ms) * 1'000'000u;
  do program.run();
  while (clock_ns(CLOCK_MONOTONIC) < until);
  program.print();
  if (options.fork == "after" && fork() == 0) exit(0);  // a worker that does nothing with CUDA, and leaves in order
  while (options.fork == "after" && wait(nullptr) > 0) {
  }
  leave(options.end);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  if (options.ranks > 0) become_ranks(options.ranks);
  if (options.fork == "before") {
    const pid_t child = fork();  // both use CUDA
    const int result = simulate(options);
    if (child > 0) waitpid(child, nullptr, 0);
    return result;
  }
  return simulate(options);
}
