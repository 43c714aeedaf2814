#include "devices/host_load.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

constexpr size_t kMaxMemoryText = 16 << 10;

// A line of /proc/meminfo, "MemTotal:  16 kB".
std::optional<double> memory_bytes_of(std::string_view text, std::string_view key) {
  const std::string_view value = line_value(text, key);
  const auto kibibytes = whole_number(value.substr(0, value.find(' ')));
  return kibibytes && *kibibytes >= 0 ? std::optional(static_cast<double>(*kibibytes) * 1024) : std::nullopt;
}

std::optional<double> used(const std::optional<double>& all, const std::optional<double>& left) {
  return all && left ? std::optional(std::max(*all - *left, 0.0)) : std::nullopt;
}

}  // namespace

HostLoadWatch::HostLoadWatch(std::string proc_root)
    : root_(proc_root.empty() ? SystemRoots::from_environment().proc : std::move(proc_root)) {}

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice", in ticks; guests are in user and nice.
void HostLoadWatch::read_cpu(HostLoad& load) {
  constexpr size_t kIdle = 3, kIoWait = 4, kCounted = 8;
  const std::string line = file_line(root_ + "/stat");
  if (!line.starts_with("cpu ")) return;
  int64_t total = 0, idle = 0;
  size_t field = 0;
  for (const std::string_view piece : pieces_of(std::string_view(line).substr(4), ' ')) {
    const auto ticks = piece.empty() ? std::nullopt : whole_number(piece);
    if (!ticks || field >= kCounted) continue;
    total += *ticks;
    if (field == kIdle || field == kIoWait) idle += *ticks;
    ++field;
  }
  if (field <= kIdle) return;
  // The kernel lets the wait for disks go back a little.
  if (total_ > 0 && total > total_)
    load.cpu_pct =
        std::clamp(100 - 100 * static_cast<double>(idle - idle_) / static_cast<double>(total - total_), 0.0, 100.0);
  total_ = total;
  idle_ = idle;
}

void HostLoadWatch::read_memory(HostLoad& load) const {
  const std::string text = file_text(root_ + "/meminfo", kMaxMemoryText).value_or("");
  load.memory_bytes = memory_bytes_of(text, "MemTotal");
  load.memory_used_bytes = used(load.memory_bytes, memory_bytes_of(text, "MemAvailable"));
  load.swap_bytes = memory_bytes_of(text, "SwapTotal");
  load.swap_used_bytes = used(load.swap_bytes, memory_bytes_of(text, "SwapFree"));
}

void HostLoadWatch::read_averages(HostLoad& load) const {
  const std::string line = file_line(root_ + "/loadavg");
  const std::vector<std::string_view> pieces = pieces_of(line, ' ');
  if (pieces.size() < 3) return;
  load.load_1 = real_number(pieces[0]);
  load.load_5 = real_number(pieces[1]);
  load.load_15 = real_number(pieces[2]);
}

HostLoad HostLoadWatch::look() {
  HostLoad load;
  load.time_ns = unix_ns();
  read_cpu(load);
  read_memory(load);
  read_averages(load);
  if (const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN); cpus > 0) load.cpus = cpus;
  return load;
}

}  // namespace profgpu
