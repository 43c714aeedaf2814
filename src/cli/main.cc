#include <malloc.h>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  // Large blocks go back to the system when freed. Left to itself, glibc raises this bound at the first such block and
  // then keeps what importing needed: half as much resident memory again on a large trace.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  profgpu::prepare_streams();
  profgpu::install_interrupt_handler();
  // argc is 0 if whoever started us gave no name.
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(profgpu::run_program(words));
}
