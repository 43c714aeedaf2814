// libprofgpu-tls.so: the HTTP server over TLS. The program opens it only for TLS, and does not link OpenSSL.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <boost/asio/ssl.hpp>
#include <boost/beast/ssl.hpp>

#include "watch/exporter/http_serving.h"

namespace profgpu {
namespace {

namespace ssl = boost::asio::ssl;

constexpr std::chrono::seconds kCheckEvery{2};

std::string words_of_openssl() {
  char text[256];
  const unsigned long code = ERR_get_error();
  if (code == 0) return "it is not valid";
  ERR_error_string_n(code, text, sizeof text);
  const char* reason = ERR_reason_error_string(code);
  return reason ? reason : text;
}

Status set_up_tls(const WebConfig& config, SSL_CTX* tls) {
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(tls, config.min_version);
  SSL_CTX_set_max_proto_version(tls, config.max_version);
  SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION);
  // TLS 1.0 and 1.1 sign with SHA-1, which the default level forbids.
  if (config.min_version < TLS1_2_VERSION) SSL_CTX_set_security_level(tls, 0);
  if (SSL_CTX_use_certificate_chain_file(tls, config.cert_file.c_str()) != 1)
    return Error{fmt::format("cert_file {}: {}", config.cert_file, words_of_openssl())};
  if (SSL_CTX_use_PrivateKey_file(tls, config.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return Error{fmt::format("key_file {}: {}", config.key_file, words_of_openssl())};
  if (SSL_CTX_check_private_key(tls) != 1) return Error{"key_file is not the key of cert_file"};
  using enum ClientCertificates;
  const ClientCertificates wanted = config.client_certificates;
  const bool required = wanted == kRequired || wanted == kVerified, any = wanted == kRequested || wanted == kRequired;
  SSL_CTX_set_verify(
      tls, wanted == kNone ? SSL_VERIFY_NONE : SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
      any ? +[](int, X509_STORE_CTX*) { return 1; } : nullptr);
  if (config.client_ca_file.empty()) return ok();
  if (SSL_CTX_load_verify_file(tls, config.client_ca_file.c_str()) != 1)
    return Error{fmt::format("client_ca_file {}: {}", config.client_ca_file, words_of_openssl())};
  SSL_CTX_set_client_CA_list(tls, SSL_load_client_CA_file(config.client_ca_file.c_str()));
  return ok();
}

class TlsServer final : public serving::Server {
 public:
  using Server::Server;
  Status secure(const WebConfig& config) {
    config_ = config;
    changed_ = changes();
    return set_up_tls(config_, context_.native_handle());
  }

 private:
  // When the files were last changed: certificates may be renewed while we run.
  [[nodiscard]] std::vector<int64_t> changes() const {
    std::vector<int64_t> all;
    for (const std::string& path : {config_.cert_file, config_.key_file, config_.client_ca_file}) {
      struct stat s{};
      if (path.empty() || ::stat(path.c_str(), &s) != 0) continue;
      all.push_back(int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec);
    }
    return all;
  }
  // Retries files that do not match, since one of them is not written yet; until then the old ones serve.
  void renew() {
    if (serving::Clock::now() - checked_ < kCheckEvery) return;
    checked_ = serving::Clock::now();
    const std::vector<int64_t> now = changes();
    if (now == changed_) return;
    ssl::context fresh(ssl::context::tls_server);
    if (!set_up_tls(config_, fresh.native_handle())) return;
    context_ = std::move(fresh);
    changed_ = now;
  }
  std::shared_ptr<serving::Session> session_of(serving::Shared& shared, serving::tcp::socket socket) override {
    renew();
    using Stream = boost::beast::ssl_stream<boost::beast::tcp_stream>;
    return std::make_shared<serving::Connection<Stream>>(shared, std::move(socket), context_);
  }

  WebConfig config_;
  ssl::context context_{ssl::context::tls_server};
  std::vector<int64_t> changed_;  // of the files that context_ was made from
  serving::Clock::time_point checked_ = serving::Clock::now();
};

}  // namespace
}  // namespace profgpu

extern "C" __attribute__((visibility("default"))) profgpu::HttpServer* profgpu_open_https(
    const char* version, const std::string& listen, const profgpu::WebConfig& config, const profgpu::HttpLimits& limits,
    profgpu::Error& problem) {
  if (std::string_view(version) != profgpu::kVersion) {
    problem = {"libprofgpu-tls.so is of another version than the program"};
    return nullptr;
  }
  auto server = std::make_unique<profgpu::TlsServer>(config, limits);
  profgpu::Status opened = server->secure(config);
  if (opened) opened = server->listen(listen);
  if (opened) return server.release();
  problem = opened.error();
  return nullptr;
}
