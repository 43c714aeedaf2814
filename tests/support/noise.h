// Random numbers for the simulator. std:: distributions differ between standard libraries and floating point may be
// contracted differently, so this is integers only: one seed gives the same trace on every platform.
#pragma once

#include <cstdint>

namespace profgpu::sim {

class Noise {
 public:
  /// Starts a stream of its own for one place in the run. Reseeding at every layer of every step keeps a planted fault,
  /// which draws extra numbers, from changing the noise of anything after it: runs with and without a fault stay
  /// comparable.
  void reseed(uint64_t seed, uint64_t rank, uint64_t step, uint64_t place) {
    state_ = seed * 0x9E3779B97F4A7C15ULL ^ (rank + 1) * 0xBF58476D1CE4E5B9ULL ^ (step + 1) * 0x94D049BB133111EBULL ^
             (place + 1) * 0xD6E8FEB86659FD93ULL;
    next();
  }

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  /// 0 up to limit - 1.
  int64_t below(int64_t limit) { return limit <= 0 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(limit)); }

  /// Bell-shaped around base with a standard deviation of permille / 1000 of it, within ±3.5 of them; never below 1 for
  /// a base above 0. Sum of four uniforms; base times permille up to 1e15 does not overflow.
  int64_t around(int64_t base, int64_t permille) {
    if (base <= 0) return 0;
    const uint64_t bits = next();
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>(bits >> (16 * i) & 0xFFF) - 2048;
    const int64_t value = base + base * sum * permille / 2'365'000;
    return value < 1 ? 1 : value;
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace profgpu::sim
