#include "watch/live/remote_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "watch/exporter/http_server.h"

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000;

std::string shown(std::string_view text) {
  auto address = remote_address(text);
  return address ? address->text() : "";
}

TEST(RemoteAddress, AsPeopleTypeIt) {
  EXPECT_EQ(shown("node1"), "http://node1:9400/…");
  EXPECT_EQ(shown("node1:9401"), "http://node1:9401/…");
  EXPECT_EQ(shown("[::1]"), "http://[::1]:9400/…");
  EXPECT_EQ(shown("[::1]:80"), "http://[::1]/…");
  EXPECT_EQ(shown("me:secret@node1"), "http://node1:9400/…");
  EXPECT_EQ(shown("https://node1"), "https://node1/…");
  EXPECT_EQ(shown("http://node1:1/gpu?x=1"), "http://node1:1/…");
  for (const char* wrong : {"", "node 1", "node1:", "node1:x", "ftp://node1"}) EXPECT_EQ(shown(wrong), "") << wrong;
}

/// An exporter whose page can be changed while it runs.
class FakeExporter {
 public:
  explicit FakeExporter(std::string page) { open("127.0.0.1:0", std::move(page)); }
  ~FakeExporter() { close(); }
  void say(std::string page, unsigned status = 200) {
    const std::lock_guard lock(mutex_);
    page_ = std::move(page);
    status_ = status;
  }
  void close() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  void open(const std::string& where, std::string page) {
    say(std::move(page));
    auto opened = HttpServer::open(where, {}, "");
    ASSERT_TRUE(opened) << opened.error().message;
    server_ = *std::move(opened);
    url_ = server_->url();
    thread_ = std::thread([this] {
      server_->run([this](const HttpRequest&) {
        const std::lock_guard lock(mutex_);
        HttpReply reply;
        reply.status = status_;
        reply.body = std::make_shared<const std::string>(page_);
        return reply;
      });
    });
  }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] std::string where() const { return url_.substr(url_.rfind('/') + 1); }

 private:
  std::mutex mutex_;
  std::string page_, url_;
  unsigned status_ = 200;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

std::string page(const std::string& host, int gpus, double power) {
  std::string text;
  for (int i = 0; i < gpus; ++i) {
    const std::string labels = "{gpu=\"" + std::to_string(i) + "\",uuid=\"GPU-" + host + std::to_string(i) +
                               "\",model=\"H100\",host=\"" + host + "\"}";
    text += "profgpu_device_up" + labels + " 1\nprofgpu_power_watts" + labels + " " + std::to_string(power) + "\n";
  }
  return text;
}

