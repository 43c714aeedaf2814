// The settings of TLS and passwords: whatever the file, it is read or refused, and what is read can be used.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "watch/exporter/web_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  static const int kFile = ::memfd_create("web.yml", MFD_CLOEXEC);
  static const std::string kPath = "/proc/self/fd/" + std::to_string(kFile);
  if (::ftruncate(kFile, 0) != 0 || ::pwrite(kFile, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  const auto config = read_web_config(kPath);
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  if (config->tls && (config->cert_file.empty() || config->key_file.empty())) std::abort();
  for (const auto& [name, value] : config->headers)
    if (name.empty() || value.find_first_of("\r\n") != value.npos) std::abort();
  for (const auto& [user, hash] : config->users)
    if (user.empty() || hash.size() != 60) std::abort();
  return 0;
}
