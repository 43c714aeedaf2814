// What the stand-in library plays: devices whose values are functions of time, and what goes wrong when.
// README.md describes the text format.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace nvml_stub {

/// A number as a function of time, or an error code in its place.
struct Course {
  std::string kind = "constant";
  std::vector<double> numbers = {0};
  int code = 0;                  ///< NVML return code; 0: there is a value
  [[nodiscard]] double at(double seconds) const;
  [[nodiscard]] double mean(double from, double to) const;
};

struct Fault {
  enum Kind { kError, kHang } kind = kError;
  std::string function;          ///< "any": all that take a device
  int code = 0;
  double from = 0, until = 1e18;
};

struct Process {
  uint32_t pid = 0;
  char type = 'C';
  double from = 0, until = 1e18;
  Course memory, sm, memory_utilization, encoder, decoder;
};

struct Ring {
  double period = 0.1;
  int64_t depth = 120;           ///< 0: not supported
};

struct Xid {
  uint64_t code = 0;
  double at = 0;
};

struct Links {
  int count = 0, peer = -1;      ///< peer -1: a switch
};

struct Gpu {
  uint32_t index = 0;
  std::map<std::string, std::string> texts;
  std::map<std::string, Course, std::less<>> courses;
  std::map<std::string, Ring, std::less<>> rings;
  std::vector<Fault> faults;
  std::vector<Process> processes;
  std::vector<Xid> xids;
  std::vector<Links> links;
  int garbage_rows = 0;
  std::deque<Gpu> instances;     ///< MIG
  Gpu* parent = nullptr;         ///< of a MIG instance
  uint32_t gpu_instance = 0, compute_instance = 0;
  std::mutex energy_lock;        ///< the integral so far
  double energy_j = 0, energy_until = 0;
  std::atomic<int64_t> taken_bytes{0};     ///< by contexts of the stand-in for CUDA
  std::atomic<bool> locked{false};         ///< its clocks are

  [[nodiscard]] const Course& course(std::string_view key) const;
};

struct Scenario {
  std::string driver = "550.54.15", nvml = "12.550.54.15";
  int cuda = 12040, init_error = 0, process_struct = 0;
  double start = 0;
  int64_t delay_us = 0;
  bool spin = false;
  bool held = false;             ///< time passes only where a test says so
  std::vector<std::string> missing;
  std::vector<Fault> faults;     ///< of any device, or of none
  std::deque<Gpu> gpus;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ancestors;
  uint32_t ancestor = 40;
  bool zero_when_idle = false;   ///< GetSamples has entries for times at rest
  bool mean_rates = false;       ///< GetUtilizationRates gives the mean of the last period
  std::string problem;           ///< of the text: nvmlInit then fails with 999

  static void read(Scenario& out, const std::string& path);
};

}  // namespace nvml_stub
