// Any bytes as a profile or a trace of Triton's Proton.
#include "tests/fuzz/whole_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  profgpu::report_on_bytes(data, size);
  return 0;
}
