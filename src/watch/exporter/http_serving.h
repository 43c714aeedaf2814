// The server over plain connections or TLS, without the TLS part. For the two files that instantiate it: Boost takes
// half a minute to compile.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <list>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/version.h"
#include "watch/exporter/http_client.h"
#include "watch/exporter/http_server.h"

namespace profgpu::serving {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Code = beast::error_code;
using Clock = std::chrono::steady_clock;

// A connection idle for this long may be closed for a new one.
constexpr std::chrono::milliseconds kGrace{1000}, kRetry{50};
constexpr int kMaxChecks = 8;  // of passwords, at a time

class Session {
 public:
  virtual ~Session() = default;
  virtual void start() = 0;
  virtual void close() = 0;
  Clock::time_point active = Clock::now();  ///< when it last made progress
};

/// Whether "HOST:PORT" is localhost, this machine's own name, or an address, which no other site's page can have.
inline bool is_of_this_machine(std::string_view authority) {
  const size_t colon = authority.find(':', authority.find(']') == authority.npos ? 0 : authority.find(']'));
  std::string name = lower_case(authority.substr(0, colon));
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  Code error;
  asio::ip::make_address(name, error);
  if (!error || name == "localhost" || name.ends_with(".localhost")) return true;
  const std::string own = lower_case(asio::ip::host_name(error));
  return !name.empty() && (name == own || name == own.substr(0, own.find('.')));
}

struct Shared {
  HttpLimits limits;
  WebConfig config;
  Credentials credentials;
  HttpServer::Handler handler;
  std::optional<asio::thread_pool> checker;  ///< checks passwords, which is slow
  int checks = 0;
  std::list<std::weak_ptr<Session>> sessions;
  bool local = true;  ///< only this machine's own addresses are listened on
  std::atomic<int64_t> connections{0}, refused{0};

  explicit Shared(HttpLimits l, WebConfig c) : limits(l), config(std::move(c)), credentials(config.users) {
    if (credentials.needed()) checker.emplace(1);
  }
};

/// One connection. Stream is a tcp_stream, or TLS over one.
template <class Stream>
class Connection final : public Session, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <class... More>
  Connection(Shared& shared, tcp::socket socket, More&... more) : shared_(shared), stream_(std::move(socket), more...) {
    shared_.connections.fetch_add(1, std::memory_order_relaxed);
  }
  ~Connection() override { shared_.connections.fetch_sub(1, std::memory_order_relaxed); }

  void start() override {
    tcp_stream().expires_after(shared_.limits.request_time);
    if constexpr (kTls) {
      stream_.async_handshake(Stream::server, [self = this->shared_from_this()](Code error) {
        if (!error) self->read(self->shared_.limits.request_time);
      });
    } else {
      read(shared_.limits.request_time);
    }
  }
  void close() override { tcp_stream().close(); }

 private:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;
  using Reply = http::response<http::span_body<const char>>;

  beast::tcp_stream& tcp_stream() { return beast::get_lowest_layer(stream_); }

  void read(std::chrono::seconds patience) {
    parser_.emplace();
    parser_->header_limit(shared_.limits.header_bytes);
    tcp_stream().expires_after(patience);
    http::async_read_header(stream_, buffer_, *parser_, [self = this->shared_from_this()](Code error, size_t) {
      self->active = Clock::now();
      self->on_header(error);
    });
  }

