// The exporter's server: whatever a client sends, it gets whole HTTP replies or none, and the next client is served.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "watch/exporter/http_server.h"

namespace {

using namespace profgpu;

// One server for all inputs.
uint16_t port_of_server() {
  static const uint16_t kPort = [] {
    auto opened = HttpServer::open("127.0.0.1:0", {}, "");
    if (!opened) std::abort();
    HttpServer* server = opened->release();
    const std::string url = server->url();
    std::thread([server] {
      server->run([](const HttpRequest& request) {
        HttpReply reply;
        reply.status = request.path == "/good" ? 200 : 404;
        reply.body = std::make_shared<const std::string>("page\n");
        return reply;
      });
    }).detach();
    return static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }();
  return kPort;
}

std::string reply_to(std::string_view bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_of_server());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
  const timeval limit{20, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const linger at_once{1, 0};   // else every port is used up in a minute
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  ::shutdown(fd, SHUT_WR);
  std::string reply;
  char part[4096];
  ssize_t n = 0;
  while ((n = ::recv(fd, part, sizeof part, 0)) > 0) reply.append(part, static_cast<size_t>(n));
  if (n < 0 && errno == EAGAIN) std::abort();   // it keeps the connection for ever
  ::close(fd);
  return reply;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string reply = reply_to({reinterpret_cast<const char*>(data), size});
  if (!reply.empty() && !reply.starts_with("HTTP/1.")) std::abort();
  const std::string good = reply_to("GET /good HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  if (!good.starts_with("HTTP/1.1 200 ") || !good.ends_with("\r\n\r\npage\n")) std::abort();
  return 0;
}
