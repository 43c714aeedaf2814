#include "devices/nvidia_smi_stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "devices/pci_address.h"

namespace profgpu {
namespace {

constexpr int64_t kMillisecond_ns = 1'000'000;
/// Samples that are never taken are dropped after about ten minutes of rows at 10 Hz.
constexpr size_t kMaxWaiting = 300'000;
/// A row has some 600 bytes; longer text without a line end is not a row.
constexpr size_t kLongestLine = 64 << 10;

// The columns before the metrics.
constexpr size_t kStampColumn = 0, kPciColumn = 1, kIndexColumn = 2, kFirstMetric = 3;

std::vector<std::string> stream_command(const std::string& program, const std::vector<SmiField>& fields,
                                        int64_t interval_ns) {
  std::string names = "timestamp,pci.bus_id,index";
  for (const SmiField& f : fields) names += "," + f.name;
  const int64_t interval_ms = std::max<int64_t>(10, (interval_ns + kMillisecond_ns / 2) / kMillisecond_ns);
  return {program, "--query-gpu=" + names, "--format=csv,noheader,nounits", "-lms", std::to_string(interval_ms)};
}

}  // namespace

SmiStream::SmiStream(const SmiInventory& inventory, int64_t interval_ns, SmiTimes times)
    : program_(inventory.program), fields_(inventory.fields), times_(times), interval_ns_(interval_ns) {
  begun_ns_ = monotonic_ns(), begun_unix_ns_ = unix_ns();
  pause_ns_ = times_.first_pause_ns;
  for (const SmiDevice& d : inventory.devices) {
    Device& device = devices_.emplace_back();
    device.pci_bus_id = d.info.pci_bus_id, device.uuid = d.info.uuid;
    device.index = d.info.index, device.absent = d.absent;
    device.waiting.reserve(8 * fields_.size());
  }
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { run(); });
}

SmiStream::~SmiStream() {
  stopping_ = true;
  wake();
  thread_.join();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void SmiStream::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void SmiStream::set_interval(int64_t interval_ns) {
  interval_ns_ = interval_ns;
  {
    const std::lock_guard lock(mutex_);
    begun_ns_ = monotonic_ns();   // the old interval's pause is no silence by the new one
  }
  wake();
}

void SmiStream::run() {
  while (!stopping_) {
    end_if_outdated();
    start_if_due();
    wait_for_output();
    if (child_.running()) read_rows();
    end_if_silent();
    care_for_processes();
  }
  // Ended here: the kernel ties both to the thread that started them.
  child_.end();
  process_child_.end();
}

void SmiStream::wait_for_output() {
  pollfd waiting[3] = {{wake_fd_, POLLIN, 0}, {child_.fd(), POLLIN, 0}, {process_child_.fd(), POLLIN, 0}};
  // Negative descriptors are skipped. The limit is for restarts and timeouts, which need no accuracy.
  ::poll(waiting, 3, 100);
  uint64_t ignored = 0;
  while (::read(wake_fd_, &ignored, sizeof ignored) > 0) {
  }
}

// nvidia-smi keeps the interval it was started with.
void SmiStream::end_if_outdated() {
  if (child_.fd() < 0 || child_interval_ns_ == interval_ns_) return;
  child_.end();
  next_start_ns_ = 0;
}

void SmiStream::start_if_due() {
  if (child_.fd() >= 0 || given_up_ || monotonic_ns() < next_start_ns_) return;
  // One that is stuck in the driver cannot be killed; a second one would hang too.
  if (!child_.reaped()) return;
  text_.clear();
  child_heard_ns_ = monotonic_ns();
  ++starts_;
  child_interval_ns_ = interval_ns_;
  if (auto started = child_.start(stream_command(program_, fields_, child_interval_ns_)); !started) {
    const std::lock_guard lock(mutex_);
    message_ = started.error().message;
    given_up_ = true;
  }
}

void SmiStream::read_rows() {
  if (child_.fd() < 0) return;
  const bool more = child_.read(text_);
  take_lines();
  if (!more) ended();
}

void SmiStream::ended() {
  child_.end();
  next_start_ns_ = monotonic_ns() + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, times_.last_pause_ns);
  const std::lock_guard lock(mutex_);
  if (!text_.empty()) message_ = last_line(text_);
  if (++fruitless_ >= times_.most_starts) given_up_ = true;
}

