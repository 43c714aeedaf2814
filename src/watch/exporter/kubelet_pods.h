// Which pods have which devices, polled from the node's kubelet.
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

/// The answer's message. Blocks, until about a tenth of a second after `stop`. Always an error if the program was built
/// without libnghttp2.
Result<std::string> grpc_call(const GrpcCall& call, const std::stop_token& stop);

// Which containers have which devices, according to the kubelet's list of pods.

/// A container with a device.
struct PodContainer {
  std::string name_space, pod, container;
  std::string share;  ///< "3" of a device that is shared as "GPU-…::3"; empty: all of it, or shares have no ids
  auto operator<=>(const PodContainer&) const = default;
};
/// By device; sorted, without duplicates.
using PodsByDevice = std::vector<std::vector<PodContainer>>;

class PodResources {
 public:
  /// `sys`: where sysfs is, for the numbers of Intel's cards.
  PodResources(const std::vector<DeviceInfo>& devices, const std::string& sys);

  /// `list`: v1.ListPodResourcesResponse. Finds devices by their ids alone, whatever the resource's name.
  [[nodiscard]] Result<PodsByDevice> read(std::string_view list) const;

 private:
  struct Grant;
  void add(const Grant& grant, PodsByDevice& pods) const;

  size_t count_;
  std::multimap<std::string, size_t, std::less<>> positions_;  // by ids in device plugins
};

/// The kubelet's last answer, and whether it still answers. Times are Unix time; 0: never.
class KubeletAnswers {
 public:
  /// An answer, or why there is none. Returns a message when that is news.
  std::string take(Result<PodsByDevice> answer, int64_t now_ns);
  /// There is no socket: news only if there was one.
  std::string take_absence(const std::string& socket, int64_t now_ns);

  /// Null once the last answer is out of date.
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
  /// `devices` must outlive it. `tell` gets messages, on a thread of ours.
  KubeletPods(std::string socket, const std::vector<DeviceInfo>& devices, int64_t interval_ns,
              std::function<void(const std::string&)> tell);

  void start();
  void stop();
  [[nodiscard]] KubeletAnswers answers() const;

 private:
  void poll(const std::stop_token& stop);

  const std::string socket_;
  const PodResources resources_;
  const int64_t interval_ns_;
  const std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  KubeletAnswers answers_;  // by mutex_
  std::jthread poller_;     // ends before what it uses
};

}  // namespace profgpu
