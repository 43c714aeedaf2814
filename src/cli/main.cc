#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  profgpu::prepare_streams();
  profgpu::install_interrupt_handler();
  // argc is 0 if whoever started us gave no name.
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(profgpu::run_program(words));
}
