// Sample: one number that a device said at one time. Everything that watches devices passes these around.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/metric.h"

namespace profgpu {

struct Sample {
  int64_t time_ns = 0;     ///< Unix time at which the value held; the driver's own where it keeps one
  Metric metric{};
  double value = 0;        ///< in the unit of the metric; never a placeholder: what is unknown has no sample
  bool mean = false;       ///< of the time until the next, as measured; else that it held until then is an assumption
};

/// The container, pod and job that a process belongs to, by its control group; unknown ones are empty.
struct Placement {
  std::string container_runtime;            ///< "docker", "containerd", "cri-o", "podman", "lxc"
  std::string container;                    ///< the first twelve digits of its id, or its name
  std::string pod;                          ///< UID of the Kubernetes pod
  std::string slurm_job, slurm_step;        ///< "4711"; "0", "batch", "extern"
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// The owner of a process and what it is part of, as seen on its machine; unknown ones are empty.
struct ProcessOrigin : Placement {
  std::string user;                         ///< name; the number where it has none
  std::optional<int64_t> rank, world_size;
  friend bool operator==(const ProcessOrigin&, const ProcessOrigin&) = default;
};

/// What one process does on one device.
struct ProcessSample {
  int64_t pid = 0;                          ///< as the driver numbers it: outside of containers
  char type = 'C';                          ///< C compute, G graphics, M MPS client
  std::optional<int64_t> memory_bytes;
  std::optional<double> utilization_pct, memory_utilization_pct, encoder_pct, decoder_pct;
  std::string name;                         ///< only where the source has it (nvidia-smi, a replay)
  /// Only in recordings, else null; shared by the samples of one process.
  std::shared_ptr<const ProcessOrigin> origin;
};

/// What does not change while a program runs.
struct DeviceInfo {
  uint32_t index = 0;                       ///< as the vendor's own tool counts; a MIG instance has its GPU's
  std::string vendor;                       ///< "NVIDIA", "AMD", "Intel"
  std::string name;                         ///< "NVIDIA H200"
  std::string uuid;                         ///< "GPU-…", "MIG-…"; empty: unknown
  std::string pci_bus_id;                   ///< "00000000:0a:00.0", lower case, eight digits of domain; empty: unknown
  std::string driver_version;
  std::string mig_profile;                  ///< "3g.40gb"; empty: not a MIG instance
  std::optional<uint32_t> parent;           ///< of a MIG instance: the position of its GPU among the devices
  std::optional<uint32_t> gpu_instance, compute_instance;
  std::optional<int32_t> numa_node;
  std::vector<std::pair<Metric, double>> constants;  ///< limits and maxima; Metric::kMemoryTotal where it is known
  std::string host;                         ///< the machine that it is in, as recordings name it; empty: unknown

  /// "0", for a MIG instance "0:7" (GPU and GPU instance).
  [[nodiscard]] std::string label() const;
  /// "0 of node-b"; without a host as label().
  [[nodiscard]] std::string label_on_host() const;
  [[nodiscard]] std::optional<double> constant(Metric metric) const;
};

/// What one device said at one tick.
struct Reading {
  uint32_t device = 0;                      ///< position among the backend's devices
  int64_t time_ns = 0;                      ///< Unix time of the tick
  std::vector<Sample> samples;              ///< in no order; several of one metric where the driver kept them
  bool has_processes = false;               ///< false: processes were not asked this time
  std::vector<ProcessSample> processes;
  bool failed = false;                      ///< the device did not answer; what is here came before that, or without it

  void clear() { samples.clear(), processes.clear(), has_processes = failed = false; }
  void add(Metric metric, double value) { samples.push_back({time_ns, metric, value}); }
  void add(Metric metric, double value, int64_t at_ns, bool mean = false) {
    samples.push_back({at_ns, metric, value, mean});
  }
};

/// Samples of one metric of one device, in order of time.
struct SampleSeries {
  uint32_t device = 0;                      ///< position in SampleLog::devices
  Metric metric{};
  std::vector<int64_t> time_ns;
  std::vector<double> value;
  /// As the last sample up to then said; nullopt before the first.
  [[nodiscard]] std::optional<double> at(int64_t time) const;
};

/// Median distance between successive times, which are in order; 0 for fewer than two.
int64_t median_distance(const std::vector<int64_t>& times);
/// How long a sample holds where there is no other to tell how often they come.
constexpr int64_t kOneSampleHolds_ns = 1'000'000'000;

/// A log of samples in memory, as read from a file.
struct SampleLog {
  std::vector<DeviceInfo> devices;
  std::vector<SampleSeries> series;         ///< sorted by device, then metric
  struct ProcessRow {
    int64_t time_ns = 0;
    uint32_t device = 0;
    ProcessSample process;
  };
  std::vector<ProcessRow> processes;        ///< by device, then time
  struct ProcessTick {
    int64_t time_ns = 0;
    uint32_t device = 0;
  };
  std::vector<ProcessTick> process_ticks;   ///< when processes were asked, also where there were none; sorted alike
  struct Mark {
    int64_t time_ns = 0;
    std::string name;
  };
  std::vector<Mark> marks;                  ///< phases that a program named
  int64_t first_ns = 0, last_ns = 0;        ///< Unix time of the first and last tick
  int64_t ticks = 0;                        ///< rows read
  [[nodiscard]] bool empty() const { return devices.empty(); }
  [[nodiscard]] bool several_hosts() const;
  /// The device's label, with its host where there are several.
  [[nodiscard]] std::string label(uint32_t device) const;
  /// Null: no sample of it.
  [[nodiscard]] const SampleSeries* find(uint32_t device, Metric metric) const;
};

// Whose samples are whose, where there are several hosts.

/// Which devices of a log can be a rank's, by the names of their hosts: those of the same host. Where one of the two is
/// not known, all devices can, but only if the ranks are of one host and the devices too.
class SampleHosts {
 public:
  /// `ranks`: their hosts; empty: unknown.
  SampleHosts(const SampleLog& log, std::span<const std::string> ranks);
  [[nodiscard]] bool fits(std::string_view rank, const DeviceInfo& device) const {
    if (rank.empty() || device.host.empty()) return one_host_;
    return rank == device.host;
  }

 private:
  bool one_host_;
};

// SampleRow: one value for each metric of a reading.

/// Of several samples of one metric a row has their mean, weighted by time (each holds until the next, the last until
/// the reading, or as long as they do on average where it is not before that); the last of them for counters and for
/// what is no quantity: states, bits, codes.
class SampleRow {
 public:
  void take(const Reading& reading);
  [[nodiscard]] const std::optional<double>& operator[](Metric metric) const {
    return values_[static_cast<size_t>(metric)];
  }

 private:
  std::array<std::optional<double>, kMetricCount> values_;
  std::vector<Sample> sorted_;
};

/// Drivers keep its course between two readings: files may have rows of those times beside those of the ticks.
bool may_have_own_rows(Metric metric);

/// How a file names a device: "0", "0:7", "AMD 0" where another vendor's device has the same label, "node-b 0" where
/// another host's has.
std::string device_word(const std::vector<DeviceInfo>& devices, uint32_t device);

/// Shortest text that reads back as the same number; whole numbers without a fraction or an exponent.
void append_number(std::string& out, double value);

}  // namespace profgpu
