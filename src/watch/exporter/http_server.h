// A small HTTP/1.1 server for pages in memory, plain or TLS, with limits on everything that a client can use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "watch/exporter/web_config.h"

namespace profgpu {

struct HttpRequest {
  std::string_view path;  ///< without the query
  std::string_view accept, accept_encoding;
};

struct HttpReply {
  unsigned status = 200;
  std::string_view content_type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  ///< may be shared by many connections
  bool gzipped = false;
};

struct HttpLimits {
  size_t connections = 256;               ///< more wait; after a second the one idle longest is closed for them
  uint32_t header_bytes = 16 << 10;       ///< more: 431
  std::chrono::seconds request_time{10};  ///< for a connection's first request, from connecting to the header's end
  std::chrono::seconds idle_time{120};    ///< for each further request
  std::chrono::seconds reply_time{30};    ///< for sending the answer
};

struct HttpFigures {
  int64_t connections = 0, refused = 0;
};

class HttpServer {
 public:
  /// Called for GET and HEAD, by the thread in run(). Must be quick.
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  /// Listens from now on: "127.0.0.1:9400", "localhost:9400" (all its addresses), "[::1]:9400", ":9400" (all
  /// interfaces); port 0 is any free one. Answers only in run(). `program`: path of our own executable, which
  /// libprofgpu-tls.so is beside.
  static Result<std::unique_ptr<HttpServer>> open(const std::string& listen, WebConfig config,
                                                  const std::string& program, HttpLimits limits = {});
  /// Whether `listen` has a form that open() understands.
  static Status check_address(const std::string& listen);
  virtual ~HttpServer() = default;

  /// As people type it: "http://127.0.0.1:9400".
  [[nodiscard]] virtual std::string url() const = 0;
  /// Returns after SIGTERM, SIGINT or stop().
  virtual void run(Handler handler) = 0;
  /// From any thread, also before run().
  virtual void stop() = 0;
  [[nodiscard]] virtual HttpFigures figures() const = 0;
};

/// Exported by libprofgpu-tls.so, for config.tls; null: `problem` says why. Both must be of one version and one
/// compiler.
using OpenHttps = HttpServer* (*)(const char* version, const std::string& listen, const WebConfig& config,
                                  const HttpLimits& limits, Error& problem);
constexpr const char* kOpenHttpsSymbol = "profgpu_open_https";

}  // namespace profgpu
