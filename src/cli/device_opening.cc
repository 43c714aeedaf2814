#include "cli/device_opening.h"

#include <chrono>
#include <cstdlib>

#include "cli/output.h"
#include "collect/pending.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kOpening{30};

}  // namespace

FlagGroup shown_device_flags(bool with_interval) {
  FlagGroup group = device_flags(with_interval, "1");
  std::erase_if(group.flags, [](const Flag& flag) { return flag.name == "--strict"; });
  for (Flag& flag : group.flags)
    if (flag.name == "--device")
      flag.help = "index, UUID, PCI id or cuda:N; several with commas or again (default: all)";
  return group;
}

Result<OpenDevices> open_in_time(const DeviceOptions& options, bool& stuck) {
  Pending<Result<OpenDevices>> pending([options] { return open_devices(options); });
  auto open = pending.await(std::chrono::steady_clock::now() + kOpening);
  stuck = !open;
  if (stuck)
    return Error{"the driver did not answer within 30 s", "`profgpu doctor` shows what hangs; a reboot may be needed"};
  return std::move(*open);
}

void leave_stuck(std::string_view command, const Outcome& outcome) {
  if (!outcome.error.message.empty()) print_error(command, outcome.error);
  std::_Exit(static_cast<int>(outcome.code));
}

Error no_device(const OpenDevices& open) {
  const std::string tried = tried_text(open.tried);
  const bool hidden = open.backend && !open.backend->devices().empty();
  if (hidden)
    return {"every GPU is hidden" + (open.notes.empty() ? "" : " by " + open.notes.front()), "--device all shows them"};
  return {"there is no GPU that profgpu can read" + (tried.empty() ? "" : " (" + tried + ")"),
          "`profgpu doctor` says more of what was tried"};
}

}  // namespace profgpu
