#include "watch/exporter/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/version.h"

namespace profgpu {
namespace {

using namespace std::chrono_literals;

// Of "secret", at the lowest cost.
constexpr char kHash[] = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

HttpReply echo(const HttpRequest& request) {
  HttpReply reply;
  reply.status = request.path == "/missing" ? 404 : 200;
  reply.body = std::make_shared<const std::string>("path " + std::string(request.path) + "\n");
  return reply;
}

/// A server on a thread of its own, for as long as it lives.
class Serving {
 public:
  explicit Serving(WebConfig config = {}, HttpLimits limits = {}) {
    auto server = HttpServer::open("127.0.0.1:0", std::move(config), "", limits);
    EXPECT_TRUE(server);
    server_ = *std::move(server);
    port_ = static_cast<uint16_t>(std::stoi(server_->url().substr(server_->url().rfind(':') + 1)));
    thread_ = std::thread([this] { server_->run(echo); });
  }
  ~Serving() {
    server_->stop();
    thread_.join();
  }
  [[nodiscard]] int connect() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  /// All that comes back until the server closes.
  static std::string rest(int fd) {
    std::string reply;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;) reply.append(bytes, static_cast<size_t>(n));
    ::close(fd);
    return reply;
  }
  [[nodiscard]] std::string ask(const std::string& request) const {
    const int fd = connect();
    EXPECT_GT(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), 0);
    return rest(fd);
  }
  [[nodiscard]] HttpFigures figures() const { return server_->figures(); }

 private:
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST(HttpServer, WholeAddressesAndHosts) {
  const Serving serving;
  const std::string end = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_NE(serving.ask("GET http://localhost:9/a?b" + end).find("path /a\n"), std::string::npos);
  EXPECT_NE(serving.ask("GET http://localhost" + end).find("path /\n"), std::string::npos);
  EXPECT_NE(serving.ask("GET /x?u=http://y/z" + end).find("path /x\n"), std::string::npos);
  EXPECT_EQ(serving.ask("GET /a HTTP/1.1\r\n\r\n").substr(0, 12), "HTTP/1.1 400");
  for (const char* wrong : {"9400", ":99999", "127.0.0.1", ""}) EXPECT_FALSE(HttpServer::check_address(wrong)) << wrong;
  EXPECT_TRUE(HttpServer::check_address(":9400"));
}

TEST(HttpServer, AnswersExactly) {
  const Serving serving;
  EXPECT_EQ(serving.ask("GET /a?b HTTP/1.0\r\n\r\n"),
            "HTTP/1.0 200 OK\r\nServer: profgpu/" + std::string(kVersion) +
                "\r\nContent-Type: text/plain; charset=utf-8\r\nVary: Accept, Accept-Encoding\r\n"
                "X-Content-Type-Options: nosniff\r\nContent-Length: 8\r\n\r\npath /a\n");
  const std::string head = serving.ask("HEAD /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("Content-Length: 8\r\n\r\n")) << head;
  EXPECT_TRUE(serving.ask("GET /missing HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 Not Found\r\n"));
  const std::string two =
      serving.ask("GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_LT(two.find("path /1\n"), two.find("path /2\n"));
  EXPECT_NE(two.find("path /2\n"), std::string::npos);
}

TEST(HttpServer, RefusesWhatItDoesNotTake) {
  const Serving serving;
  EXPECT_TRUE(serving.ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(serving.ask(std::string("\0\1\2\r\n\r\n", 7)).starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(serving.ask("GET / HTTP/1.1\r\nX: " + std::string(50'000, 'a')).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(serving.ask("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(serving.ask("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").starts_with("HTTP/1.1 413 "));
}

TEST(HttpServer, Passwords) {
  WebConfig config;
  config.users = {{"alice", kHash}};
  const Serving serving(config);
  const std::string request = "GET /a HTTP/1.0\r\nAuthorization: Basic ";
  EXPECT_TRUE(serving.ask("GET /a HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 401 "));
  EXPECT_TRUE(serving.ask(request + "YWxpY2U6U2VjcmV0\r\n\r\n").starts_with("HTTP/1.0 401 "));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(serving.ask(request + "YWxpY2U6c2VjcmV0\r\n\r\n").ends_with("path /a\n"));
}

TEST(HttpServer, SlowClientsAreCutOff) {
  HttpLimits limits;
  limits.request_time = 1s;
  const Serving serving({}, limits);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(serving.ask("GET / HTTP/1.1\r\nX-Slow: "), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 50s);
}

TEST(HttpServer, WhoIsSilentMakesRoom) {
  HttpLimits limits;
  limits.connections = 3;
  const Serving serving({}, limits);
  std::vector<int> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(serving.connect());
  EXPECT_TRUE(serving.ask("GET /a HTTP/1.0\r\n\r\n").ends_with("path /a\n"));
  EXPECT_GE(serving.figures().refused, 1);
  EXPECT_LE(serving.figures().connections, 3);
  EXPECT_EQ(Serving::rest(silent[0]), "");  // the first that came had to go
  ::close(silent[1]);
  ::close(silent[2]);
}

TEST(HttpServer, EndsWithConnectionsOpen) {
  int left = -1;
  {
    const Serving serving;
    left = serving.connect();
    EXPECT_NE(serving.ask("GET /a HTTP/1.0\r\n\r\n"), "");
  }
  EXPECT_EQ(Serving::rest(left), "");
}

TEST(HttpServer, ErrorsSayWhatToDo) {
  const auto problem = [](const std::string& listen) { return HttpServer::open(listen, {}, "").error().message; };
  for (const char* wrong : {"", "9400", ":", "1.2.3.4", "1.2.3.4:x", "1.2.3.4:99999", "::1:9400"})
    EXPECT_EQ(problem(wrong), "\"" + std::string(wrong) + "\" is not ADDRESS:PORT");
  auto first = HttpServer::open("127.0.0.1:0", {}, "");
  ASSERT_TRUE(first);
  const auto second = HttpServer::open((*first)->url().substr(7), {}, "");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().hint, "is another exporter running? --listen takes another port");
  WebConfig tls;
  tls.tls = true;
  EXPECT_NE(HttpServer::open("127.0.0.1:0", tls, "/nowhere/profgpu").error().message.find("libprofgpu-tls.so"),
            std::string::npos);
}

}  // namespace
}  // namespace profgpu
