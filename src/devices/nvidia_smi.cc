#include "devices/nvidia_smi.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/steady_unix.h"
#include "base/text.h"
#include "devices/nvidia_smi_child.h"
#include "devices/nvidia_smi_query.h"
#include "devices/pci_address.h"

namespace profgpu {
namespace {

constexpr int64_t kMillisecond_ns = 1'000'000;
/// The values of the inventory's query count as the first reading's for this long: nvidia-smi averages over up to a
/// second anyway, and consumers drop values from before their first reading.
constexpr int64_t kStillNow_ns = 1'000'000'000;
/// Samples that no reading fetches are dropped after about ten minutes of rows at 10 Hz.
constexpr size_t kMaxWaiting = 300'000;
/// A row has some 600 bytes; longer text without a line end is not a row.
constexpr size_t kMaxLine = 64 << 10;

// The columns before the metrics.
constexpr size_t kStampColumn = 0, kPciColumn = 1, kIndexColumn = 2, kFirstMetric = 3;

/// The rows of one long-running `nvidia-smi --query-gpu=... -lms N`, kept by a thread until a reading fetches them.
///
/// nvidia-smi hangs when a device is lost and dies when the driver goes: the thread starts it again, ever less often,
/// and readings report since when there has been no answer. The same thread runs `--query-compute-apps` now and then
/// when processes are wanted. Only that thread waits for nvidia-smi.
/// Budget: 8 devices at 10 Hz take about 0.2 ms of CPU time a round (37 fields a row, wake-ups included); no allocation
/// once the buffers have grown.
class NvidiaSmi final : public Backend {
 public:
  NvidiaSmi(SmiInventory inventory, int64_t interval_ns, const SmiTimes& times);
  ~NvidiaSmi() override;

  [[nodiscard]] std::string_view name() const override { return "smi"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return infos_; }
  [[nodiscard]] int64_t calls() const override { return static_cast<int64_t>(infos_.size()) + rows_; }
  Status read(const ReadRequest& request, Reading& reading) override;
  void set_interval(int64_t interval_ns) override;
  [[nodiscard]] std::string why_absent(uint32_t device, Metric metric) const override;
  std::vector<Fact> system_facts() override;
  std::vector<Fact> device_facts(uint32_t device) override;

 private:
  struct Device : SmiDevice {
    std::string printed_id;      ///< as the rows have it
    bool was_read = false;
    std::vector<Sample> waiting;
    int64_t heard_ns = 0;        ///< monotonic, of the last row
    int64_t heard_unix_ns = 0;
    int64_t stamp_ns = 0;        ///< of the last row, Unix
    std::string trouble;         ///< "GPU is lost"; empty: none
    std::vector<ProcessSample> processes;
    bool has_new_processes = false;
  };

  // By readings, under mutex_.
  void start_thread();
  void move_samples(Device& device, Reading& reading);
  void move_processes(std::unique_lock<std::mutex>& lock, const ReadRequest& request, Reading& reading);
  [[nodiscard]] Status state_of(const Device& device) const;
  [[nodiscard]] int64_t silence_ns() const { return std::max(times_.silence_ns, 5 * interval_ns_.load()); }

  // By the thread.
  void run();
  void wait_for_output();
  void start_if_due();
  void end_if_outdated();
  void read_rows();
  void stopped();
  void take_lines();
  void take_row(std::string_view line);
  void take_fields(Device& device);
  void take_message(std::string_view line);
  void query_processes();
  void read_processes();
  void take_process_rows();
  Device* owner(std::string_view pci_bus_id, std::string_view index);
  void wake();

