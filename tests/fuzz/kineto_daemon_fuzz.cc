// What programs and dynolog send while a trace is requested: whatever the bytes, the request ends, and only a program
// that asks for traces of activities gets it.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "watch/live/kineto_daemon.h"

namespace {

using namespace profgpu;

TorchTraceRequest request_here() {
  TorchTraceRequest request;
  request.pid = ::getpid();
  request.trace_path = "/tmp/trace.json";
  request.steps = 3;
  return request;
}

void one_datagram(std::string_view bytes) {
  static const std::string kName = "fuzz" + std::to_string(::getpid());
  static auto daemon = KinetoDaemon::listen(kName);
  static const int kSocket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, kName.data(), kName.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + kName.size() + 2);
  if (!daemon || !*daemon || kSocket < 0) std::abort();
  const auto* address = reinterpret_cast<const sockaddr*>(&to);
  if (::sendto(kSocket, bytes.data(), bytes.size(), MSG_DONTWAIT, address, size) < 0) return;
  const auto informed = (*daemon)->deliver(request_here(), 1);
  const bool asks = bytes.size() >= 60 && std::string_view(bytes.data() + 8, 4) == std::string_view("req\0", 4);
  if (informed.size() > 1 || (!informed.empty() && !asks)) std::abort();
}

void one_answer(std::string_view bytes) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listening, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(listening, 1) != 0 ||
      ::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    std::abort();
  std::thread dynolog([&] {
    const int fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    char request[4096];
    if (::recv(fd, request, sizeof request, 0) > 0) (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::close(fd);
  });
  const auto pids = deliver_through_dynolog(request_here(), ntohs(address.sin_port));
  dynolog.join();
  ::close(listening);
  if (!pids && pids.error().message.empty()) std::abort();
}

}  // namespace

// The first byte tells which of the two it is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? one_datagram(rest) : one_answer(rest);
  return 0;
}
