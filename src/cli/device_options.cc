#include "cli/device_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/text.h"
#include "cli/output.h"
#include "devices/sampler.h"
#include "devices/selection.h"

namespace profgpu {

FlagGroup device_flags(std::string_view device, const std::vector<Flag>& more) {
  FlagGroup group{"Devices",
                  {{"--device WHICH...", device},
                   {"--backend NAME", "auto, nvml, smi, amdgpu, intel, replay:FILE or none (default auto)"}}};
  group.flags.insert(group.flags.end(), more.begin(), more.end());
  return group;
}

Result<DeviceOptions> device_options(const Arguments& arguments, std::string_view otherwise, int64_t interval_ns) {
  DeviceOptions options;
  options.device = arguments.values("--device");
  if (options.device.empty() && !otherwise.empty()) options.device.emplace_back(otherwise);
  options.backend = arguments.value("--backend", "auto");
  if (Status known = check_backend(options.backend); !known) return known.error();
  options.strict = arguments.has("--strict");
  options.interval_ns = interval_ns;
  OptionReader read(arguments);
  read.time("--interval", kShortestSampling_ns, kLongestSampling_ns, options.interval_ns);
  if (!read.status()) return read.status().error();
  return options;
}

std::string tried_text(const std::vector<Tried>& tried) {
  return joined(tried, "; ", [](const Tried& t) {
    return fmt::format("{}: {}", t.backend, t.error.message.substr(0, t.error.message.find('\n')));
  });
}

namespace {

constexpr std::string_view kAskDoctor = "`profgpu doctor` shows which drivers were tried, and why each failed";

// Of the backend that was asked for; of all of them it would be a paragraph.
std::string only_reason(const std::vector<Tried>& tried) {
  return tried.size() == 1 ? " (" + tried_text(tried) + ")" : "";
}

}  // namespace

Result<OpenDevices> open_devices(const DeviceOptions& options) {
  auto opened =
      open_backend(options.backend, {.interval_ns = options.interval_ns, .constants_later = options.constants_later});
  if (!opened) return opened.error();
  OpenDevices open;
  open.tried = std::move(opened->tried);
  if (!opened->backend || opened->backend->devices().empty()) {
    const bool named_none = options.backend == "none";
    if (named_none && !options.strict) return open;
    const std::string why = named_none ? " (--backend none reads nothing)" : only_reason(open.tried);
    if (options.strict) return Error{"no GPU can be read" + why, std::string(kAskDoctor)};
    open.notes.push_back(fmt::format("no GPU found{}; `profgpu doctor` shows why", why));
    return open;
  }
  open.backend = std::move(opened->backend);
  auto selection = select_devices(open.backend->devices(), options.device);
  if (!selection) return selection.error();
  open.devices = std::move(selection->devices);
  if (!selection->note.empty()) open.notes.push_back(std::move(selection->note));
  return open;
}

namespace {

constexpr std::chrono::seconds kOpening{30};

Error no_device(const OpenDevices& open) {
  if (open.backend && !open.backend->devices().empty())
    return {"every GPU is hidden" + (open.notes.empty() ? "" : " by " + open.notes.front()), "show them: --device all"};
  return {"no GPU found that profgpu can read" + only_reason(open.tried), std::string(kAskDoctor)};
}

}  // namespace

Result<OpenDevices> open_shown(std::string_view command, const DeviceOptions& options) {
  Pending<Result<OpenDevices>> pending([options] { return open_devices(options); });
  auto open = pending.await(std::chrono::steady_clock::now() + kOpening);
  if (!open)
    leave_stuck(command, Error{"the driver did not answer within 30 s",
                               "run `profgpu doctor` to see what hangs; a reboot may be needed"});
  if (*open && (!(*open)->backend || (*open)->devices.empty())) return no_device(**open);
  return std::move(*open);
}

void leave_stuck(std::string_view command, const Outcome& outcome) {
  if (!outcome.error.message.empty()) print_error(command, outcome.error);
  std::_Exit(static_cast<int>(outcome.code));
}

std::vector<std::optional<std::vector<Fact>>> PendingFacts::await(std::chrono::steady_clock::time_point deadline) {
  std::vector<std::optional<std::vector<Fact>>> facts;
  for (auto& one : pending_) facts.push_back(one.await(deadline));
  left_in_driver = left_in_driver || std::find(facts.begin(), facts.end(), std::nullopt) != facts.end();
  return facts;
}

}  // namespace profgpu
