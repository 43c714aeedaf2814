// One HTTP request at a time, plain or over TLS, with limits on its time and its answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/decimal.h"
#include "base/result.h"
#include "base/text.h"

namespace profgpu {

struct HttpUrl {
  bool tls = false;
  std::string host, port;      ///< an IPv6 address without brackets
  std::string target = "/";    ///< path and query
  std::string authorization;   ///< "Basic …" of USER:PASSWORD@; empty: none

  /// Host, and port unless it is the default one.
  [[nodiscard]] std::string authority() const {
    const std::string shown = host.find(':') == host.npos ? host : "[" + host + "]";
    return port == (tls ? "443" : "80") ? shown : shown + ":" + port;
  }
  /// For messages: without the password, and without path and query, in which chat services have the key to a channel.
  [[nodiscard]] std::string text() const {
    return (tls ? "https://" : "http://") + authority() + (target == "/" ? "/" : "/…");
  }
};
/// 0 to 65535; nullopt: not a port.
inline std::optional<uint16_t> port_number(std::string_view text) {
  const auto port = all_digits(text) ? whole_number(text) : std::nullopt;
  return port && *port <= 65535 ? std::optional(static_cast<uint16_t>(*port)) : std::nullopt;
}
/// "http://host:9400/metrics", "https://user:password@host/". The error is a usage error.
Result<HttpUrl> parse_http_url(std::string_view text);

struct HttpCall {
  HttpUrl url;
  std::string accept;
  std::string content_type, body;            ///< POST with a body, else GET
  std::chrono::milliseconds limit{10'000};   ///< for all of it, except the system's resolver
  size_t most_bytes = 16 << 20;              ///< of the answer
};

struct HttpAnswer {
  unsigned status = 0;
  std::string content_type, body;
};

/// Blocks. Does not follow redirections. For https, checks certificates with the system's list of authorities or that
/// of SSL_CERT_FILE. `program`: path of our own executable, which libprofgpu-tls.so is beside.
Result<HttpAnswer> http_call(const HttpCall& call, const std::string& program);

/// What libprofgpu-tls.so exports; false: `problem` says why.
using HttpsCall = bool (*)(const char* version, const HttpCall& call, HttpAnswer& answer, Error& problem);
constexpr const char* kHttpsCallSymbol = "profgpu_https_call";

// libprofgpu-tls.so has all code that needs OpenSSL: six megabytes with 24,000 relocations, which would slow down every
// start of the program. It is opened only for TLS.

/// The address of one of its functions.
Result<void*> tls_symbol(const std::string& program, const char* symbol);

template <class Function>
Result<Function> tls_function(const std::string& program, const char* symbol) {
  auto address = tls_symbol(program, symbol);
  if (!address) return address.error();
  return reinterpret_cast<Function>(*address);
}

}  // namespace profgpu
