// PyTorch memory snapshots and memory timelines: any bytes as one, read, analysed, diagnosed and written in every format; totals hold.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/whole_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  profgpu::report_on(path);
  return 0;
}