  const std::string program_;
  const std::vector<SmiField> fields_;
  const SmiTimes times_;
  std::vector<DeviceInfo> infos_;

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
  std::string message_;                 ///< the last output beside rows
  int fruitless_ = 0;                   ///< ends in a row without a line
  bool given_up_ = false;
  bool processes_wanted_ = false;
  bool processes_known_ = false;
  std::condition_variable processes_came_;
  int64_t begun_ns_ = 0, begun_unix_ns_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> interval_ns_;
  std::atomic<int64_t> rows_ = 0, starts_ = 0;
  std::thread thread_;                  ///< begun by the first reading: an inventory needs none
};

std::vector<std::string> stream_command(const std::string& program, const std::vector<SmiField>& fields,
                                        int64_t interval_ns) {
  std::string names = "timestamp,pci.bus_id,index";
  for (const SmiField& f : fields) names += "," + f.name;
  const int64_t interval_ms = std::max<int64_t>(10, (interval_ns + kMillisecond_ns / 2) / kMillisecond_ns);
  return {program, "--query-gpu=" + names, "--format=csv,noheader,nounits", "-lms", std::to_string(interval_ms)};
}

NvidiaSmi::NvidiaSmi(SmiInventory inventory, int64_t interval_ns, const SmiTimes& times)
    : program_(std::move(inventory.program)),
      fields_(std::move(inventory.fields)),
      times_(times),
      pause_ns_(times.first_pause_ns),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      message_(std::move(inventory.message)),
      interval_ns_(interval_ns) {
  for (SmiDevice& d : inventory.devices) {
    infos_.push_back(d.info);
    Device& device = devices_.emplace_back();
    static_cast<SmiDevice&>(device) = std::move(d);
    device.waiting.reserve(8 * fields_.size());
  }
}

NvidiaSmi::~NvidiaSmi() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void NvidiaSmi::start_thread() {
  begun_ns_ = monotonic_ns(), begun_unix_ns_ = steady_unix_ns();
  message_.clear();
  thread_ = std::thread([this] { run(); });
}

Status NvidiaSmi::read(const ReadRequest& request, Reading& reading) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) start_thread();
  if (request.processes) move_processes(lock, request, reading);
  move_samples(devices_[reading.device], reading);
  return state_of(devices_[reading.device]);
}

void NvidiaSmi::move_samples(Device& device, Reading& reading) {
  if (!std::exchange(device.was_read, true)) {
    for (Sample s : device.first) {
      if (reading.time_ns - s.time_ns < kStillNow_ns) s.time_ns = std::max(s.time_ns, reading.time_ns);
      reading.samples.push_back(s);
    }
  }
  reading.samples.insert(reading.samples.end(), device.waiting.begin(), device.waiting.end());
  device.waiting.clear();
}

Status NvidiaSmi::state_of(const Device& device) const {
  if (!device.trouble.empty()) return Error{device.trouble};
  const std::string message = message_.empty() ? "" : ": " + message_;
  if (given_up_) return Error{fmt::format("nvidia-smi ended {} times in a row{}", fruitless_, message)};
  if (monotonic_ns() - std::max(device.heard_ns, begun_ns_) < silence_ns()) return ok();
  const int64_t since_ns = device.heard_ns ? device.heard_unix_ns : begun_unix_ns_;
  return Error{fmt::format("nvidia-smi has not answered since {}{}", clock_time(since_ns), message)};
}

/// Requests the processes, and hands over those that came since the last request. Only a reading of everything waits
/// for the first list.
void NvidiaSmi::move_processes(std::unique_lock<std::mutex>& lock, const ReadRequest& request, Reading& reading) {
  if (!std::exchange(processes_wanted_, true)) wake();
  if (request.everything) {
    const int64_t most_ns = times_.first_processes_ns;
    const int64_t left_ns = request.until_ns == 0 ? most_ns : request.until_ns - monotonic_ns();
    const std::chrono::nanoseconds patience(std::min(left_ns, most_ns));
    processes_came_.wait_for(lock, patience, [this] { return processes_known_; });
  }
  Device& device = devices_[reading.device];
  if (!std::exchange(device.has_new_processes, false)) return;
  reading.has_processes = true;
  reading.processes.insert(reading.processes.end(), device.processes.begin(), device.processes.end());
}

void NvidiaSmi::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void NvidiaSmi::set_interval(int64_t interval_ns) {
  interval_ns_ = interval_ns;
  {
    const std::lock_guard lock(mutex_);
    begun_ns_ = monotonic_ns();   // the old interval's pause is no silence by the new one
  }
  wake();
}

void NvidiaSmi::run() {
  while (!stopping_) {
    end_if_outdated();
    start_if_due();
    wait_for_output();
    read_rows();
    if (process_child_.fd() >= 0) read_processes();
    else query_processes();
  }
  // Ended here: the kernel ties both to the thread that started them.
  child_.end();
  process_child_.end();
}

void NvidiaSmi::wait_for_output() {
  pollfd waiting[3] = {{wake_fd_, POLLIN, 0}, {child_.fd(), POLLIN, 0}, {process_child_.fd(), POLLIN, 0}};
  // Negative descriptors are skipped. The limit is for restarts and timeouts, which need no accuracy.
  ::poll(waiting, 3, 100);
  uint64_t ignored = 0;
  while (::read(wake_fd_, &ignored, sizeof ignored) > 0) {
  }
}