void SmiStream::take_lines() {
  std::string_view left = text_;
  const std::lock_guard lock(mutex_);
  for (size_t end = left.find('\n'); end != left.npos; end = left.find('\n')) {
    take_row(without_blanks(left.substr(0, end)));
    left.remove_prefix(end + 1);
  }
  if (left.size() > kLongestLine) left = {};
  text_.erase(0, text_.size() - left.size());
}

void SmiStream::take_row(std::string_view line) {
  if (line.empty()) return;
  split_smi_row(line, fields_.size() + kFirstMetric + 1, row_);
  Device* device = row_.size() == fields_.size() + kFirstMetric ? owner(row_[kPciColumn], row_[kIndexColumn]) : nullptr;
  if (!device) return take_message(line);
  ++rows_;
  fruitless_ = 0, pause_ns_ = times_.first_pause_ns;
  child_heard_ns_ = device->heard_ns = monotonic_ns();
  device->heard_unix_ns = unix_ns();
  // Time never goes back, whatever the clocks do.
  device->stamp_ns =
      std::max(smi_time(timestamps_, row_[kStampColumn], device->heard_unix_ns), device->stamp_ns + 1);
  take_fields(*device);
}

void SmiStream::take_fields(Device& device) {
  device.trouble.clear();
  if (device.waiting.size() > kMaxWaiting) device.waiting.clear();
  size_t values = 0;
  std::string_view trouble;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const MetricInfo& metric = *fields_[i].metric;
    const SmiValue value = smi_value(metric, row_[kFirstMetric + i]);
    std::string& absent = device.absent[static_cast<size_t>(metric.metric)];
    if (absent != value.absent) absent = value.absent;
    if (value.trouble) trouble = value.absent;
    if (!value.number) continue;
    ++values;
    device.waiting.push_back({device.stamp_ns, metric.metric, *value.number});
  }
  // Single fields fail on healthy devices too.
  if (values == 0 && !trouble.empty()) device.trouble = trouble;
}

void SmiStream::take_message(std::string_view line) {
  message_ = last_line(line);
  // "Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost. Reboot the system to recover this GPU"
  const size_t gpu = line.find("GPU");
  if (line.find("Unable to") == line.npos || gpu == line.npos) return;
  std::string_view id = without_blanks(line.substr(gpu + 3));
  id = id.substr(0, id.find_first_not_of("0123456789abcdefABCDEF:."));
  // In ": GPU is lost" the id's own colon is the sentence's.
  while (id.ends_with(':')) id.remove_suffix(1);
  const auto pci = pci_address(id);
  for (Device& d : devices_)
    if (pci && pci_address(d.pci_bus_id) == pci)
      d.trouble = line.find("lost") != line.npos ? "GPU is lost" : message_;
}

void SmiStream::end_if_silent() {
  const int64_t silence_ns = std::max(times_.silence_ns, 5 * interval_ns_.load());
  if (child_.fd() < 0 || monotonic_ns() - child_heard_ns_ < silence_ns) return;
  text_.clear();
  ended();
}

SmiStream::Device* SmiStream::owner(std::string_view pci_bus_id, std::string_view index) {
  for (Device& d : devices_)
    if (!d.printed_id.empty() && d.printed_id == pci_bus_id) return &d;
  const auto pci = pci_address(pci_bus_id);
  for (Device& d : devices_) {
    if (!pci || pci_address(d.pci_bus_id) != pci) continue;
    d.printed_id = pci_bus_id;
    return &d;
  }
  const auto number = whole_number(index);
  for (Device& d : devices_)
    if (d.pci_bus_id.empty() && number == d.index) return &d;
  return nullptr;
}

