// A small HTTP/1.1 server for pages that are ready: plain or TLS, with bounds on all that a client can take.
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
  std::shared_ptr<const std::string> body;  ///< many connections may send one body
  bool gzipped = false;
};

struct HttpLimits {
  size_t connections = 256;               ///< more wait; the one that is silent longest makes room after a second
  uint32_t header_bytes = 16 << 10;       ///< more: 431
  std::chrono::seconds request_time{10};  ///< for a connection's first request, from connecting to the header's end
  std::chrono::seconds idle_time{120};    ///< for each further one
  std::chrono::seconds reply_time{30};    ///< for the client to take the answer
};

struct HttpFigures {
  int64_t connections = 0, refused = 0;
};

class HttpServer {
 public:
  /// Called for GET and HEAD, by the thread that is in run(). Must be quick.
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  /// Listens from now on: "127.0.0.1:9400", "localhost:9400" (all its addresses), "[::1]:9400", ":9400" (everywhere);
  /// port 0 is any free one. Nothing is answered before run(). `program`: our own file, beside which libprofgpu-tls.so
  /// lies.
  static Result<std::unique_ptr<HttpServer>> open(const std::string& listen, WebConfig config,
                                                  const std::string& program, HttpLimits limits = {});
  /// Whether open() can make anything of `listen`.
  static Status check_address(const std::string& listen);
  virtual ~HttpServer() = default;

  /// Where, as people type it: "http://127.0.0.1:9400".
  [[nodiscard]] virtual std::string url() const = 0;
  /// Returns after SIGTERM, SIGINT or stop().
  virtual void run(Handler handler) = 0;
  /// From any thread, also before run().
  virtual void stop() = 0;
  [[nodiscard]] virtual HttpFigures figures() const = 0;
};

/// What libprofgpu-tls.so exports, for config.tls; null: `problem` says why. Both are of one version and one compiler.
using OpenHttps = HttpServer* (*)(const char* version, const std::string& listen, const WebConfig& config,
                                  const HttpLimits& limits, Error& problem);
constexpr const char* kOpenHttpsSymbol = "profgpu_open_https";

}  // namespace profgpu