  void on_header(Code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return refuse(431, "the header is too long\n");
    if (error && error.category() == make_error_code(http::error::bad_version).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return refuse(400, "not an HTTP request\n");
    if (error == http::error::end_of_stream) return shut_down();
    if (error) return;  // the time is up, or the client has left
    const auto& request = parser_->get();
    // An unread body would be taken for the next request, also one in an encoding that Beast does not know.
    if (request.find(http::field::transfer_encoding) != request.end() || parser_->content_length().value_or(0) != 0)
      return refuse(413, "requests must have no body\n");
    if (request.method() != http::verb::get && request.method() != http::verb::head)
      return refuse(405, "only GET and HEAD are supported\n");
    if (const auto hosts = request.count(http::field::host); hosts > 1 || (hosts == 0 && request.version() == 11))
      return refuse(400, "HTTP/1.1 requires one host\n");
    if (shared_.local && !shared_.credentials.needed() && is_of_another_site())
      return refuse(403, "ask for localhost, this machine's name or an address; or listen on all interfaces\n");
    if (shared_.credentials.needed() && !shared_.credentials.known(authorization())) return check_password();
    answer();
  }

  [[nodiscard]] std::string_view header(http::field field) const {
    const auto value = parser_->get()[field];
    return {value.data(), value.size()};
  }
  // A browser on this machine reaches us for any site whose name its owner has bound to 127.0.0.1, and sends that name.
  [[nodiscard]] bool is_of_another_site() const {
    const auto& request = parser_->get();
    const std::string_view origin = header(http::field::origin);
    const size_t scheme = origin.find("://");
    if (request.find(http::field::host) != request.end() && !is_of_this_machine(header(http::field::host))) return true;
    return !origin.empty() && (scheme == origin.npos || !is_of_this_machine(origin.substr(scheme + 3)));
  }
  // Proxies send "http://host/metrics".
  static std::string_view path_of(std::string_view target) {
    const size_t scheme = target.find("://");
    if (target.starts_with('/') || scheme == target.npos) return target;
    const size_t path = target.find_first_of("/?", scheme + 3);
    return path == target.npos || target[path] == '?' ? "/" : target.substr(path);
  }
  [[nodiscard]] std::string_view authorization() const { return header(http::field::authorization); }

  void check_password() {
    if (authorization().empty()) return refuse(401, "user name and password required\n");
    if (shared_.checks >= kMaxChecks) return refuse(503, "too many passwords are being checked\n");
    ++shared_.checks;
    asio::post(*shared_.checker, [self = this->shared_from_this(), given = std::string(authorization())] {
      const bool right = self->shared_.credentials.check(given);
      asio::post(self->stream_.get_executor(), [self, right] {
        --self->shared_.checks;
        right ? self->answer() : self->refuse(401, "name or password is wrong\n");
      });
    });
  }

  void answer() {
    const auto target = parser_->get().target();
    const std::string_view whole = path_of({target.data(), target.size()});
    HttpRequest request{whole.substr(0, whole.find('?')), header(http::field::accept),
                        header(http::field::accept_encoding)};
    send(shared_.handler(request), parser_->get().keep_alive());
  }

  void refuse(unsigned status, const char* text) {
    send({status, "text/plain; charset=utf-8", std::make_shared<const std::string>(text), false}, false);
  }

  void send(HttpReply reply, bool keep_alive) {
    const auto& request = parser_->get();
    body_ = std::move(reply.body);
    reply_.emplace();
    reply_->version(request.version() == 10 ? 10 : 11);
    reply_->result(reply.status);
    reply_->set(http::field::server, std::string("profgpu/") + kVersion);
    reply_->set(http::field::content_type, beast::string_view(reply.content_type.data(), reply.content_type.size()));
    if (reply.gzipped) reply_->set(http::field::content_encoding, "gzip");
    if (reply.status == 200) reply_->set(http::field::vary, "Accept, Accept-Encoding");
    reply_->set("X-Content-Type-Options", "nosniff");
    if (reply.status == 401) reply_->set(http::field::www_authenticate, "Basic realm=\"profgpu\"");
    if (reply.status == 405) reply_->set(http::field::allow, "GET, HEAD");
    for (const auto& [name, value] : shared_.config.headers) reply_->set(name, value);
    reply_->keep_alive(keep_alive);
    reply_->body() = {body_->data(), body_->size()};
    reply_->content_length(body_->size());
    if (request.method() == http::verb::head) reply_->body() = {};
    tcp_stream().expires_after(shared_.limits.reply_time);
    serializer_.emplace(*reply_);
    http::async_write(stream_, *serializer_, [self = this->shared_from_this(), keep_alive](Code error, size_t) {
      self->active = Clock::now();
      self->body_.reset();
      if (error) return;
      if (!keep_alive) return self->shut_down();
      self->read(self->shared_.limits.idle_time);
    });
  }

  // Reads what the client still sends, or its kernel would discard our answer.
  void shut_down() {
    Code ignored;
    if constexpr (kTls) {
      tcp_stream().expires_after(std::chrono::seconds(2));
      stream_.async_shutdown([self = this->shared_from_this()](Code) {});
    } else {
      tcp_stream().socket().shutdown(tcp::socket::shutdown_send, ignored);
      tcp_stream().expires_after(std::chrono::seconds(2));
      drain();
    }
  }
  void drain() {
    buffer_.clear();
    tcp_stream().async_read_some(buffer_.prepare(4096), [self = this->shared_from_this()](Code error, size_t bytes) {
      self->drained_ += bytes;
      if (!error && self->drained_ < (64U << 10)) self->drain();
    });
  }

  Shared& shared_;
  Stream stream_;
  beast::flat_buffer buffer_{64 << 10};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<Reply> reply_;
  std::optional<http::response_serializer<http::span_body<const char>>> serializer_;
  std::shared_ptr<const std::string> body_;
  size_t drained_ = 0;
};

class Server : public HttpServer {
 public:
  Server(WebConfig config, HttpLimits limits) : shared_(limits, std::move(config)) {}
  ~Server() override { shared_.checker.reset(); }  // pending checks hold connections of io_

  Status listen(const std::string& where);
  [[nodiscard]] std::string url() const override { return url_; }
  void run(Handler handler) override;
  void stop() override { io_.stop(); }
  [[nodiscard]] HttpFigures figures() const override { return {shared_.connections.load(), shared_.refused.load()}; }

 protected:
  virtual std::shared_ptr<Session> session_of(Shared& shared, tcp::socket socket) = 0;

 private:
  struct Listener {
    tcp::acceptor acceptor;
    asio::steady_timer pause;
  };
  Status listen_on(const tcp::endpoint& endpoint);
  void accept(Listener& listener);
  void later(Listener& listener);
  bool make_room();
  void welcome(tcp::socket socket);

