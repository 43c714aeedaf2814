#include "measure/benchmark.h"

namespace profgpu {

extern const Benchmark kHost, kStorage, kLaunch, kBandwidth, kMatmul, kNcclCollectives;

const std::vector<const Benchmark*>& benchmarks() {
  static const std::vector<const Benchmark*> kAll = {&kHost,      &kStorage, &kLaunch,
                                                     &kBandwidth, &kMatmul,  &kNcclCollectives};
  return kAll;
}

}  // namespace profgpu
