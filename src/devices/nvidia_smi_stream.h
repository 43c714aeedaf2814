// The rows of one long-running `nvidia-smi --query-gpu=... -lms N`, kept by a thread until they are asked for.
//
// nvidia-smi hangs when a device is lost and dies when the driver goes: the thread starts it again, ever less often,
// and says since when there has been no answer. The same thread runs `--query-compute-apps` now and then when processes
// are wanted. Nothing here waits for nvidia-smi but that thread.
// Budget: 8 devices at 10 Hz take about 0.2 ms of processor time a round (37 fields a row, wake-ups included); no
// allocation once the buffers have grown.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "devices/nvidia_smi_child.h"
#include "devices/nvidia_smi_query.h"
#include "trace/sample.h"

namespace profgpu {

struct SmiTimes {
  int64_t query_ns = 8'000'000'000;  ///< for the first query: a driver without persistence mode takes seconds
  int64_t silence_ns = 5'000'000'000;            ///< no row for so long (or five intervals): it does not answer
  int64_t first_pause_ns = 200'000'000;          ///< before it is started again; doubled up to last_pause_ns
  int64_t last_pause_ns = 30'000'000'000;
  int most_starts = 12;                          ///< in a row without a single line
  int64_t process_interval_ns = 1'000'000'000;
  int64_t process_timeout_ns = 5'000'000'000;
};

class SmiStream {
 public:
  SmiStream(const SmiInventory& inventory, int64_t interval_ns, SmiTimes times);
  ~SmiStream();
  SmiStream(const SmiStream&) = delete;
  SmiStream& operator=(const SmiStream&) = delete;

  /// The child is started anew with it.
  void set_interval(int64_t interval_ns);
  /// Moves what came for the device since the last call to `reading`.
  Status take(uint32_t device, Reading& reading);
  /// Asks for the processes, and hands over those that were asked for before. `wait_ns`: for the first answer at most.
  void take_processes(uint32_t device, int64_t wait_ns, Reading& reading);
  [[nodiscard]] std::string why_absent(uint32_t device, Metric metric) const;
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t starts() const { return starts_; }
  [[nodiscard]] std::string message() const;

 private:
  struct Device {
    std::string pci_bus_id, uuid;
    std::string printed_id;      ///< as the rows have it
    uint32_t index = 0;
    std::array<std::string, kMetricCount> absent;
    std::vector<Sample> waiting;
    int64_t heard_ns = 0;        ///< monotonic, of the last row
    int64_t heard_unix_ns = 0;
    int64_t stamp_ns = 0;        ///< of the last row, Unix
    std::string trouble;         ///< "GPU is lost"; empty: none
    std::vector<ProcessSample> processes;
    bool has_new_processes = false;
  };

  void run();
  void wait_for_output();
  void start_if_due();
  void end_if_outdated();
  void read_rows();
  void ended();
  void take_lines();
  void take_row(std::string_view line);
  void take_fields(Device& device);
  void take_message(std::string_view line);
  void end_if_silent();
  void care_for_processes();
  void take_process_rows();
  Device* owner(std::string_view pci_bus_id, std::string_view index);
  void wake();

  const std::string program_;
  const std::vector<SmiField> fields_;
  const SmiTimes times_;

  // The thread's own.
  SmiChild child_;
  int64_t child_interval_ns_ = 0;
  SmiChild process_child_;
  std::string text_, process_text_;
  std::vector<std::string_view> row_;
  TimestampReader timestamps_;
  int64_t next_start_ns_ = 0, pause_ns_ = 0, child_heard_ns_ = 0;
  int64_t process_started_ns_ = 0;
  int wake_fd_ = -1;

  mutable std::mutex mutex_;
  std::vector<Device> devices_;
  std::string message_;                 ///< what it said last beside rows
  int fruitless_ = 0;                   ///< ends in a row without a line
  bool given_up_ = false;
  bool processes_wanted_ = false;
  bool processes_known_ = false;
  std::condition_variable processes_came_;
  int64_t begun_ns_ = 0, begun_unix_ns_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> interval_ns_;
  std::atomic<int64_t> rows_ = 0, starts_ = 0;
  std::thread thread_;
};

}  // namespace profgpu
