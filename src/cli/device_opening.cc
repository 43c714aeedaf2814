#include "cli/device_opening.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cli/output.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kOpening{30};

Error no_device(const OpenDevices& open) {
  const std::string tried = tried_text(open.tried);
  const bool hidden = open.backend && !open.backend->devices().empty();
  if (hidden)
    return {"every GPU is hidden" + (open.notes.empty() ? "" : " by " + open.notes.front()), "--device all shows them"};
  return {"there is no GPU that profgpu can read" + (tried.empty() ? "" : " (" + tried + ")"),
          "`profgpu doctor` says more of what was tried"};
}

}  // namespace

FlagGroup shown_device_flags(bool with_interval) {
  FlagGroup group = device_flags(with_interval, "1");
  std::erase_if(group.flags, [](const Flag& flag) { return flag.name == "--strict"; });
  for (Flag& flag : group.flags)
    if (flag.name == "--device")
      flag.help = "index, UUID, PCI id or cuda:N; several with commas or again (default: all)";
  return group;
}

Result<OpenDevices> open_shown(std::string_view command, const DeviceOptions& options) {
  Pending<Result<OpenDevices>> pending([options] { return open_devices(options); });
  auto open = pending.await(std::chrono::steady_clock::now() + kOpening);
  if (!open)
    leave_stuck(command, Outcome::failed({"the driver did not answer within 30 s",
                                          "`profgpu doctor` shows what hangs; a reboot may be needed"}));
  if (*open && (!(*open)->backend || (*open)->devices.empty())) return no_device(**open);
  return std::move(*open);
}

void leave_stuck(std::string_view command, const Outcome& outcome) {
  if (!outcome.error.message.empty()) print_error(command, outcome.error);
  std::_Exit(static_cast<int>(outcome.code));
}

Outcome show_text(std::string_view command, std::string_view text, bool stuck, Outcome otherwise) {
  const auto written = write_stdout(text);
  Outcome outcome = written ? std::move(otherwise) : Outcome::failed(written.error());
  if (stuck) leave_stuck(command, outcome);
  return outcome;
}

std::vector<std::optional<std::vector<Fact>>> PendingFacts::await(std::chrono::steady_clock::time_point deadline) {
  std::vector<std::optional<std::vector<Fact>>> facts;
  for (auto& asked : asked_) facts.push_back(asked.await(deadline));
  left_in_driver = left_in_driver || std::find(facts.begin(), facts.end(), std::nullopt) != facts.end();
  return facts;
}

}  // namespace profgpu
