// The client over plain connections or TLS, without the TLS part. For the two files that instantiate it.
#pragma once

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "base/version.h"
#include "watch/exporter/http_client.h"

namespace profgpu::calling {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Code = beast::error_code;

/// One request and its answer. Stream is a tcp_stream, or TLS over one.
template <class Stream>
class Exchange {
 public:
  template <class... More>
  explicit Exchange(const HttpCall& call, asio::io_context& io, More&... more)
      : call_(call), io_(io), stream_(io, more...) {
    request_.method(call.body.empty() ? http::verb::get : http::verb::post);
    request_.version(11);
    request_.target(call.url.target);
    request_.set(http::field::host, call.url.authority());
    request_.set(http::field::user_agent, fmt::format("profgpu/{}", kVersion));
    request_.set(http::field::connection, "close");
    if (!call.accept.empty()) request_.set(http::field::accept, call.accept);
    if (!call.url.authorization.empty()) request_.set(http::field::authorization, call.url.authorization);
    if (!call.content_type.empty()) request_.set(http::field::content_type, call.content_type);
    request_.body() = call.body;
    request_.prepare_payload();
    parser_.body_limit(call.most_bytes);
  }

  Stream& stream() { return stream_; }

  Result<HttpAnswer> run() {
    tcp::resolver resolver(io_);
    Code error;
    const auto found = resolver.resolve(call_.url.host, call_.url.port, error);
    if (error) return Error{fmt::format("{}: {}", call_.url.host, error.message())};
    beast::get_lowest_layer(stream_).expires_after(call_.limit);
    beast::get_lowest_layer(stream_).async_connect(found, [this](Code e, const tcp::endpoint&) { on_connect(e); });
    io_.run();
    if (!problem_.empty()) return Error{problem_};
    HttpAnswer answer;
    answer.status = parser_.get().result_int();
    const auto type = parser_.get()[http::field::content_type];
    answer.content_type.assign(type.data(), type.size());
    answer.body = std::move(parser_.get().body());
    return answer;
  }

 private:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  void fail(std::string_view when, const Code& error) {
    const bool late = error == beast::error::timeout;
    problem_ = late ? fmt::format("no answer within {:g} s", std::chrono::duration<double>(call_.limit).count())
                    : fmt::format("{}: {}", when, error.message());
  }
  void on_connect(Code error) {
    if (error) return fail("cannot connect", error);
    if constexpr (kTls) {
      stream_.async_handshake(Stream::client, [this](Code e) { e ? fail("TLS", e) : write(); });
    } else {
      write();
    }
  }
  void write() {
    http::async_write(stream_, request_, [this](Code error, size_t) { error ? fail("the request", error) : read(); });
  }
  void read() {
    http::async_read_header(stream_, buffer_, parser_,
                            [this](Code error, size_t) { error ? fail("the answer", error) : read_body(); });
  }
  void read_body() {
    // Beast checks the announced length only of requests.
    if (parser_.content_length().value_or(0) > call_.most_bytes)
      return fail("the answer", http::make_error_code(http::error::body_limit));
    http::async_read(stream_, buffer_, parser_, [this](Code error, size_t) {
      if (error) fail("the answer", error);
      beast::get_lowest_layer(stream_).close();
    });
  }

  const HttpCall& call_;
  asio::io_context& io_;
  Stream stream_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  beast::flat_buffer buffer_{256 << 10};  // bounds what Beast has no limit for: the trailer behind the last chunk
  std::string problem_;
};

}  // namespace profgpu::calling
