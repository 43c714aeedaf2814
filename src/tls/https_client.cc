// libprofgpu-tls.so: HTTP requests over TLS.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <boost/asio/ssl.hpp>
#include <boost/beast/ssl.hpp>

#include "watch/exporter/http_calling.h"

namespace profgpu {
namespace {

namespace ssl = boost::asio::ssl;

// Where systems keep their list of authorities; the linked OpenSSL knows only Debian's.
constexpr const char* kAuthorities[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

bool load_authorities(SSL_CTX* tls) {
  if (const char* named = std::getenv("SSL_CERT_FILE")) return SSL_CTX_load_verify_file(tls, named) == 1;
  for (const char* path : kAuthorities)
    if (::access(path, R_OK) == 0 && SSL_CTX_load_verify_file(tls, path) == 1) return true;
  return SSL_CTX_set_default_verify_paths(tls) == 1;
}

bool is_address(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

Result<HttpAnswer> https_call(const HttpCall& call) {
  ssl::context context(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  if (!load_authorities(context.native_handle()))
    return Error{"TLS: no list of authorities to check certificates with",
                 "SSL_CERT_FILE names one; Debian has it in ca-certificates"};
  boost::asio::io_context io(1);
  using Stream = boost::beast::ssl_stream<boost::beast::tcp_stream>;
  calling::Exchange<Stream> exchange(call, io, context);
  exchange.stream().set_verify_mode(ssl::verify_peer);
  exchange.stream().set_verify_callback(ssl::host_name_verification(call.url.host));
  if (!is_address(call.url.host)) SSL_set_tlsext_host_name(exchange.stream().native_handle(), call.url.host.c_str());
  return exchange.run();
}

}  // namespace
}  // namespace profgpu

extern "C" __attribute__((visibility("default"))) bool profgpu_https_call(const char* version,
                                                                          const profgpu::HttpCall& call,
                                                                          profgpu::HttpAnswer& answer,
                                                                          profgpu::Error& problem) {
  if (std::string_view(version) != profgpu::kVersion) {
    problem = {"libprofgpu-tls.so is of another version than the program"};
    return false;
  }
  auto done = profgpu::https_call(call);
  if (done) answer = *std::move(done);
  else problem = done.error();
  return bool(done);
}
