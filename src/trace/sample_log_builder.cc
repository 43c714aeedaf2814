#include "trace/sample_log_builder.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "trace/sample_file_column.h"

namespace profgpu {
namespace {

constexpr size_t kMaxLogDevices = 4096;
constexpr size_t kLongestText = 200;   // of a name; longer ones are damage
constexpr size_t kLongestWord = 2000;  // of host, vendor and label together

// "0", "0:7", "AMD 0", "GPU 0", "cuda:0". Without a number the device keeps the index that it has.
void read_word(std::string_view word, DeviceInfo& info) {
  if (word.starts_with("GPU-") || word.starts_with("MIG-")) {
    info.uuid = word;
    return;
  }
  const size_t digits = word.find_first_of("0123456789");
  if (digits == word.npos) return;
  const std::string_view vendor = word.substr(0, digits);
  if (vendor.ends_with(' ') && vendor != "GPU ") info.vendor = vendor.substr(0, vendor.size() - 1);
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data() + digits, end, info.index);
  uint32_t instance = 0;
  if (error == std::errc() && rest != end && *rest == ':' &&
      std::from_chars(rest + 1, end, instance).ec == std::errc())
    info.gpu_instance = instance;
}

// The last of several values of one time stands.
void sort_by_time(SampleSeries& s) {
  const size_t n = s.time_ns.size();
  bool rises = true;
  for (size_t i = 1; i < n && rises; ++i) rises = s.time_ns[i - 1] < s.time_ns[i];
  if (rises) return;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return s.time_ns[a] < s.time_ns[b]; });
  SampleSeries out{s.device, s.metric, {}, {}};
  for (const size_t i : order) {
    if (out.time_ns.empty() || out.time_ns.back() != s.time_ns[i]) {
      out.time_ns.push_back(s.time_ns[i]);
      out.value.push_back(s.value[i]);
    } else {
      out.value.back() = s.value[i];
    }
  }
  s = std::move(out);
}

void find_parents(std::vector<DeviceInfo>& devices) {
  for (DeviceInfo& d : devices)
    for (uint32_t i = 0; i < devices.size() && d.gpu_instance; ++i)
      if (!devices[i].gpu_instance && devices[i].index == d.index && devices[i].vendor == d.vendor &&
          devices[i].host == d.host)
        d.parent = i;
}

// Puts them in order; new position of each.
std::vector<uint32_t> sort_devices(std::vector<DeviceInfo>& devices) {
  std::vector<uint32_t> order(devices.size()), position(order.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](uint32_t d) {
    return std::tie(devices[d].host, devices[d].vendor, devices[d].index, devices[d].gpu_instance);
  };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  std::vector<DeviceInfo> sorted;
  for (const uint32_t d : order) {
    position[d] = static_cast<uint32_t>(sorted.size());
    sorted.push_back(std::move(devices[d]));
  }
  devices = std::move(sorted);
  find_parents(devices);
  return position;
}

}  // namespace

