// Which pods are on which devices, asked of the node's kubelet again and again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "watch/exporter/pod_resources.h"

namespace profgpu {

/// What the kubelet said, and whether it still says anything. Times are Unix time; 0: never.
class KubeletAnswers {
 public:
  /// An answer, or why there is none. Returns a line for people when that is news.
  std::string take(Result<PodsByDevice> answer, int64_t now_ns);
  /// There is no socket: news only if there was one.
  std::string take_absence(const std::string& socket, int64_t now_ns);

  /// Nullptr once the last answer is too old to be true.
  [[nodiscard]] const PodsByDevice* pods(int64_t now_ns) const;
  [[nodiscard]] bool up() const { return good_at_ns_ != 0 && trouble_.empty(); }
  [[nodiscard]] int64_t good_at_ns() const { return good_at_ns_; }
  /// "does not answer within 5 s, for 37 s"; empty: none.
  [[nodiscard]] std::string trouble(int64_t now_ns) const;

 private:
  PodsByDevice pods_;
  int64_t good_at_ns_ = 0, trouble_since_ns_ = 0;
  std::string trouble_;
};

class KubeletPods {
 public:
  /// `devices` outlive it. `tell` gets the news, on a thread of ours.
  KubeletPods(std::string socket, const std::vector<DeviceInfo>& devices, int64_t interval_ns,
              std::function<void(const std::string&)> tell);

  void start();
  void stop();
  [[nodiscard]] KubeletAnswers answers() const;

 private:
  void ask(const std::stop_token& stop);

  const std::string socket_;
  const PodResources resources_;
  const int64_t interval_ns_;
  const std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  KubeletAnswers answers_;  // by mutex_
  std::jthread asker_;      // ends before what it uses
};

}  // namespace profgpu
