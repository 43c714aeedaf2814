// The processes on a device and their use of it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "devices/nvml_library.h"
#include "trace/sample.h"

namespace profgpu::nvml {

class Processes {
 public:
  enum Kind : size_t { kCompute, kGraphics, kMps, kKinds };

  /// `memory_total`: rows with more memory are invalid. 0: unknown.
  Processes(DeviceCalls& calls, double memory_total);
  /// Reads one list; the others stay as they are.
  Return read_list(Kind kind);
  /// Reads each process's use since the last time.
  Return read_utilization(int64_t unix_ns);
  /// All lists as one, each process once.
  void show(Reading& reading) const;

 private:
  struct Row {
    int64_t pid;
    uint64_t memory;        ///< kNotAvailable: unknown
  };
  /// A version of a list call and the size of its rows.
  struct Version {
    CountedProcesses call;
    size_t row_size;
  };
  struct Use {
    int64_t pid, time_ns;
    double sm, memory, encoder, decoder;
  };
  using Versions = std::array<Version, 3>;
  /// Into info_rows_, by the older call where the newer one does not work.
  Return fetch_utilization(uint64_t since_us, uint32_t& count);
  void add_use(const ProcessUtilizationInfo& row, int64_t unix_ns);
  [[nodiscard]] bool runs(int64_t pid) const;
  void show(Row row, char type, Reading& reading) const;

  DeviceCalls& calls_;
  double memory_total_;
  std::array<Versions, kKinds> versions_;      ///< newest first; a null call: not there
  std::array<std::vector<Row>, kKinds> lists_;
  std::vector<uint64_t> raw_;                  ///< rows as the driver writes them
  std::vector<ProcessUtilizationInfo> info_rows_;
  std::vector<ProcessUtilization> rows_;       ///< of the older call
  bool has_info_ = true;                       ///< the newer call for utilization works
  std::vector<Use> uses_;
  uint64_t since_us_ = 0;
  bool knows_use_ = false;
};

}  // namespace profgpu::nvml