  Shared shared_;  // before io_, which destroys connections that use it
  asio::io_context io_{1};
  std::list<Listener> listeners_;
  std::string url_;
};

inline Status Server::listen_on(const tcp::endpoint& endpoint) {
  Code error;
  Listener& listener = listeners_.emplace_back(Listener{tcp::acceptor(io_), asio::steady_timer(io_)});
  listener.acceptor.open(endpoint.protocol(), error);
  if (!error) listener.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  const bool everywhere = endpoint.address().is_v6() && endpoint.address().is_unspecified();
  if (!error && endpoint.address().is_v6()) listener.acceptor.set_option(asio::ip::v6_only(!everywhere), error);
  if (!error) listener.acceptor.bind(endpoint, error);
  if (!error) listener.acceptor.listen(1024, error);
  if (!error) {
    shared_.local &= endpoint.address().is_loopback();
    return ok();
  }
  listeners_.pop_back();
  std::string hint;
  if (error == asio::error::address_in_use) hint = "is another exporter running? --listen takes another port";
  if (error == asio::error::access_denied) hint = "ports below 1024 are for root";
  if (error.value() == EADDRNOTAVAIL) hint = "no interface of this machine has that address";
  return Error{
      fmt::format("cannot listen on {}:{}: {}", endpoint.address().to_string(), endpoint.port(), error.message()),
      hint};
}

// "[::1]:9400" → "::1", 9400. Empty: all interfaces.
inline Result<std::pair<std::string, uint16_t>> address_of(const std::string& where) {
  const Error wrong{"\"" + where + "\" is not ADDRESS:PORT", "127.0.0.1:9400, [::1]:9400, or :9400 for all interfaces"};
  const size_t colon = where.rfind(':');
  const auto port = colon == where.npos ? std::nullopt : port_number(where.substr(colon + 1));
  std::string address = where.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  else if (address.find(':') != address.npos) return wrong;
  if (!port) return wrong;
  return std::pair(address, *port);
}

inline Status Server::listen(const std::string& where) {
  auto address = address_of(where);
  if (!address) return address.error();
  auto [host, port] = *address;
  std::vector<tcp::endpoint> endpoints;
  if (host.empty()) {
    if (!listen_on({tcp::v6(), port})) endpoints = {{tcp::v4(), port}};  // a machine without IPv6
  } else {
    Code error;
    tcp::resolver resolver(io_);
    for (const auto& found : resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error))
      endpoints.push_back(found.endpoint());
    if (error)
      return Error{fmt::format("{} is not an address: {}", host, error.message()),
                   "127.0.0.1:9400, or :9400 for all interfaces"};
  }
  Status problem = ok();
  for (tcp::endpoint endpoint : endpoints) {
    if (endpoint.port() == 0 && !listeners_.empty()) endpoint.port(listeners_.front().acceptor.local_endpoint().port());
    if (Status s = listen_on(endpoint); !s && problem) problem = s;
  }
  // A name may have an address that this machine lacks: localhost without IPv6.
  if (listeners_.empty()) return problem;
  const auto local = listeners_.front().acceptor.local_endpoint();
  const std::string shown = host.empty()             ? "0.0.0.0"
                            : local.address().is_v6() ? "[" + local.address().to_string() + "]"
                                                      : local.address().to_string();
  url_ = fmt::format("{}://{}:{}", shared_.config.tls ? "https" : "http", shown, local.port());
  return ok();
}

// Whether there is room for one more connection.
inline bool Server::make_room() {
  auto& sessions = shared_.sessions;
  sessions.remove_if([](const auto& s) { return s.expired(); });
  if (sessions.size() < shared_.limits.connections) return true;
  std::shared_ptr<Session> oldest;
  for (const auto& weak : sessions)
    if (auto s = weak.lock(); s && (!oldest || s->active < oldest->active)) oldest = s;
  if (!oldest || Clock::now() - oldest->active < kGrace) return false;
  oldest->active = Clock::now();
  oldest->close();
  shared_.refused.fetch_add(1, std::memory_order_relaxed);
  return true;
}

inline void Server::later(Listener& listener) {
  listener.pause.expires_after(kRetry);
  listener.pause.async_wait([this, &listener](Code error) {
    if (!error) accept(listener);
  });
}

inline void Server::accept(Listener& listener) {
  if (!make_room()) return later(listener);
  listener.acceptor.async_accept([this, &listener](Code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return later(listener);  // no file descriptors left, or the client has already gone
    welcome(std::move(socket));
    accept(listener);
  });
}

inline void Server::welcome(tcp::socket socket) {
  Code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  std::shared_ptr<Session> session = session_of(shared_, std::move(socket));
  shared_.sessions.push_back(session);
  session->start();
}

inline void Server::run(Handler handler) {
  shared_.handler = std::move(handler);
  asio::signal_set signals(io_, SIGTERM, SIGINT);
  signals.async_wait([this](Code error, int) {
    if (!error) io_.stop();
  });
  for (Listener& listener : listeners_) accept(listener);
  io_.run();
  for (Listener& listener : listeners_) listener.acceptor.close();
}

}  // namespace profgpu::serving
