// The client of exporters and webhooks: whatever a server answers, the call ends, with a body within its limit or an
// error.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "watch/exporter/http_client.h"

namespace {

using namespace profgpu;

constexpr size_t kMostBytes = 1 << 16;

int listener(uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 8) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    std::abort();
  port = ntohs(address.sin_port);
  return fd;
}

void serve_once(int listening, std::string_view answer) {
  const int fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) std::abort();
  char request[4096];
  if (::recv(fd, request, sizeof request, 0) > 0)
    while (!answer.empty()) {
      const ssize_t n = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      answer.remove_prefix(static_cast<size_t>(n));
    }
  ::shutdown(fd, SHUT_WR);
  while (::recv(fd, request, sizeof request, 0) > 0) {}
  const linger at_once{1, 0};   // else every port is used up in a minute
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static uint16_t port = 0;
  static const int kListening = listener(port);
  HttpCall call;
  call.url.host = "127.0.0.1";
  call.url.port = std::to_string(port);
  call.limit = std::chrono::seconds(20);
  call.most_bytes = kMostBytes;
  std::thread server([&] { serve_once(kListening, {reinterpret_cast<const char*>(data), size}); });
  const auto answer = http_call(call, "");
  server.join();
  if (answer && answer->body.size() > kMostBytes) std::abort();
  if (!answer && (answer.error().message.empty() || answer.error().message.find("no answer within") == 0)) std::abort();
  return 0;
}
