#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/text.h"
#include "cli/output.h"
#include "cli/program.h"
#include "devices/pending.h"

int main(int argc, char** argv) {
  // Large blocks go back to the system when freed. Left to itself, glibc raises this bound at the first such block and
  // then keeps what importing needed: half as much resident memory again on a large trace. A lower bound makes pages
  // that are given back and faulted in again, one after the other.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  // What lies below that bound grows and shrinks by much at once: by 128 kB, as glibc has it, the same pages are given
  // back and faulted in again all through an import (a fifth of its wall time).
  mallopt(M_TOP_PAD, 16 << 20);
  // What one thread frees another takes: each with an arena of its own keeps what only it can use again.
  mallopt(M_ARENA_MAX, std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 4));
  profgpu::prepare_streams();
  profgpu::install_interrupt_handler();
  profgpu::install_lack_handler();
  // argc is 0 if whoever started us gave no name.
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto code = static_cast<int>(profgpu::run_program(words));
  if (!profgpu::left_in_driver) return code;
  std::fflush(nullptr);
  std::_Exit(code);
}
