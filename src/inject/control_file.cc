#include "inject/control_file.h"

#include "inject/text.h"

namespace profgpu::inject {

wire::ControlPage* map_control_page(const char* folder, const char* host, uint32_t pid) {
  Text<4096> path;
  path << folder << "/.control";
  system_call(SYS_mkdirat, AT_FDCWD, as_word(path.c_str()), 0755);
  path << "/" << host;
  system_call(SYS_mkdirat, AT_FDCWD, as_word(path.c_str()), 0755);
  path << "/" << pid << ".control";
  if (path.is_full()) return nullptr;
  // A page of an earlier process of that number may still be mapped by somebody: it must not be cut to length 0.
  system_call(SYS_unlinkat, AT_FDCWD, as_word(path.c_str()), 0);
  const int fd = open_file(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644);
  if (fd < 0) return nullptr;
  // Written, not only made longer: on a full disk a page without a block behind it would kill the process (SIGBUS).
  alignas(8) char page[sizeof(wire::ControlPage)] = {};
  void* mapped = nullptr;
  if (write_file(fd, page, sizeof page) == static_cast<long>(sizeof page))
    mapped = map_memory(nullptr, sizeof page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  close_file(fd);
  if (mapped == nullptr || is_failure(mapped)) return nullptr;
  auto* const control = static_cast<wire::ControlPage*>(mapped);
  control->version = wire::kControlVersion;
  control->pid = pid;
  set_word(control->magic, wire::kControlMagic);
  return control;
}

}  // namespace profgpu::inject