// nvidia-smi keeps the interval it was started with.
void NvidiaSmi::end_if_outdated() {
  if (child_.fd() < 0 || child_interval_ns_ == interval_ns_) return;
  child_.end();
  next_start_ns_ = 0;
}

void NvidiaSmi::start_if_due() {
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

void NvidiaSmi::read_rows() {
  if (child_.fd() < 0) return;
  const bool more = child_.read(text_);
  take_lines();
  const bool silent = monotonic_ns() - child_heard_ns_ >= silence_ns();
  if (more && silent) text_.clear();
  if (!more || silent) stopped();
}

void NvidiaSmi::stopped() {
  child_.end();
  next_start_ns_ = monotonic_ns() + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, times_.last_pause_ns);
  const std::lock_guard lock(mutex_);
  if (!text_.empty()) message_ = last_line(text_);
  if (++fruitless_ >= times_.max_starts) given_up_ = true;
}

void NvidiaSmi::take_lines() {
  std::string_view left = text_;
  const std::lock_guard lock(mutex_);
  for (size_t end = left.find('\n'); end != left.npos; end = left.find('\n')) {
    take_row(without_blanks(left.substr(0, end)));
    left.remove_prefix(end + 1);
  }
  if (left.size() > kMaxLine) left = {};
  text_.erase(0, text_.size() - left.size());
}

void NvidiaSmi::take_row(std::string_view line) {
  if (line.empty()) return;
  split_smi_row(line, fields_.size() + kFirstMetric + 1, row_);
  Device* device = row_.size() == fields_.size() + kFirstMetric ? owner(row_[kPciColumn], row_[kIndexColumn]) : nullptr;
  if (!device) return take_message(line);
  ++rows_;
  fruitless_ = 0, pause_ns_ = times_.first_pause_ns;
  child_heard_ns_ = device->heard_ns = monotonic_ns();
  device->heard_unix_ns = steady_unix_ns();
  // Time never goes back, whatever the clocks do.
  device->stamp_ns =
      std::max(smi_time(timestamps_, row_[kStampColumn], unix_ns()) - clock_set_by_ns(), device->stamp_ns + 1);
  take_fields(*device);
}

