#include "measure/benchmark.h"

namespace profgpu {

extern const Benchmark kHost, kStorage, kLaunchCosts, kBandwidth, kMatmul, kNcclCollectives, kOverlap, kCrossover,
    kBurn;

const std::vector<const Benchmark*>& benchmarks() {
  static const std::vector<const Benchmark*> kAll = {&kHost,   &kStorage,         &kLaunchCosts, &kBandwidth,
                                                     &kMatmul, &kNcclCollectives, &kOverlap,     &kCrossover,
                                                     &kBurn};
  return kAll;
}

}  // namespace profgpu
