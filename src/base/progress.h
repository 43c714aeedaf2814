// How far a long reading has come. Written by whoever reads, from any thread; drawn by whoever has a screen.
#pragma once

#include <atomic>
#include <cstdint>

namespace profgpu {

struct Progress {
  std::atomic<int64_t> done_bytes{0};
  std::atomic<int64_t> total_bytes{0};             ///< 0: not known yet
  std::atomic<const char*> stage{"reading"};       ///< a word that lives as long as the program
  std::atomic<int64_t> read_ns{0};                 ///< how long reading and linking took, once done
};

}  // namespace profgpu
