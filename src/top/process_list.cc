#include "top/process_list.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace profgpu {
namespace {

bool matches(const LiveView& view, const ProcessEntry& entry, const std::string& wanted) {
  if (wanted.empty()) return true;
  const HostProcess& host = entry.process->host;
  for (const std::string& text : {command_text(entry), host.user, std::to_string(entry.process->sample.pid), host.place(),
                                  "gpu " + device_text(view, entry.device)})
    if (lower_case(text).find(wanted) != std::string::npos) return true;
  return false;
}

// What a column orders by; texts are compared apart. What is not known comes last.
double number(const ProcessEntry& e, ProcessColumn column) {
  constexpr double kNone = -1;
  const auto of = [](const auto& x) { return x ? static_cast<double>(*x) : kNone; };
  const ProcessSample& sample = e.process->sample;
  const HostProcess& host = e.process->host;
  switch (column) {
    case ProcessColumn::kDevice: return static_cast<double>(e.device);
    case ProcessColumn::kPid: return static_cast<double>(sample.pid);
    case ProcessColumn::kMemory: return of(sample.memory_bytes);
    case ProcessColumn::kSm: return of(sample.utilization_pct);
    case ProcessColumn::kCpu: return of(host.cpu_pct);
    case ProcessColumn::kHostMemory: return of(host.memory_bytes);
    case ProcessColumn::kTime: return host.start_ns ? -static_cast<double>(*host.start_ns) : -1e19;   // the longest first
    default: return 0;
  }
}

std::string text(const ProcessEntry& e, ProcessColumn column) {
  switch (column) {
    case ProcessColumn::kUser: return e.process->host.user;
    case ProcessColumn::kPlace: return e.process->host.place();
    case ProcessColumn::kCommand: return command_text(e);
    default: return "";
  }
}

void sort(std::vector<ProcessEntry>& entries, const ProcessOrder& order) {
  const ProcessColumn c = order.column;
  std::stable_sort(entries.begin(), entries.end(), [&](const ProcessEntry& a, const ProcessEntry& b) {
    const double x = number(a, c), y = number(b, c);
    if (x != y) return order.descending ? x > y : x < y;
    const std::string s = text(a, c), t = text(b, c);
    if (s != t) return order.descending ? s > t : s < t;
    return a.key() < b.key();
  });
}

/// Puts each process below its parent, if that is shown or known.
class ProcessTree {
 public:
  ProcessTree(const LiveView& view, std::vector<ProcessEntry> sorted) : sorted_(std::move(sorted)) {
    for (const ProcessEntry& e : sorted_)
      if (const int64_t pid = e.process->host.visible_pid; pid != 0) shown_.insert(pid);
    for (const HostProcess& p : view.parents)
      if (p.visible_pid != 0) parents_[p.visible_pid] = &p;
    for (const ProcessEntry& e : sorted_) below_[above(e)].push_back(e);
  }

  std::vector<ProcessEntry> entries() {
    for (const ProcessEntry& e : sorted_) {
      const int64_t up = above(e);
      if (up == 0) {
        add(e, 0);
      } else if (const auto it = parents_.find(up); it != parents_.end() && done_.insert(up).second) {
        out_.push_back({e.device, nullptr, it->second, 0});
        add_below(up, 1);
      }
    }
    return std::move(out_);
  }

 private:
  // The pid that a process hangs under; 0: none.
  [[nodiscard]] int64_t above(const ProcessEntry& e) const {
    const int64_t parent = e.process->host.parent;
    return parent != e.process->host.visible_pid && (shown_.contains(parent) || parents_.contains(parent)) ? parent : 0;
  }
  void add(const ProcessEntry& e, int depth) {
    out_.push_back(e);
    out_.back().depth = depth;
    // A process on several devices has its children once.
    if (const int64_t pid = e.process->host.visible_pid; pid != 0 && done_.insert(pid).second) add_below(pid, depth + 1);
  }
  void add_below(int64_t pid, int depth) {
    const auto it = below_.find(pid);
    if (it == below_.end() || depth > kDeepest) return;
    for (const ProcessEntry& e : it->second) add(e, depth);
  }

  static constexpr int kDeepest = 64;
  std::vector<ProcessEntry> sorted_, out_;
  std::set<int64_t> shown_, done_;
  std::map<int64_t, const HostProcess*> parents_;
  std::map<int64_t, std::vector<ProcessEntry>> below_;
};

}  // namespace

std::string command_text(const ProcessEntry& entry) {
  const std::string known = entry.parent ? entry.parent->command_line() : entry.process->host.command_line();
  return known.empty() && entry.process ? entry.process->sample.name : known;
}

std::string device_text(const LiveView& view, size_t device) {
  const LiveDevice& d = view.devices[device];
  const std::string label = d.info->label();
  for (const LiveDevice& other : view.devices)
    if (other.info->label() == label && other.host == d.host && other.info->vendor != d.info->vendor)
      return d.info->vendor + " " + label;
  return view.hosts.size() > 1 ? view.hosts[d.host].name + " " + label : label;
}

std::vector<ProcessEntry> process_list(const LiveView& view, const ProcessOrder& order, std::optional<size_t> only) {
  std::vector<ProcessEntry> entries;
  const std::string wanted = lower_case(order.filter);
  for (size_t d = 0; d < view.devices.size(); ++d) {
    if (only && *only != d) continue;
    for (const LiveProcess& p : view.devices[d].processes) {
      const ProcessEntry entry{d, &p, nullptr, 0};
      if (matches(view, entry, wanted)) entries.push_back(entry);
    }
  }
  sort(entries, order);
  return order.tree ? ProcessTree(view, std::move(entries)).entries() : entries;
}

}  // namespace profgpu
