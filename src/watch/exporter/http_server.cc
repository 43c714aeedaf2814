#include "watch/exporter/http_server.h"

#include "watch/exporter/http_client.h"
#include "watch/exporter/http_serving.h"

namespace profgpu {
namespace {

class PlainServer final : public serving::Server {
 public:
  using Server::Server;

 private:
  std::shared_ptr<serving::Session> session_of(serving::Shared& shared, serving::tcp::socket socket) override {
    return std::make_shared<serving::Connection<serving::beast::tcp_stream>>(shared, std::move(socket));
  }
};

Result<std::unique_ptr<HttpServer>> open_https(const std::string& listen, const WebConfig& config,
                                               const std::string& program, const HttpLimits& limits) {
  auto open = tls_function<OpenHttps>(program, kOpenHttpsSymbol);
  if (!open) return open.error();
  Error problem;
  std::unique_ptr<HttpServer> server((*open)(kVersion, listen, config, limits, problem));
  if (!server) return problem;
  return server;
}

}  // namespace

Status HttpServer::check_address(const std::string& listen) {
  const auto address = serving::address_of(listen);
  return address ? ok() : Status(address.error());
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const std::string& listen, WebConfig config,
                                                     const std::string& program, HttpLimits limits) {
  if (config.tls) return open_https(listen, config, program, limits);
  auto server = std::make_unique<PlainServer>(std::move(config), limits);
  if (Status s = server->listen(listen); !s) return s.error();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace profgpu
