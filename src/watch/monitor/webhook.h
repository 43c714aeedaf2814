// Alerts by HTTP POST, in the form of Alertmanager's webhooks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "watch/exporter/http_client.h"
#include "watch/monitor/alert_notice.h"

namespace profgpu {

/// A thread of its own posts one after the other. What is not taken (no connection, no answer, 429, 5xx) is tried again
/// after 1, 2, 4 ... 60 s until it is taken or too many wait; what is refused (4xx and redirections) is not.
class Webhook {
 public:
  /// `tell` gets a line when posting begins to fail and when it goes on, on the thread. `program`: see http_call().
  Webhook(HttpUrl url, std::chrono::milliseconds limit, std::string program,
          std::function<void(const std::string&)> tell);
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  /// Never waits. Of those that wait, the oldest gives way.
  void post(const AlertNotice& notice);
  /// Each that waits is tried once more, for so long; false: the thread still waits for the network and is left behind.
  bool finish(std::chrono::milliseconds patience);

  /// Posts at once, once.
  [[nodiscard]] Status post_now(const AlertNotice& notice) const;

  static constexpr size_t kMaxWaiting = 256;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;   // outlives us where the thread does
  std::thread thread_;
};

}  // namespace profgpu
