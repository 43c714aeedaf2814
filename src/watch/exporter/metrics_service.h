// The exporter without its server: samples devices in the background and answers requests from memory. No request calls
// a driver or waits for one.
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

/// The jobs of a batch system on each device.
class DeviceJobs {
 public:
  /// `mapping`: a folder, written by a prolog as for dcgm-exporter, with a file for each device that has jobs, named
  /// "0" or, for a MIG instance, "0.7" (GPU and instance); each line is a job. Empty: use the processes' control group
  /// or SLURM_JOB_ID.
  explicit DeviceJobs(std::string mapping) : mapping_(std::move(mapping)) {}

  /// Sorted, without duplicates. Reads files of /proc: not for the sampler's thread.
  std::vector<std::string> look(const DeviceInfo& info, const std::vector<ProcessSample>& processes);

 private:
  std::string mapping_;
  HostProcesses host_;
};

struct MetricsServiceOptions {
  int64_t interval_ns = 1'000'000'000;
  std::vector<uint32_t> devices;  ///< indices
  std::string host;               ///< for the label; empty: none
  DcgmNames names = DcgmNames::kClassic;
  DcgmCounters counters;
  std::string job_mapping;     ///< see DeviceJobs
  std::string kubelet_socket;  ///< empty: no pods
  bool shared_pods = false;    ///< see MetricsPageInput
};

class MetricsService {
 public:
  /// `tell` gets one line whenever a device fails or recovers, on a thread of ours.
  MetricsService(std::shared_ptr<Backend> backend, MetricsServiceOptions options,
                 std::function<void(const std::string&)> tell);
  ~MetricsService();
  MetricsService(const MetricsService&) = delete;
  MetricsService& operator=(const MetricsService&) = delete;

  void start();
  /// Leaves a thread in a driver that hangs; any_stuck() is then true, and the program should leave by std::_Exit.
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
