// What the host did while the command ran: samples of all threads of the command's processes, in a recording file of
// their own (HOST-host.pgt), written by a thread of ours.
//
// Budget: 2 % of one core, however many threads there are: the more there are, the rarer the samples.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "live/thread_watch.h"
#include "wire/rows.h"

namespace profgpu {

class HostRecording {
 public:
  struct Statistics {
    int64_t samples = 0, threads = 0;
    int64_t cpu_ns = 0;           ///< that it took
    int64_t interval_ns = 0;      ///< between samples of one thread, at the end
    std::string problem;          ///< why the file ends early
    size_t left_out = 0;          ///< threads, at the worst moment
  };

  /// Makes the file, which must not exist.
  static Result<std::unique_ptr<HostRecording>> open(const std::string& path, const std::string& host);
  ~HostRecording();
  HostRecording(const HostRecording&) = delete;
  HostRecording& operator=(const HostRecording&) = delete;

  /// Watches whatever this process starts.
  void start();
  /// Writes what is left and ends the file.
  Statistics stop();

 private:
  HostRecording(int fd, std::string path);
  void run();
  void take();
  void flush(bool at_end);
  uint32_t name_id(const std::string& name);
  template <class Row>
  void append_rows(const std::vector<Row>& rows, std::string& out);
  void write(const std::string& bytes);

  int fd_;
  std::string path_;
  ThreadWatch watch_;
  std::map<std::string, uint32_t> names_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids_;  // of threads by pid and tid
  std::vector<std::pair<uint32_t, std::string>> new_names_;
  std::vector<wire::ThreadRow> new_threads_;
  std::vector<wire::ThreadSample> samples_;
  int64_t size_bytes_ = 0, synced_ns_ = 0;
  Statistics statistics_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace profgpu
