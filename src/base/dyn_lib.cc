#include "base/dyn_lib.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"

namespace profgpu {

DynLib& DynLib::operator=(DynLib&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

DynLib::~DynLib() {
  if (handle_) dlclose(handle_);
}

Result<DynLib> DynLib::open(const std::string& name) {
  // RTLD_NOW: a library that lacks something it needs itself fails here, not in the middle of a run.
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    return Error{why ? why : "cannot open " + name};
  }
  const link_map* map = nullptr;
  const bool told = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name;
  return DynLib(handle, told ? map->l_name : name);
}

Result<DynLib> DynLib::open_first(const std::vector<std::string>& names) {
  std::string missing, broken;
  for (const std::string& name : names) {
    auto library = open(name);
    if (library) return library;
    append_listed(missing, name);
    // The loader has no code for "there is no such file", only this text.
    const bool absent = library.error().message.find("No such file or directory") != std::string::npos;
    if (!absent && broken.empty()) broken = library.error().message;
  }
  return Error{broken.empty() ? "no library found: tried " + missing : broken};
}

void* DynLib::address(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

DynLib::Symbol DynLib::first_symbol(std::initializer_list<const char*> names) const {
  for (const char* name : names)
    if (void* found = address(name)) return Symbol(found);
  return Symbol(nullptr);
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  if (n > 0) return {path, static_cast<size_t>(n)};
  // Without /proc: as it was called.
  const auto* called = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return called && ::realpath(called, path) ? path : "";
}

std::vector<std::string> paths_of_part(const std::string& program, const std::string& file, const char* named_by) {
  std::vector<std::string> paths;
  if (const char* named = named_by ? std::getenv(named_by) : nullptr) paths.emplace_back(named);
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  paths.push_back(folder + file);
  paths.push_back(folder + "../lib/profgpu/" + file);
  return paths;
}

}  // namespace profgpu
