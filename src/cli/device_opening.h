// Opening devices for commands that show what is now: with a deadline, and an error where there is nothing to show.
#pragma once

#include <string_view>

#include "cli/device_options.h"
#include "devices/pending.h"

namespace profgpu {

/// device_flags() for commands that show all devices unless told otherwise, and fail where there is none.
FlagGroup shown_device_flags(bool with_interval = false);
/// Opens them for a command that needs one at least. A driver that does not answer within half a minute ends the
/// program.
Result<OpenDevices> open_shown(std::string_view command, const DeviceOptions& options);
/// Says the outcome's error, if any, and ends the program without waiting for the thread that is stuck in the driver.
[[noreturn]] void leave_stuck(std::string_view command, const Outcome& outcome);
/// Writes `text` to standard output; `stuck` as in leave_stuck(). `otherwise`: the outcome where it could be written.
Outcome show_text(std::string_view command, std::string_view text, bool stuck, Outcome otherwise = {});

/// What devices say once, waited for until a deadline only: one that hangs keeps nobody's facts but its own.
class PendingFacts {
 public:
  PendingFacts(const std::shared_ptr<Backend>& backend, const std::vector<uint32_t>& devices) {
    for (const uint32_t d : devices) asked_.emplace_back([backend, d] { return backend->device_facts(d); });
  }
  /// In the order of the devices; nullopt: not told in time, and its thread is still in the driver.
  std::vector<std::optional<std::vector<Fact>>> await(std::chrono::steady_clock::time_point deadline);

 private:
  std::vector<Pending<std::vector<Fact>>> asked_;
};

}  // namespace profgpu