class RemoteSourceTest : public testing::Test {
 protected:
  void watch(const std::vector<std::string>& addresses) {
    RemoteSourceOptions options;
    for (const std::string& a : addresses) options.addresses.push_back(*remote_address(a));
    options.interval_ns = 20 * kMs;
    source_ = std::make_unique<RemoteSource>(std::move(options));
    source_->start([this] { ++news_; });
  }
  template <class True>
  LiveView wait_for(True is_true) {
    LiveView view;
    for (const int64_t end = monotonic_ns() + 60'000 * kMs; monotonic_ns() < end; ::usleep(5000))
      if (view = source_->view(); is_true(view)) return view;
    ADD_FAILURE() << "this never came";
    return view;
  }
  static std::optional<double> power(const LiveDevice& d) { return d.value(Metric::kPower); }

  std::atomic<int> news_{0};
  std::unique_ptr<RemoteSource> source_;
};

TEST_F(RemoteSourceTest, TwoHosts) {
  FakeExporter one(page("node1", 2, 100)), two(page("node2", 1, 200));
  watch({one.url(), two.url()});
  LiveView view = wait_for([](const LiveView& v) { return v.devices.size() == 3; });
  ASSERT_EQ(view.hosts.size(), 2U);
  EXPECT_EQ(view.hosts[0].name, "node1");
  EXPECT_EQ(view.hosts[1].name, "node2");
  EXPECT_FALSE(view.hosts[0].here);
  EXPECT_EQ(view.devices[2].host, 1U);
  EXPECT_EQ(power(view.devices[2]), 200);
  EXPECT_EQ(view.devices[1].info->uuid, "GPU-node11");
  EXPECT_EQ(view.devices[1].state, DeviceState::kOk);
  two.say(page("node2", 1, 300));
  view = wait_for([](const LiveView& v) { return power(v.devices[2]) == 300; });
  EXPECT_GT(view.devices[2].time_ns, 0);
  EXPECT_GT(news_, 2);
  EXPECT_FALSE(source_->stop());
}

TEST_F(RemoteSourceTest, TheIntervalChangesWhileItWaits) {
  FakeExporter one(page("node1", 1, 100));
  watch({one.url()});
  wait_for([](const LiveView& v) { return v.devices.size() == 1; });
  source_->set_interval(3600 * 1000 * kMs);
  ::usleep(100'000);   // what was under way has come
  one.say(page("node1", 1, 300));
  source_->set_interval(20 * kMs);
  wait_for([](const LiveView& v) { return power(v.devices[0]) == 300; });
}

TEST_F(RemoteSourceTest, AHostThatDiesAndComesBack) {
  FakeExporter one(page("node1", 1, 100)), two(page("node2", 1, 200));
  watch({one.url(), two.url()});
  wait_for([](const LiveView& v) { return v.devices.size() == 2; });
  two.close();
  LiveView view = wait_for([](const LiveView& v) { return !v.hosts[1].trouble.empty(); });
  EXPECT_EQ(view.hosts[1].trouble.substr(0, 14), "no news since ");
  EXPECT_NE(view.hosts[1].trouble.find("Connection refused"), std::string::npos) << view.hosts[1].trouble;
  ASSERT_EQ(view.devices.size(), 2U);
  EXPECT_EQ(view.devices[1].state, DeviceState::kNotAnswering);
  EXPECT_EQ(view.devices[0].state, DeviceState::kOk);
  EXPECT_TRUE(view.hosts[0].trouble.empty());
  two.open(two.where(), page("node2", 2, 250));
  view = wait_for([](const LiveView& v) { return v.devices.size() == 3; });
  EXPECT_EQ(power(view.devices[1]), 250) << "the same device at the same place";
  EXPECT_TRUE(view.hosts[1].trouble.empty());
}

TEST_F(RemoteSourceTest, WhatIsNoExporterSaysSo) {
  FakeExporter web("<html>"), secret("");
  secret.say("", 401);
  watch({web.url(), secret.url(), "127.0.0.1:1"});
  const LiveView view = wait_for([](const LiveView& v) {
    return std::none_of(v.hosts.begin(), v.hosts.end(), [](const LiveHost& h) { return h.trouble == "not polled yet"; });
  });
  EXPECT_EQ(view.hosts[0].trouble, "not the page of a GPU exporter");
  EXPECT_EQ(view.hosts[1].trouble, "wants a password: write USER:PASSWORD@ before the host's name");
  EXPECT_EQ(view.hosts[2].trouble, "cannot connect: Connection refused");
  EXPECT_EQ(view.hosts[2].name, "127.0.0.1");
  EXPECT_TRUE(view.devices.empty());
}

TEST_F(RemoteSourceTest, ADeviceThatLeavesThePageStaysAtItsPlace) {
  FakeExporter one(page("node1", 2, 100));
  watch({one.url()});
  wait_for([](const LiveView& v) { return v.devices.size() == 2; });
  one.say(page("node1", 1, 100));
  const LiveView view = wait_for([](const LiveView& v) { return v.devices[1].state != DeviceState::kOk; });
  EXPECT_EQ(view.devices[1].trouble, "no longer on the exporter's page");
  EXPECT_EQ(view.devices[0].state, DeviceState::kOk);
}

}  // namespace
}  // namespace profgpu
