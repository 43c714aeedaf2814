// What the host did while the command ran: samples of all threads of the command's processes and, where the kernel
// tells of context switches, how long each was blocked, in a recording file of their own (HOST-host.pgt), written by a
// thread of ours.
//
// Budget: 2 % of one core, however many threads there are: the more there are, the rarer the samples. Beside that
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

#include "base/result.h"
#include "record/wire/rows.h"
#include "watch/live/switch_watch.h"
#include "watch/live/thread_watch.h"

namespace profgpu {

class HostRecording {
 public:
  struct Statistics {
    int64_t samples = 0, threads = 0;
    int64_t cpu_ns = 0;           ///< that it took
    int64_t interval_ns = 0;      ///< between samples of one thread, at the end
    int64_t waits = 0;            ///< long ones
    uint64_t lost_switches = 0;   ///< records of them
    std::string no_switches;      ///< why there are none, or not all of the time; empty: they were recorded
    std::string problem;          ///< why the file ends early
    size_t left_out = 0;          ///< threads, at the worst moment
  };

  /// Makes the file, which must not exist.
  static Result<std::unique_ptr<HostRecording>> open(const std::string& path, const std::string& host);
  ~HostRecording();
  HostRecording(const HostRecording&) = delete;
  HostRecording& operator=(const HostRecording&) = delete;

  /// Watches whatever this process starts; context switches, of what the calling thread starts.
  void start(bool with_switches);
  /// Writes what is left and ends the file.
  Statistics stop();

 private:
  HostRecording(int fd, std::string path);
  void run();
  void await(int64_t until_ns);
  void take();
  void flush(bool at_end);
  void append_switches(bool at_end, std::string& out);
  void append_properties(const std::vector<std::pair<std::string, std::string>>& properties, std::string& out);
  void append_names(std::string& out);
  uint32_t name_id(const std::string& name);
  template <class Row>
  void append_rows(const std::vector<Row>& rows, std::string& out);
  void write(const std::string& bytes);

  int fd_;
  std::string path_;
  ThreadWatch watch_;
  std::unique_ptr<SwitchWatch> switches_;   // null: not recorded
  std::map<std::string, uint32_t> names_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids_;  // of threads by pid and tid
  std::vector<std::pair<uint32_t, std::string>> new_names_;
  std::vector<wire::ThreadRow> new_threads_;
  std::vector<wire::ThreadSample> samples_;
  int64_t size_bytes_ = 0, synced_ns_ = 0;
  int64_t shortest_wait_ns_ = 0;            // as the file says
  Statistics statistics_;

  int wake_;                                // an eventfd, readable to end a wait
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// What the kernel says of the clock of the day.

struct HostClock {
  bool synchronised = false;        ///< a program (NTP) keeps it, and has said so lately
  int64_t max_error_ns = 0;         ///< from Unix time; grows until that program speaks again, 16 s if it never does
  int64_t estimated_error_ns = 0;
};

/// Only reads, so it needs no rights. nullopt: the kernel does not say, or not to us (a container's filter).
std::optional<HostClock> host_clock();

}  // namespace profgpu
