// One HTTP request at a time, plain or over TLS, with bounds on its time and its answer.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace profgpu {

struct HttpUrl {
  bool tls = false;
  std::string host, port;      ///< an IPv6 address without brackets
  std::string target = "/";    ///< path and query
  std::string authorization;   ///< "Basic …" of USER:PASSWORD@; empty: none

  /// As people type it, without the password.
  [[nodiscard]] std::string text() const;
};
/// "http://host:9400/metrics", "https://user:password@host/". The error is a usage error.
Result<HttpUrl> parse_http_url(std::string_view text);

struct HttpCall {
  HttpUrl url;
  std::string accept;
  std::string content_type, body;            ///< with a body it is a POST, else a GET
  std::chrono::milliseconds limit{10'000};   ///< for all of it, but for the system's resolver
  size_t most_bytes = 16 << 20;              ///< of the answer
};

struct HttpAnswer {
  unsigned status = 0;
  std::string content_type, body;
};

/// Waits. Redirections are not followed. For https, certificates are checked with the system's list of authorities or
/// SSL_CERT_FILE's. `program`: our own file, beside which libprofgpu-tls.so lies.
Result<HttpAnswer> http_call(const HttpCall& call, const std::string& program);

/// What libprofgpu-tls.so exports; false: `problem` says why.
using HttpsCall = bool (*)(const char* version, const HttpCall& call, HttpAnswer& answer, Error& problem);
constexpr const char* kHttpsCallSymbol = "profgpu_https_call";

// libprofgpu-tls.so, which has all that needs OpenSSL: six megabytes with 24,000 relocations, which every start of the
// program would pay for. It is opened where TLS is asked for.

/// The address of one of its functions. `program`: our own file, beside which it lies.
Result<void*> tls_symbol(const std::string& program, const char* symbol);

template <class Function>
Result<Function> tls_function(const std::string& program, const char* symbol) {
  auto address = tls_symbol(program, symbol);
  if (!address) return address.error();
  return reinterpret_cast<Function>(*address);
}

}  // namespace profgpu
