// What the host did while the command ran: samples of all threads of the command's processes and, where the kernel
// reports context switches, how long each was blocked. A thread of ours writes them to a recording file of their own
// (HOST-host.pgt).
//
// Budget: 2 % of one core, whatever the number of threads: with more threads, each is sampled less often. In addition
// 100 ns a context switch.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "record/wire/rows.h"
#include "watch/live/switch_watch.h"
#include "watch/live/thread_watch.h"

namespace profgpu {

class HostRecording {
 public:
  struct Statistics {
    int64_t samples = 0, threads = 0;
    int64_t cpu_ns = 0;           ///< of the recording thread
    int64_t interval_ns = 0;      ///< between samples of one thread, at the end
    int64_t waits = 0;            ///< long ones
    uint64_t lost_switches = 0;   ///< records
    std::string no_switches;      ///< why there are none, or only part of the time; empty: they were recorded
    std::string problem;          ///< why the file ends early
    size_t left_out = 0;          ///< threads that were not sampled, at the peak
  };

  /// Truncates the file if it exists.
  static Result<std::unique_ptr<HostRecording>> open(const std::string& path, const std::string& host);
  ~HostRecording() { stop(); }
  HostRecording(const HostRecording&) = delete;
  HostRecording& operator=(const HostRecording&) = delete;

  /// Watches all that this process starts; context switches, of what the calling thread starts.
  void start(bool with_switches);
  /// Writes what is left and ends the file.
  Statistics stop();

 private:
  HostRecording(Descriptor file, std::string path);
  void run();
  void await(int64_t until_ns);
  void take_samples();
  void flush(bool at_end);
  void append_switches(bool at_end, std::string& out);
  void append_properties(const std::vector<std::pair<std::string, std::string>>& properties, std::string& out);
  void append_names(std::string& out);
  uint32_t name_id(const std::string& name);
  template <class Row>
  void append_rows(const std::vector<Row>& rows, std::string& out);
  void write(const std::string& bytes);

  Descriptor file_, wake_;                  // wake_: an eventfd, readable to end a wait
  std::string path_;
  ThreadWatch watch_;
  std::unique_ptr<SwitchWatch> switches_;   // null: not recorded
  std::map<std::string, uint32_t> names_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids_;  // of threads by pid and tid
  std::vector<std::pair<uint32_t, std::string>> new_names_;
  std::vector<wire::ThreadRow> new_threads_;
  std::vector<wire::ThreadSample> samples_;
  int64_t size_bytes_ = 0, synced_ns_ = 0;
  int64_t shortest_wait_ns_ = 0;            // as written to the file
  Statistics statistics_;

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// The kernel's report on the clock of the day.
struct HostClock {
  bool synchronised = false;        ///< a program such as NTP disciplines it, and did so recently
  int64_t max_error_ns = 0;         ///< from Unix time; grows until that program's next update, to 16 s without one
  int64_t estimated_error_ns = 0;
};

/// Only reads, so it needs no rights. nullopt: not reported, or blocked by a container's filter.
std::optional<HostClock> host_clock();

}  // namespace profgpu
