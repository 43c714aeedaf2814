// The exporter without its server: samples devices in the background and answers requests from what is known by then.
// No request reaches a driver or waits for one.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "devices/host_process.h"
#include "devices/sampler.h"
#include "trace/sample.h"
#include "watch/exporter/device_tally.h"
#include "watch/exporter/http_server.h"
#include "watch/exporter/kubelet_pods.h"
#include "watch/exporter/metrics_page.h"

namespace profgpu {

// Which jobs of a batch system are on which device.

class DeviceJobs {
 public:
  /// `mapping`: a folder with one file for each device that has jobs, named "0" or, for a MIG instance, "0.7" (GPU and
  /// instance); each line is a job. A prolog writes it; dcgm-exporter reads the same. Empty: jobs are those of the
  /// processes, by their control group or SLURM_JOB_ID in their environment.
  explicit DeviceJobs(std::string mapping) : mapping_(std::move(mapping)) {}

  /// In order, each once. Reads files of /proc: not for the sampler's thread.
  std::vector<std::string> look(const DeviceInfo& info, const std::vector<ProcessSample>& processes);

 private:
  std::string mapping_;
  HostProcesses host_;
};

struct MetricsServiceOptions {
  int64_t interval_ns = 1'000'000'000;
  std::vector<uint32_t> devices;  ///< positions
  std::string host;               ///< for the label; empty: none
  DcgmNames names = DcgmNames::kClassic;
  DcgmCounters counters;
  std::string job_mapping;     ///< see DeviceJobs
  std::string kubelet_socket;  ///< empty: the kubelet is not asked for pods
  bool shared_pods = false;    ///< see MetricsPageInput
};

class MetricsService {
 public:
  /// `tell` gets one line whenever a device gets into trouble or out of it, on a thread of ours.
  MetricsService(std::shared_ptr<Backend> backend, MetricsServiceOptions options,
                 std::function<void(const std::string&)> tell);
  ~MetricsService();
  MetricsService(const MetricsService&) = delete;
  MetricsService& operator=(const MetricsService&) = delete;

  void start();
  /// A driver that hangs is left behind; any_stuck() is then true and the program should leave by std::_Exit.
  void stop();
  [[nodiscard]] bool any_stuck() const { return sampler_.any_stuck(); }

  /// For one thread.
  HttpReply answer(const HttpRequest& request, const HttpFigures& figures);

 private:
  struct CachedPage {
    std::shared_ptr<const std::string> plain, gzipped;
    int64_t readings = -1, made_ns = 0;  // monotonic
  };
  HttpReply metrics(const HttpRequest& request, const HttpFigures& figures);
  HttpReply health() const;
  HttpReply readiness() const;
  [[nodiscard]] MetricsPageInput page_input(const HttpFigures& figures) const;
  void watch();
  void look_for_jobs();

  std::shared_ptr<Backend> backend_;
  const MetricsServiceOptions options_;
  const std::function<void(const std::string&)> tell_;
  DeviceTallies tallies_;
  Sampler sampler_;
  DeviceJobs device_jobs_;
  std::optional<KubeletPods> kubelet_;
  const int64_t start_ns_;
  int64_t scrapes_ = 0;
  std::array<CachedPage, 2> pages_;  // by ExpositionFormat

  mutable std::mutex mutex_;  // all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<std::vector<std::string>> jobs_;  // by device
  std::thread watcher_;
};

}  // namespace profgpu
