#include "cli/device_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cli/output.h"
#include "devices/sampler.h"
#include "devices/selection.h"

namespace profgpu {
namespace {

std::string_view first_sentence(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

FlagGroup device_flags(const DeviceFlags& flags) {
  FlagGroup group{"Devices",
                  {{.name = "--device", .value = "WHICH", .help = flags.device, .repeatable = true},
                   {.name = "--backend", .value = "NAME", .help = flags.backend}}};
  if (!flags.strict.empty()) group.flags.push_back({.name = "--strict", .help = flags.strict});
  if (!flags.interval.empty())
    group.flags.push_back({.name = "--interval", .short_name = "-i", .value = "TIME", .help = flags.interval});
  return group;
}

Result<DeviceOptions> device_options(const Arguments& arguments, int64_t default_interval_ns) {
  DeviceOptions options;
  options.device = arguments.values("--device");
  options.backend = arguments.value("--backend", "auto");
  if (Status known = check_backend(options.backend); !known) return known.error();
  options.strict = arguments.has("--strict");
  options.interval_ns = default_interval_ns;
  const Takes takes{"a time from 1ms to 24h", kShortestSampling_ns, kLongestSampling_ns,
                    "seconds, or a number with a unit: --interval 0.2, --interval 100ms"};
  if (Status read = read_option(arguments, "--interval", duration_ns, takes, options.interval_ns); !read)
    return read.error();
  return options;
}

std::string tried_text(const std::vector<Tried>& tried) {
  std::string text;
  for (const Tried& t : tried)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", t.backend, first_sentence(t.error.message));
  return text;
}

Result<OpenDevices> open_devices(const DeviceOptions& options) {
  auto opened =
      open_backend(options.backend, {.interval_ns = options.interval_ns, .constants_later = options.constants_later});
  if (!opened) return opened.error();
  OpenDevices open;
  open.tried = std::move(opened->tried);
  if (!opened->backend || opened->backend->devices().empty()) {
    if (options.backend == "none" && !options.strict) return open;
    const std::string why = options.backend == "none" ? "--backend none watches nothing" : tried_text(open.tried);
    if (options.strict)
      return Error{"no device can be read" + (why.empty() ? "" : " (" + why + ")"), "`profgpu doctor` tells more"};
    open.notes.push_back(fmt::format("no device is watched ({}); `profgpu doctor` tells more", why));
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
  const std::string tried = tried_text(open.tried);
  const bool hidden = open.backend && !open.backend->devices().empty();
  if (hidden)
    return {"every GPU is hidden" + (open.notes.empty() ? "" : " by " + open.notes.front()), "--device all shows them"};
  return {"there is no GPU that profgpu can read" + (tried.empty() ? "" : " (" + tried + ")"),
          "`profgpu doctor` says more of what was tried"};
}

}  // namespace

FlagGroup shown_device_flags(bool with_interval) {
  return device_flags({.device = "index, UUID, PCI id or cuda:N; several with commas or again (default: all)",
                       .strict = "",
                       .interval = with_interval ? kIntervalHelp : ""});
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
