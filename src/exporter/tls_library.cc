#include "exporter/tls_library.h"

#include <cstdlib>
#include <vector>

#include "base/dyn_lib.h"

namespace profgpu {
namespace {

// Beside the program, or where it is installed.
std::vector<std::string> places(const std::string& program) {
  std::vector<std::string> all;
  if (const char* named = std::getenv("PROFGPU_TLS")) all.emplace_back(named);
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  all.push_back(folder + "libprofgpu-tls.so");
  all.push_back(folder + "../lib/profgpu/libprofgpu-tls.so");
  return all;
}

}  // namespace

Result<void*> tls_symbol(const std::string& program, const char* symbol) {
  auto library = DynLib::open_first(places(program));
  if (!library) return Error{"TLS: " + library.error().message, "it comes with the program; PROFGPU_TLS may name it"};
  const auto found = library->symbol<void*>(symbol);
  if (!found) return Error{"TLS: " + library->path() + " is of another version than the program"};
  library->leak();  // OpenSSL ends with the program
  return found;
}

}  // namespace profgpu
