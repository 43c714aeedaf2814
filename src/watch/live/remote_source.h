// Exporters of other machines, ours or dcgm-exporter, as a LiveSource.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "watch/exporter/http_client.h"
#include "watch/live/live_view.h"

namespace profgpu {

/// "node1", "node1:9400", "[::1]:9400", "https://user:password@node1:9400/metrics". The default port is 9400, the
/// default path /metrics. The error is a usage error.
Result<HttpUrl> remote_address(std::string_view text);

struct RemoteSourceOptions {
  std::vector<HttpUrl> addresses;           ///< at least one
  int64_t interval_ns = 1'000'000'000;
  std::string program;                      ///< see http_call()
};

/// A thread per host polls it at each interval, and waits for at most that long or two seconds. A host that does not
/// answer keeps its last known devices; LiveHost::trouble says since when. No device is shown before each host has
/// answered or failed once; devices found later come after the others.
class RemoteSource final : public LiveSource {
 public:
  explicit RemoteSource(RemoteSourceOptions options);
  ~RemoteSource() override;

  void start(std::function<void()> news) override;
  LiveView view() override;
  /// Each host has answered, or failed once.
  [[nodiscard]] bool complete() const override;
  bool stop() override;
  [[nodiscard]] int64_t interval_ns() const override;
  void set_interval(int64_t interval_ns) override;

 private:
  struct State;
  std::shared_ptr<State> state_;   // threads that wait for the network keep it
};

}  // namespace profgpu
