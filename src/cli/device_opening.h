// Opening devices for commands that show what is now: with a deadline, and an error where there is nothing to show.
#pragma once

#include <string_view>

#include "cli/device_options.h"

namespace profgpu {

/// device_flags() for commands that show all devices unless told otherwise, and fail where there is none.
FlagGroup shown_device_flags(bool with_interval = false);
/// open_devices() with a deadline of half a minute: a driver that starts many devices takes long, one that hangs for
/// ever. After a deadline that has passed the program should leave by std::_Exit; `stuck` is then true.
Result<OpenDevices> open_in_time(const DeviceOptions& options, bool& stuck);
/// Says the outcome's error, if any, and ends the program without waiting for the thread that is stuck in the driver.
[[noreturn]] void leave_stuck(std::string_view command, const Outcome& outcome);
/// Why there is nothing to show, where `open` has no device.
Error no_device(const OpenDevices& open);

}  // namespace profgpu
