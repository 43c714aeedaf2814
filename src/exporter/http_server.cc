#include "exporter/http_server.h"

#include <cstdlib>

#include "base/dyn_lib.h"
#include "exporter/http_serving.h"

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

// Beside the program, or where it is installed.
std::vector<std::string> places(const std::string& program) {
  std::vector<std::string> all;
  if (const char* named = std::getenv("PROFGPU_TLS")) all.emplace_back(named);
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  all.push_back(folder + "libprofgpu-tls.so");
  all.push_back(folder + "../lib/profgpu/libprofgpu-tls.so");
  return all;
}

// OpenSSL is six megabytes with 24,000 relocations, which every start of the program would pay for.
Result<std::unique_ptr<HttpServer>> open_https(const std::string& listen, const WebConfig& config,
                                               const std::string& program, const HttpLimits& limits) {
  auto library = DynLib::open_first(places(program));
  if (!library) return Error{"TLS: " + library.error().message, "it comes with the program; PROFGPU_TLS may name it"};
  const auto open = library->symbol<OpenHttps>(kOpenHttpsSymbol);
  if (!open) return Error{"TLS: " + library->path() + " is of another version than the program"};
  library->leak();  // OpenSSL ends with the program
  Error problem;
  std::unique_ptr<HttpServer> server(open(kVersion, listen, config, limits, problem));
  if (!server) return problem;
  return server;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(const std::string& listen, WebConfig config,
                                                     const std::string& program, HttpLimits limits) {
  if (config.tls) return open_https(listen, config, program, limits);
  auto server = std::make_unique<PlainServer>(std::move(config), limits);
  if (Status s = server->listen(listen); !s) return s.error();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace profgpu
