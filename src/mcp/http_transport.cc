#include "mcp/http_transport.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/secrets.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr size_t kMostHead = 16 << 10, kMostBody = 4 << 20;
constexpr int64_t kRequest_ns = 10'000'000'000;   // to send a request
constexpr timeval kPiece{5, 0};                   // between two pieces of one

struct McpRequest {
  std::string method, path, head, body;

  // Of the first header of that name, which is in lower case; empty: there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const {
    for (const std::string_view line : pieces_of(head, '\n')) {
      const size_t colon = line.find(':');
      if (colon != line.npos && lower_case(line.substr(0, colon)) == name) return without_blanks(line.substr(colon + 1));
    }
    return {};
  }
};

struct McpReply {
  std::string_view status, more = {};
  std::string body = {};
};

// "localhost:8080", "127.0.0.1", "[::1]:1": whatever the port.
bool is_this_machine(std::string_view authority) {
  const size_t bracket = authority.find(']');
  const std::string_view host =
      authority.substr(0, bracket != authority.npos ? bracket + 1 : authority.find(':'));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

bool is_origin_here(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme != origin.npos && is_this_machine(origin.substr(scheme + 3));
}

// Nullopt: the client left, is too slow, or sends no HTTP. `answer` is then what to say, if anything.
std::optional<McpRequest> read_request(int connection, McpReply& answer) {
  std::string text;
  std::optional<size_t> head_end, length;
  const int64_t until_ns = monotonic_ns() + kRequest_ns;
  while (!length || text.size() < *head_end + *length) {
    std::array<char, 16 << 10> piece{};
    const ssize_t n = ::recv(connection, piece.data(), piece.size(), 0);
    if (n <= 0 || monotonic_ns() > until_ns) return std::nullopt;
    text.append(piece.data(), static_cast<size_t>(n));
    if (const size_t end = text.find("\r\n\r\n"); !head_end && end != text.npos) {
      head_end = end + 4;
      const McpRequest begun{{}, {}, text.substr(0, end), {}};
      if (!begun.header("transfer-encoding").empty()) {
        answer.status = "411 Length Required";
        return std::nullopt;
      }
      const std::string number(begun.header("content-length"));
      size_t bytes = 0;
      const auto [to, error] = std::from_chars(number.data(), number.data() + number.size(), bytes);
      if (!number.empty() && (error != std::errc() || to != number.data() + number.size() || bytes > kMostBody)) {
        answer.status = "413 Content Too Large";
        return std::nullopt;
      }
      length = bytes;
    } else if (!head_end && text.size() > kMostHead) {
      answer.status = "431 Request Header Fields Too Large";
      return std::nullopt;
    }
  }
  const size_t line = text.find("\r\n");
  const std::vector<std::string_view> words = pieces_of(std::string_view(text).substr(0, line), ' ');
  if (words.size() != 3 || !words[2].starts_with("HTTP/1.")) {
    answer.status = "400 Bad Request";
    return std::nullopt;
  }
  return McpRequest{std::string(words[0]), std::string(words[1]), text.substr(line + 2, *head_end - line - 2),
                 text.substr(*head_end, *length)};
}

McpReply answered(const McpRequest& request, const std::string& token, McpServer& server) {
  const std::string_view origin = request.header("origin");
  if (!is_this_machine(request.header("host")) || (!origin.empty() && !is_origin_here(origin)))
    return {"403 Forbidden"};
  std::string_view given = request.header("authorization");
  if (!lower_case(given).starts_with("bearer ")) given = {};
  if (given.empty() || !same_secret(without_blanks(given.substr(7)), token))
    return {"401 Unauthorized", "WWW-Authenticate: Bearer\r\n"};
  if (request.path != "/mcp") return {"404 Not Found"};
  if (request.method != "POST") return {"405 Method Not Allowed", "Allow: POST\r\n"};
  if (!lower_case(request.header("content-type")).starts_with("application/json"))
    return {"415 Unsupported Media Type"};
  // A client names the version that both agreed on; none is an older client's way.
  const std::string_view version = request.header("mcp-protocol-version");
  if (!version.empty() && !McpServer::speaks(version))
    return {"400 Bad Request", "Content-Type: application/json\r\n",
            McpServer::refusal(fmt::format("unsupported MCP-Protocol-Version \"{}\"", shortened(version)))};
  std::string body = request.body;
  std::ranges::replace(body, '\n', ' ');
  std::string answer = server.answer(body);
  if (answer.empty()) return {"202 Accepted"};
  return {"200 OK", "Content-Type: application/json\r\n", std::move(answer)};
}

void serve(int connection, const std::string& token, McpServer& server) {
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPiece, sizeof kPiece);
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPiece, sizeof kPiece);
  McpReply answer;
  if (const auto request = read_request(connection, answer)) answer = answered(*request, token, server);
  if (answer.status.empty()) return;
  const std::string text = fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}",
                                       answer.status, answer.body.size(), answer.more, answer.body);
  // A client that left has no use for it.
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

}  // namespace

Result<std::unique_ptr<McpHttp>> McpHttp::open(uint16_t port, std::string token) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool listens = listener && ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                       ::bind(listener.get(), any, size) == 0 && ::listen(listener.get(), 16) == 0 &&
                       ::getsockname(listener.get(), any, &size) == 0;
#ifdef TCP_DEFER_ACCEPT
  // Requests are answered in turn: a client that sends nothing must not have one.
  const int silent_s = 60;
  if (listens) ::setsockopt(listener.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_s, sizeof silent_s);
#endif
  if (!listens)
    return Error{fmt::format("cannot listen on 127.0.0.1:{}: {}", port, std::strerror(errno)),
                 "choose another port, or 0 for a free one"};
  return std::unique_ptr<McpHttp>(new McpHttp(std::move(listener), ntohs(address.sin_port), std::move(token)));
}

std::string McpHttp::url() const { return fmt::format("http://127.0.0.1:{}/mcp", port_); }

Status McpHttp::run(McpServer& server) {
  for (;;) {
    const Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) serve(connection.get(), token_, server);
    else if (errno != EINTR && errno != ECONNABORTED) return Error{fmt::format("accept: {}", std::strerror(errno))};
  }
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  std::string token;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace profgpu