Status SmiStream::take(uint32_t index, Reading& reading) {
  const std::lock_guard lock(mutex_);
  Device& device = devices_[index];
  if (!device.waiting.empty()) {
    reading.samples.insert(reading.samples.end(), device.waiting.begin(), device.waiting.end());
    device.waiting.clear();
  }
  if (!device.trouble.empty()) return Error{device.trouble};
  const std::string message = message_.empty() ? "" : ": " + message_;
  if (given_up_) return Error{fmt::format("nvidia-smi ended {} times in a row{}", fruitless_, message)};
  const int64_t heard_ns = std::max(device.heard_ns, begun_ns_);
  if (monotonic_ns() - heard_ns < std::max(times_.silence_ns, 5 * interval_ns_.load())) return ok();
  const int64_t since_ns = device.heard_ns ? device.heard_unix_ns : begun_unix_ns_;
  return Error{fmt::format("nvidia-smi has not answered since {}{}", clock_time(since_ns), message)};
}

std::string SmiStream::why_absent(uint32_t device, Metric metric) const {
  const std::lock_guard lock(mutex_);
  return devices_[device].absent[static_cast<size_t>(metric)];
}

std::string SmiStream::message() const {
  const std::lock_guard lock(mutex_);
  return message_;
}

void SmiStream::take_processes(uint32_t index, int64_t wait_ns, Reading& reading) {
  std::unique_lock lock(mutex_);
  if (!processes_wanted_) {
    processes_wanted_ = true;
    wake();
  }
  if (wait_ns > 0 && !processes_known_)
    processes_came_.wait_for(lock, std::chrono::nanoseconds(wait_ns), [this] { return processes_known_; });
  Device& device = devices_[index];
  if (!device.has_new_processes) return;
  device.has_new_processes = false;
  reading.has_processes = true;
  reading.processes.insert(reading.processes.end(), device.processes.begin(), device.processes.end());
}

void SmiStream::care_for_processes() {
  const int64_t now_ns = monotonic_ns();
  if (process_child_.fd() >= 0) {
    if (!process_child_.read(process_text_)) {
      while (!process_child_.reaped() && monotonic_ns() - now_ns < 20 * kMillisecond_ns) ::usleep(200);
      // A failed query does not mean that there are no processes.
      if (process_child_.exit_status() == 0) take_process_rows();
      process_child_.end();
    } else if (now_ns - process_started_ns_ > times_.process_timeout_ns) {
      process_child_.end();
    }
    return;
  }
  const std::unique_lock lock(mutex_);
  const bool first = process_started_ns_ == 0;
  if (!processes_wanted_ || !process_child_.reaped()) return;
  if (!first && now_ns - process_started_ns_ < times_.process_interval_ns - times_.process_interval_ns / 10) return;
  processes_wanted_ = false;
  process_started_ns_ = now_ns;
  process_text_.clear();
  // The name comes last: it may contain commas.
  [[maybe_unused]] const Status started = process_child_.start(
      {program_, "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name", "--format=csv,noheader,nounits"});
}

void SmiStream::take_process_rows() {
  const std::lock_guard lock(mutex_);
  for (Device& d : devices_) d.processes.clear(), d.has_new_processes = true;
  for (const std::string_view line : pieces_of(process_text_, '\n')) {
    split_smi_row(line, 4, row_);
    const auto pid = row_.size() == 4 ? whole_number(row_[1]) : std::nullopt;
    if (!pid || *pid < 1 || *pid > 4194304) continue;
    for (Device& d : devices_) {
      if (d.uuid != row_[0]) continue;
      ProcessSample process;
      process.pid = *pid;
      if (const auto bytes = smi_value(metric_info(Metric::kMemoryUsed), row_[2]).number; bytes && *bytes < 1e15)
        process.memory_bytes = static_cast<int64_t>(*bytes);
      process.name = row_[3];
      replace_invalid_utf8(process.name);
      d.processes.push_back(std::move(process));
    }
  }
  processes_known_ = true;
  processes_came_.notify_all();
}

}  // namespace profgpu
