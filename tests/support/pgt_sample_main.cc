// pgt-sample FILE [STEPS [KERNELS [unmarked]]]: writes a recording of a made-up training loop.
#include <cstdio>
#include <cstdlib>

#include "tests/support/sample_recording.h"

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: pgt-sample FILE [STEPS [KERNELS [unmarked]]]\n"), 2;
  profgpu::SampleLoop loop;
  if (argc > 2) loop.steps = std::atoll(argv[2]);
  if (argc > 3) loop.kernels = std::atoll(argv[3]);
  loop.marked = argc <= 4;
  profgpu::sample_recording(loop).write(argv[1]);
  return 0;
}
