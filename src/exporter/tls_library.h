// libprofgpu-tls.so, which has all that needs OpenSSL: six megabytes with 24,000 relocations, which every start of the program
// would pay for. It is opened where TLS is asked for.
#pragma once

#include <string>

#include "base/result.h"

namespace profgpu {

/// The address of one of its functions. `program`: our own file, beside which it lies.
Result<void*> tls_symbol(const std::string& program, const char* symbol);

template <class Function>
Result<Function> tls_function(const std::string& program, const char* symbol) {
  auto address = tls_symbol(program, symbol);
  if (!address) return address.error();
  return reinterpret_cast<Function>(*address);
}

}  // namespace profgpu
