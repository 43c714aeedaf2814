// The processes that the screen lists: chosen, in order, as a tree where asked for.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "watch/live/live_view.h"
#include "watch/top/history.h"

namespace profgpu {

enum class ProcessColumn : uint8_t { kDevice, kPid, kUser, kMemory, kSm, kCpu, kHostMemory, kTime, kPlace, kCommand };
constexpr size_t kProcessColumnCount = static_cast<size_t>(ProcessColumn::kCommand) + 1;

struct ProcessOrder {
  ProcessColumn column = ProcessColumn::kMemory;
  bool descending = true;
  bool tree = false;
  std::string filter = {};            ///< part of command, user, pid, device or place; letters of either case
};

struct ProcessEntry {
  size_t device = 0;                  ///< position in the view
  const LiveProcess* process = nullptr;
  const HostProcess* parent = nullptr;   ///< instead: a parent that is on no device
  int depth = 0;                      ///< in the tree
  [[nodiscard]] ProcessKey key() const { return {device, process ? process->sample.pid : -parent->visible_pid}; }
};

/// Entries point into the view. `only`: processes of one device.
std::vector<ProcessEntry> process_list(const LiveView& view, const ProcessOrder& order,
                                       std::optional<size_t> only = {});

/// The words of a process: what the host knows, else what the driver said.
std::string command_text(const ProcessEntry& entry);
/// "node-b 0", "0", "0:7": as short as it is unique.
std::string device_text(const LiveView& view, size_t device);

}  // namespace profgpu
