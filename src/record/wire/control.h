// The page that a recorded process and `profgpu attach` share: FOLDER/.control/HOST/PID.control, mapped by both.
//
// Writers: the process writes everything but `request`; whoever attaches writes `request` and waits until `answered` is
// the same number. All words are read and written whole (lock-free atomics); the process looks at `request` between
// flushes, so that an order is carried out within one flush interval.
#pragma once

#include <stdint.h>

namespace profgpu::wire {

inline constexpr uint32_t kControlMagic = 0x54434750;  ///< "PGCT"
inline constexpr uint32_t kControlVersion = 1;

enum class ControlOrder : uint32_t { kNone = 0, kStart = 1, kStop = 2, kMemory = 3 };

enum class RecorderState : uint32_t {
  kStarting = 0,
  kWaiting = 1,    ///< ready; no window is open
  kRecording = 2,
  kPaused = 3,     ///< another profiler has the device records for now
  kNoDevice = 4,   ///< ranges and collectives only: no GPU, no CUPTI, or another profiler holds it; see `reason`
  kFailed = 5,     ///< nothing more is written: see `reason`
  kEnded = 6,
};

struct ControlPage {
  uint32_t magic;
  uint32_t version;
  uint32_t pid;
  uint32_t state;           ///< RecorderState
  uint64_t request;         ///< (counter << 8) | ControlOrder
  uint64_t answered;        ///< the last request that was carried out
  uint64_t rows_written;
  uint64_t bytes_written;
  uint64_t rows_dropped;
  uint64_t steps;           ///< optimizer steps seen
  int64_t started_unix_ns;
  int64_t flushed_host_ns;  ///< CLOCK_MONOTONIC of the last flush
  char reason[256];         ///< one sentence, ends with NUL
  // Snapshots of PyTorch's allocator, by the Python hook.
  uint64_t takes_memory;     ///< 1: somebody waits for the order kMemory
  uint64_t memory_answered;  ///< how many such orders have been carried out
  char memory[512];          ///< the last snapshot's path, or '!' and why there is none; ends with NUL
};
static_assert(sizeof(ControlPage) <= 4096);

}  // namespace profgpu::wire
