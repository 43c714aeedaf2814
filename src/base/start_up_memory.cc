#include "base/start_up_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace profgpu {
namespace {

// Pages of such an object may hold what the dynamic linker wrote there.
bool has_text_relocations(const dl_phdr_info& object, const ElfW(Phdr)& dynamic) {
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + dynamic.p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0)) return true;
  return false;
}

int release(dl_phdr_info* object, size_t, void*) {
  const std::span segments(object->dlpi_phdr, object->dlpi_phnum);
  if (std::string_view(object->dlpi_name).starts_with("linux-vdso")) return 0;   // the kernel's own
  for (const ElfW(Phdr)& s : segments)
    if (s.p_type == PT_DYNAMIC && has_text_relocations(*object, s)) return 0;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const ElfW(Phdr)& s : segments) {
    if (s.p_type != PT_LOAD || (s.p_flags & PF_W) != 0) continue;
    const uintptr_t begin = (object->dlpi_addr + s.p_vaddr) / page * page;
    const uintptr_t end = (object->dlpi_addr + s.p_vaddr + s.p_filesz + page - 1) / page * page;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void release_start_up_memory() {
  ::malloc_trim(0);
  ::dl_iterate_phdr(release, nullptr);
}

}  // namespace profgpu
