// Which pods are on which devices, asked of the node's kubelet again and again.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

// One gRPC request without parameters over a unix socket: HTTP/2 by libnghttp2.

struct GrpcCall {
  std::string socket;                      ///< its path, of less than kLongestSocketPath bytes
  std::string method;                      ///< "/v1.PodResourcesLister/List"
  std::chrono::milliseconds limit{5'000};  ///< for all of it
  size_t most_bytes = 16 << 20;            ///< of the answer
};
constexpr size_t kLongestSocketPath = 108;  ///< sockaddr_un's, with a byte for its end

/// The answer's message. Waits, no longer than about a tenth of a second after `stop`. A program that was built without
/// libnghttp2 has no other answer than an error that says so.
Result<std::string> grpc_call(const GrpcCall& call, const std::stop_token& stop);

// Which containers of Kubernetes' pods were given which devices, as the kubelet's list of pods says.

/// A container that was given a device.
struct PodContainer {
  std::string name_space, pod, container;
  std::string share;  ///< "3" of a device that is shared out as "GPU-…::3"; empty: all of it, or not told apart
  auto operator<=>(const PodContainer&) const = default;
};
/// By device; of each in order, each once.
using PodsByDevice = std::vector<std::vector<PodContainer>>;

class PodResources {
 public:
  /// `sys`: where sysfs is, for the numbers of Intel's cards.
  PodResources(const std::vector<DeviceInfo>& devices, const std::string& sys);

  /// `list`: v1.ListPodResourcesResponse. Devices are found by their ids alone, whatever the resource is called.
  [[nodiscard]] Result<PodsByDevice> read(std::string_view list) const;

 private:
  struct Grant;
  void add(const Grant& grant, PodsByDevice& pods) const;

  size_t count_;
  std::multimap<std::string, size_t, std::less<>> positions_;  // by what device plugins call a device
};

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
