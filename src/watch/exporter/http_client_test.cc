#include "watch/exporter/http_client.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "watch/exporter/http_server.h"

namespace profgpu {
namespace {

using namespace std::chrono_literals;

HttpUrl url_of(const std::string& text) {
  auto url = parse_http_url(text);
  EXPECT_TRUE(url) << text;
  return url ? *url : HttpUrl{};
}

TEST(HttpUrl, Parts) {
  const HttpUrl plain = url_of("http://node1");
  EXPECT_FALSE(plain.tls);
  EXPECT_EQ(plain.host, "node1");
  EXPECT_EQ(plain.port, "80");
  EXPECT_EQ(plain.target, "/");
  const HttpUrl whole = url_of("https://me:secret@[::1]:8443/a/b?c=d#e");
  EXPECT_TRUE(whole.tls);
  EXPECT_EQ(whole.host, "::1");
  EXPECT_EQ(whole.port, "8443");
  EXPECT_EQ(whole.target, "/a/b?c=d");
  EXPECT_EQ(whole.authorization, "Basic bWU6c2VjcmV0");
  EXPECT_EQ(whole.text(), "https://[::1]:8443/…") << "without the password and the path";
  EXPECT_EQ(url_of("http://user:p%2Fw%40x@h").authorization, "Basic dXNlcjpwL3dAeA==") << "user:p/w@x";
  EXPECT_EQ(url_of("https://h?x=1").target, "/?x=1");
  EXPECT_EQ(url_of("https://h").text(), "https://h/");
}

TEST(HttpUrl, WhatIsNone) {
  for (const std::string text :
       {"", "node1", "ftp://h/", "http://", "http:///x", "http://h:0/", "http://h:99999/", "http://h:x/",
        "http://[::1/", "http://[::1]x/", "http://h/a b", "http://h/\r\nX: y", "http://:80/",
        "http://u:p%2@h/", "http://u:p%zz@h/", "http://u:p%@h/"})
    EXPECT_FALSE(parse_http_url(text)) << text;
}

class HttpCallTest : public testing::Test {
 protected:
  void serve(HttpServer::Handler handler) {
    auto opened = HttpServer::open("127.0.0.1:0", {}, "");
    ASSERT_TRUE(opened);
    server_ = *std::move(opened);
    thread_ = std::thread([this, handler] { server_->run(handler); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->stop();
    thread_.join();
  }
  Result<HttpAnswer> get(const std::string& path) {
    HttpCall call;
    call.url = url_of(server_->url() + path);
    call.most_bytes = 1000;
    return http_call(call, "");
  }
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpCallTest, AnswersComeWhole) {
  serve([](const HttpRequest& request) {
    HttpReply reply;
    reply.status = request.path == "/no" ? 404 : 200;
    reply.body = std::make_shared<const std::string>(request.path == "/big" ? std::string(2000, 'x')
                                                                            : std::string(request.path));
    return reply;
  });
  auto answer = get("/some/page");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200U);
  EXPECT_EQ(answer->body, "/some/page");
  EXPECT_EQ(answer->content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(get("/no")->status, 404U);
  EXPECT_FALSE(get("/big")) << "longer than was asked for";
}

TEST_F(HttpCallTest, NobodyThere) {
  HttpCall call;
  call.url = url_of("http://127.0.0.1:1/");
  auto answer = http_call(call, "");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "cannot connect: Connection refused");
  call.url = url_of("http://nowhere.invalid/");
  answer = http_call(call, "");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message.substr(0, 16), "nowhere.invalid:");
}

TEST_F(HttpCallTest, WhoDoesNotAnswerIsNotWaitedForLong) {
  std::promise<void> given_up;
  serve([late = given_up.get_future().share()](const HttpRequest&) {
    late.wait();
    HttpReply reply;
    reply.body = std::make_shared<const std::string>("late");
    return reply;
  });
  HttpCall call;
  call.url = url_of(server_->url());
  call.limit = 200ms;
  auto answer = http_call(call, "");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "no answer within 0.2 s");
  given_up.set_value();
}

TEST_F(HttpCallTest, WithoutTheComponentThereIsNoTls) {
  HttpCall call;
  call.url = url_of("https://127.0.0.1:1/");
  auto answer = http_call(call, "/nowhere/profgpu");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message.substr(0, 4), "TLS:");
}

}  // namespace
}  // namespace profgpu
