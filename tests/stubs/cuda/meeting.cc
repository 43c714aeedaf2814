#include "meeting.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "record/inject/nccl_types.h"

using namespace cuda_sim;
namespace nccl = profgpu::inject::nccl;

namespace {

constexpr uint64_t kPatience_ns = 30'000'000'000;
constexpr int64_t kSpread_ns = 500;   // ranks leave a collective within this
constexpr size_t kElements = 1 << 24;

[[noreturn]] void give_up(const char* what) {
  fprintf(stderr, "cuda-sim: --meet: %s\n", what);
  _exit(1);
}

int64_t variable(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* text = getenv(name)) return strtoll(text, nullptr, 10);
  return -1;
}

// The machine's own: a library that shifts the clock for a process is gone around.
uint64_t true_ns() {
  timespec t;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// How far this process's clock is ahead of the true one: the nearest of several looks, as any may be interrupted.
int64_t ahead_ns() {
  int64_t ahead = 0;
  uint64_t least = UINT64_MAX;
  for (int look = 0; look < 20; ++look) {
    const uint64_t before = true_ns(), own = clock_ns(CLOCK_REALTIME), took = true_ns() - before;
    if (took >= least) continue;
    least = took;
    ahead = static_cast<int64_t>(own - before - took / 2);
  }
  return ahead;
}

const nccl::PluginV5* plugin() {
  static const auto* const found = [] {
    const char* const path = getenv("NCCL_PROFILER_PLUGIN");
    void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    return library != nullptr ? static_cast<const nccl::PluginV5*>(dlsym(library, "ncclProfiler_v6")) : nullptr;
  }();
  return found;
}

}  // namespace

Meeting::Meeting(const Options& options) : steps_(options.steps), duration_ns_(options.meet_ns) {
  rank_ = variable({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"});
  ranks_ = variable({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
  if (rank_ < 0 || rank_ >= ranks_) give_up("no variable says the rank and how many there are");
  const size_t bytes = static_cast<size_t>(steps_ * ranks_) * sizeof *begun_;
  const int file = open(options.meet.c_str(), O_RDWR | O_CREAT, 0600);
  void* const page = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0
                         ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                         : MAP_FAILED;
  if (page == MAP_FAILED) give_up("the file cannot be had, or there are no --steps");
  begun_ = static_cast<std::atomic<uint64_t>*>(page);
  int32_t mask = 0;
  if (plugin() != nullptr)
    plugin()->init(&communicator_, 0x5eed, &mask, "simulated", 1, static_cast<int32_t>(ranks_),
                   static_cast<int32_t>(rank_), nullptr);
}

Launch Meeting::kernel() {
  const auto end_of = [](void* meeting, uint64_t start) { return static_cast<Meeting*>(meeting)->end_of(start); };
  return {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
          {16, 1, 1}, {512, 1, 1}, 96, 0, 0, 7, 0, 0, 0, true, end_of, this};
}

uint64_t Meeting::end_of(uint64_t start) {
  if (number_ == steps_) give_up("more steps than were said");
  const int64_t ahead = ahead_ns();
  std::atomic<uint64_t>* const all = begun_ + number_ * ranks_;
  all[rank_] = start - static_cast<uint64_t>(ahead);
  uint64_t last = 0;
  for (int64_t r = 0; r < ranks_; ++r) {
    uint64_t begun = 0;
    for (const uint64_t since = clock_ns(CLOCK_MONOTONIC); (begun = all[r]) == 0; usleep(20))
      if (clock_ns(CLOCK_MONOTONIC) - since > kPatience_ns) give_up("a rank did not come");
    last = std::max(last, begun);
  }
  const int64_t leaves = (number_ * 7919 + rank_ * 104'729) % kSpread_ns;
  ++number_;
  start_ = start;
  end_ = last + static_cast<uint64_t>(duration_ns_ + leaves + ahead);
  return end_;
}

void Meeting::enqueue() {
  if (communicator_ == nullptr) return;
  nccl::DescriptorV5 event{};
  event.type = nccl::kCollective;
  event.rank = static_cast<int32_t>(rank_);
  event.collective = {static_cast<uint64_t>(number_), "AllReduce", nullptr, nullptr, kElements, 0, "ncclFloat32", 1, 16,
                      "RING", "LL"};
  plugin()->start(communicator_, &call_, &event);
}

void Meeting::enqueued() {
  if (call_ != nullptr) plugin()->stop(call_);
}

void Meeting::ended() {
  if (call_ == nullptr) return;
  nccl::DescriptorV5 event{};
  event.type = nccl::kKernelChannel;
  event.parent = call_;
  event.kernel_channel = {0, start_};
  void* channel = nullptr;
  plugin()->start(communicator_, &channel, &event);
  nccl::StateArguments state{{end_}};
  if (channel == nullptr) return;
  plugin()->state(channel, nccl::kKernelChannelStop, &state);
  plugin()->stop(channel);
}
