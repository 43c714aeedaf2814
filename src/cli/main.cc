#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/text.h"
#include "cli/output.h"
#include "cli/program.h"
#include "devices/pending.h"

// Sanitizers have forms of these of their own, which must be all theirs.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The columns of a large trace are filled once, from end to end: huge pages save a third of the faults and 4 % of the
// wall time of 500 MB. Their last part keeps small pages, so that nothing more is resident.
void* operator new(size_t size) {
  constexpr size_t kHugePage = size_t{2} << 20, kPage = 4096;
  const bool large = size >= 2 * kHugePage && size < SIZE_MAX - kPage;
  void* memory = nullptr;
  while ((memory = large ? std::aligned_alloc(kHugePage, (size + kPage - 1) / kPage * kPage)
                         : std::malloc(std::max<size_t>(size, 1))) == nullptr) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
  if (large) ::madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

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