void NvidiaSmi::take_fields(Device& device) {
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

void NvidiaSmi::take_message(std::string_view line) {
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
    if (pci && pci_address(d.info.pci_bus_id) == pci)
      d.trouble = line.find("lost") != line.npos ? "GPU is lost" : message_;
}

NvidiaSmi::Device* NvidiaSmi::owner(std::string_view pci_bus_id, std::string_view index) {
  for (Device& d : devices_)
    if (!d.printed_id.empty() && d.printed_id == pci_bus_id) return &d;
  const auto pci = pci_address(pci_bus_id);
  for (Device& d : devices_) {
    if (!pci || pci_address(d.info.pci_bus_id) != pci) continue;
    d.printed_id = pci_bus_id;
    return &d;
  }
  const auto number = whole_number(index);
  for (Device& d : devices_)
    if (d.info.pci_bus_id.empty() && number == d.info.index) return &d;
  return nullptr;
}

void NvidiaSmi::query_processes() {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = monotonic_ns(), interval_ns = times_.process_interval_ns;
  const bool due = process_started_ns_ == 0 || now_ns - process_started_ns_ >= interval_ns - interval_ns / 10;
  if (!due || !process_child_.reaped() || !std::exchange(processes_wanted_, false)) return;
  process_started_ns_ = now_ns;
  process_text_.clear();
  // The name comes last: it may contain commas.
  [[maybe_unused]] const Status started = process_child_.start(
      {program_, "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name", "--format=csv,noheader,nounits"});
}

void NvidiaSmi::read_processes() {
  const int64_t now_ns = monotonic_ns();
  if (process_child_.read(process_text_)) {
    if (now_ns - process_started_ns_ > times_.process_timeout_ns) process_child_.end();
    return;
  }
  while (!process_child_.reaped() && monotonic_ns() - now_ns < 20 * kMillisecond_ns) ::usleep(200);
  // A failed query does not mean that there are no processes.
  if (process_child_.exit_status() == 0) take_process_rows();
  process_child_.end();
}

void NvidiaSmi::take_process_rows() {
  const std::lock_guard lock(mutex_);
  for (Device& d : devices_) d.processes.clear(), d.has_new_processes = true;
  for (const std::string_view line : pieces_of(process_text_, '\n')) {
    split_smi_row(line, 4, row_);
    const auto pid = row_.size() == 4 ? whole_number(row_[1]) : std::nullopt;
    if (!pid || *pid < 1 || *pid > 4194304) continue;
    for (Device& d : devices_) {
      if (d.info.uuid != row_[0]) continue;
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

bool in_mig_mode(const SmiDevice& device) {
  for (const auto& [field, text] : device.facts)
    if (field == "mig.mode.current") return text == "Enabled";
  return false;
}

std::string NvidiaSmi::why_absent(uint32_t device, Metric metric) const {
  const std::lock_guard lock(mutex_);
  const SmiDevice& d = devices_[device];
  const std::string& reason = d.absent[static_cast<size_t>(metric)];
  if (!reason.empty() && in_mig_mode(d) && metric_info(metric).unit == "%")
    return "nvidia-smi does not report it in MIG mode; the library (NVML) does";
  return reason;
}

std::vector<Fact> NvidiaSmi::system_facts() {
  std::vector<Fact> facts = {{"driver_version", infos_.front().driver_version, ""}, {"nvidia_smi", program_, ""}};
  const std::lock_guard lock(mutex_);
  if (!message_.empty()) facts.push_back({"nvidia_smi_message", message_, ""});
  if (thread_.joinable()) facts.push_back({"nvidia_smi_starts", std::to_string(starts_), ""});
  return facts;
}

/// Named and worded like NVML's facts: "mode.current" is "mode", "Enabled" is "enabled".
Fact text_fact(std::string_view field, std::string_view text) {
  std::string id(field.substr(0, field.find(".current"))), value(text);
  std::replace(id.begin(), id.end(), '.', '_');
  bool trouble = false;
  if (const std::string_view reason = smi_absence(text, trouble); !reason.empty()) return {id, "", std::string(reason)};
  if (id.ends_with("_mode")) {
    value = lower_case(value);
    std::replace(value.begin(), value.end(), '_', ' ');
  }
  return {id, value, ""};
}

/// The MIG instances of a GPU as `nvidia-smi -L` lists them: "3g.40gb (MIG-...), 1g.10gb (MIG-...)".
std::string mig_instances(const std::string& program, const std::string& uuid, int64_t timeout_ns) {
  const auto output = run_smi({program, "-L"}, timeout_ns);
  if (!output) return "";
  std::string list;
  bool ours = false;
  for (const std::string_view raw : pieces_of(output->text, '\n')) {
    const std::string_view line = without_blanks(raw);
    if (line.starts_with("GPU ")) ours = line.find(uuid) != line.npos;
    const size_t id = line.find("(UUID: "), device = line.find(" Device");
    if (!ours || !line.starts_with("MIG ") || id == line.npos || device == line.npos) continue;
    const std::string_view profile = without_blanks(line.substr(4, device - 4));
    const std::string_view name = line.substr(id + 7, line.find(')', id) - id - 7);
    append_listed(list, fmt::format("{} ({})", profile, name));
  }
  return list;
}

std::vector<Fact> NvidiaSmi::device_facts(uint32_t device) {
  std::unique_lock lock(mutex_);
  const SmiDevice d = devices_[device];
  lock.unlock();
  std::vector<Fact> facts;
  for (const auto& [field, text] : d.facts) facts.push_back(text_fact(field, text));
  const auto why = [&](Metric m) { return d.absent[static_cast<size_t>(m)]; };
  add_metric_facts(d.info, d.first, why, facts);
  if (in_mig_mode(d)) {
    facts.push_back({"mig_instances", mig_instances(program_, d.info.uuid, times_.query_ns), ""});
    facts.push_back({"mig_note", "nvidia-smi measures the whole GPU, not its instances", ""});
  }
  return facts;
}

Result<std::unique_ptr<Backend>> open_kind(const BackendOptions& options) { return open_nvidia_smi(options, {}); }

}  // namespace

Result<std::unique_ptr<Backend>> open_nvidia_smi(const BackendOptions& options, const SmiTimes& times) {
  const std::string program = find_nvidia_smi();
  if (program.empty())
    return Error{"nvidia-smi not found in PATH", "install the NVIDIA driver's utilities, or set PROFGPU_NVIDIA_SMI"};
  auto inventory = query_smi(program, times.query_ns);
  if (!inventory) return inventory.error();
  return std::unique_ptr<Backend>(std::make_unique<NvidiaSmi>(std::move(*inventory), options.interval_ns, times));
}

extern const BackendKind kSmi = {"smi", "NVIDIA GPUs through the program nvidia-smi, if the library is missing", true,
                                 &open_kind};

}  // namespace profgpu
