// An all-reduce at each step's end that several cuda-sim processes end together, on machines whose clocks differ.
// Simulated: nothing is sent; when it ends is agreed on in a file that all of them map.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "cuda_sim_options.h"
#include "sim.h"

class Meeting {
 public:
  /// Rank and number of ranks are what a launcher's variables say. Exits with 1 where they do not, or the file cannot
  /// be had.
  explicit Meeting(const Options& options);

  /// The kernel of the next all-reduce. It begins where its stream has come to; it ends, for all ranks, so many
  /// nanoseconds after the last of them has begun.
  [[nodiscard]] cuda_sim::Launch kernel();
  /// Told to NCCL's profiler plugin, where there is one: around the launch, and when the kernel has ended.
  void enqueue();
  void enqueued();
  void ended();

 private:
  uint64_t end_of(uint64_t start);

  int64_t rank_ = -1, ranks_ = 0, steps_, duration_ns_;
  int64_t number_ = 0;   ///< of the next
  std::atomic<uint64_t>* begun_ = nullptr;   ///< true times, of each rank in each all-reduce; 0: not yet
  uint64_t start_ = 0, end_ = 0;             ///< of the last, by this machine's clock
  void* communicator_ = nullptr;
  void* call_ = nullptr;
};
