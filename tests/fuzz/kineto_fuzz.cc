// Any bytes as a trace file: read, analysed, diagnosed and written in every format. Nothing may crash, hang or leak,
// and totals must hold whatever was read.
#include "tests/fuzz/whole_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  profgpu::report_on_bytes(data, size);
  return 0;
}