void sort_samples(SampleLog& log) {
  const std::vector<uint32_t> position = sort_devices(log.devices);
  for (SampleSeries& s : log.series) {
    s.device = position[s.device];
    sort_by_time(s);
  }
  std::sort(log.series.begin(), log.series.end(), [](const SampleSeries& a, const SampleSeries& b) {
    return std::tie(a.device, a.metric) < std::tie(b.device, b.metric);
  });
  const auto earlier = [](const auto& a, const auto& b) {
    return std::tie(a.device, a.time_ns) < std::tie(b.device, b.time_ns);
  };
  for (auto& p : log.processes) p.device = position[p.device];
  for (auto& p : log.process_ticks) p.device = position[p.device];
  std::stable_sort(log.processes.begin(), log.processes.end(), earlier);
  std::stable_sort(log.process_ticks.begin(), log.process_ticks.end(), earlier);
  std::stable_sort(log.marks.begin(), log.marks.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
}

void SampleFileRow::clear() {
  time_ns.reset(), info.numa_node.reset();
  device.clear(), mark.clear();
  for (const auto& [key, text] : kDeviceTexts) (info.*text).clear();
  values.clear(), processes.clear();
  has_processes = false;
}

void SampleLogBuilder::describe(DeviceInfo& info, const SampleFileRow& row) {
  for (const auto& [key, text] : kDeviceTexts) {
    std::string& to = info.*text;
    const std::string& from = row.info.*text;
    if (from.empty() || to == from) continue;
    to = from.substr(0, kLongestText);
    replace_invalid_utf8(to);
  }
  if (row.info.numa_node) info.numa_node = row.info.numa_node;
  for (char& c : info.pci_bus_id) c = lower(c);
}

uint32_t SampleLogBuilder::new_device(const std::string& word, const SampleFileRow& row) {
  if (log_.devices.size() >= kMaxLogDevices) return kNone;
  DeviceInfo info;
  info.index = static_cast<uint32_t>(log_.devices.size());
  const std::string& host = row.info.host;
  std::string_view name = row.device.empty() ? row.info.uuid : word;
  // "node-1 0": a log of several hosts.
  if (!host.empty() && name.starts_with(host) && name.substr(host.size()).starts_with(' '))
    name.remove_prefix(host.size() + 1);
  read_word(name, info);
  log_.devices.push_back(std::move(info));
  devices_.emplace_back().series.fill(kNone);
  return static_cast<uint32_t>(log_.devices.size()) - 1;
}

// A row names its device by a word, by its UUID, by its address, or not at all. The same index may mean another device
// later on (a second log appended, a new order after a reboot, another host): then the UUID or the host differs.
uint32_t SampleLogBuilder::device_of(const SampleFileRow& row) {
  const std::string &uuid = row.info.uuid, &host = row.info.host;
  const std::string& word = !row.device.empty() ? row.device : !uuid.empty() ? uuid : row.info.pci_bus_id;
  unnamed_ |= word.empty();
  if (word.size() > kLongestWord) return kNone;
  const auto agrees = [&](uint32_t d) {
    const auto same = [](const std::string& a, const std::string& b) { return a.empty() || b.empty() || a == b; };
    return same(uuid, log_.devices[d].uuid) && same(host, log_.devices[d].host);
  };
  if (last_device_ != kNone && word == last_word_ && agrees(last_device_)) return last_device_;
  uint32_t found = kNone;
  const auto look_up = [&](const std::string& key) {
    if (const auto it = by_word_.find(key); it != by_word_.end() && agrees(it->second)) found = it->second;
  };
  look_up(word);
  std::string on_host;   // rows of several hosts by turns
  if (found == kNone && !host.empty()) look_up(on_host = host + '\n' + word);
  for (uint32_t d = 0; d < log_.devices.size() && found == kNone && !uuid.empty(); ++d)
    if (log_.devices[d].uuid == uuid && agrees(d)) found = d;
  if (found == kNone) found = new_device(word, row);
  if (found == kNone) return kNone;
  if (by_word_.size() < 4 * kMaxLogDevices) {
    by_word_[word] = found;
    if (!on_host.empty()) by_word_[on_host] = found;
  }
  last_word_ = word;
  return last_device_ = found;
}

bool SampleLogBuilder::add(const SampleFileRow& row) {
  if (!row.time_ns) return false;
  const int64_t time = *row.time_ns;
  if (!row.mark.empty()) {
    log_.marks.push_back({time, row.mark});
    return true;
  }
  const uint32_t d = device_of(row);
  if (d == kNone) return false;
  describe(log_.devices[d], row);
  Device& device = devices_[d];
  for (const auto& [metric, value] : row.values) {
    if (metric_info(metric).kind == MetricKind::kConstant) {
      const auto it = std::find_if(device.constants.begin(), device.constants.end(),
                                   [&, m = metric](auto& c) { return c.first == m; });
      it == device.constants.end() ? void(device.constants.emplace_back(metric, value)) : void(it->second = value);
      continue;
    }
    uint32_t& index = device.series[static_cast<size_t>(metric)];
    if (index == kNone) {
      index = static_cast<uint32_t>(log_.series.size());
      log_.series.push_back({d, metric, {}, {}});
    }
    log_.series[index].time_ns.push_back(time);
    log_.series[index].value.push_back(value);
  }
  if (row.has_processes) log_.process_ticks.push_back({time, d});
  for (const ProcessSample& p : row.processes) log_.processes.push_back({time, d, p});
  log_.first_ns = log_.ticks == 0 ? time : std::min(log_.first_ns, time);
  log_.last_ns = log_.ticks == 0 ? time : std::max(log_.last_ns, time);
  ++log_.ticks;
  return true;
}

SampleLog SampleLogBuilder::finish() {
  for (size_t d = 0; d < devices_.size(); ++d) log_.devices[d].constants = std::move(devices_[d].constants);
  sort_samples(log_);
  return std::move(log_);
}

}  // namespace profgpu
