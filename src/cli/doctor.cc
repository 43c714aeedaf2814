// profgpu doctor: which GPUs can be read, and what is wrong with them and the machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "analyse/report/quantity.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/stat_view.h"
#include "cli/terminal.h"
#include "devices/nvml_library.h"
#include "devices/selection.h"
#include "devices/system_checks.h"
#include "view/json_text.h"
#include "view/layout.h"
#include "view/wording.h"
#include "watch/live/snapshot.h"

namespace profgpu {
namespace {

/// One way to read devices, and whether it works here.
struct BackendFinding {
  std::string_view name, summary;
  enum State { kWorks, kNotThere, kSilent, kNotTried } state = kNotTried;
  std::string detail, hint;
  size_t devices = 0;
};

struct DoctorFindings {
  std::vector<BackendFinding> backends;
  SystemChecks checks;
  bool stuck = false;          ///< something has not come back: leave by std::_Exit
};

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kOpeningLimit{4000}, kFacts{5500};  // from the start
constexpr int64_t kLook_ns = 1'000'000'000;
constexpr std::string_view kSilence = "did not answer within 4 s";
constexpr std::string_view kSilenceHint =
    "without persistence mode the first call after a while takes seconds: try again; a driver that hangs needs a "
    "reboot";

struct OpenedBackends {
  std::vector<BackendFinding> findings;
  std::shared_ptr<Backend> backend;   // null: none works
  bool stuck = false;
};

void take_result(BackendFinding& finding, const Backend* backend, const Error* error) {
  finding.devices = backend ? backend->devices().size() : 0;
  finding.state = finding.devices > 0 ? BackendFinding::kWorks : BackendFinding::kNotThere;
  finding.detail = error ? error->message : finding.devices == 0 ? "found no device" : finding.devices == 1 ? "1 device"
                                                                   : fmt::format("{} devices", finding.devices);
  finding.hint = error ? error->hint : "";
}

// All at the same time: what hangs must not keep the others from being tried.
OpenedBackends open_all(Clock::time_point deadline) {
  using Opening = Pending<Result<std::unique_ptr<Backend>>>;
  std::vector<std::pair<const BackendKind*, std::unique_ptr<Opening>>> running;
  for (const BackendKind* kind : backend_kinds())
    running.emplace_back(
        kind, kind->automatic ? std::make_unique<Opening>([open = kind->open] { return open({}); }) : nullptr);
  OpenedBackends out;
  std::vector<std::unique_ptr<Backend>> working;
  for (auto& [kind, opening] : running) {
    BackendFinding finding{kind->name, kind->summary, BackendFinding::kNotTried, "", "", 0};
    if (!opening) {
      finding.detail = "only where it is asked for";
      finding.hint = fmt::format("--backend {}:FILE", kind->name);
    } else if (auto result = opening->await(deadline); !result) {
      finding.state = BackendFinding::kSilent;
      finding.detail = kSilence;
      finding.hint = kSilenceHint;
      out.stuck = true;
    } else {
      take_result(finding, *result ? (**result).get() : nullptr, *result ? nullptr : &result->error());
      const bool again =
          kind->name == "smi" && !working.empty() && working.front()->devices().front().vendor == "NVIDIA";
      if (finding.state == BackendFinding::kWorks && !again) working.push_back(std::move(**result));
    }
    out.findings.push_back(std::move(finding));
  }
  if (!working.empty()) out.backend = composite_backend(std::move(working));
  return out;
}

OpenedBackends open_named(const std::string& spec, Clock::time_point deadline) {
  OpenedBackends out;
  Pending<Result<Opened>> opening([spec] { return open_backend(spec, {}); });
  auto result = opening.await(deadline);
  for (const BackendKind* kind : backend_kinds()) {
    BackendFinding finding{kind->name, kind->summary, BackendFinding::kNotTried, "not asked for", "", 0};
    if (spec.substr(0, spec.find(':')) == kind->name) {
      finding.state = BackendFinding::kSilent;
      finding.detail = kSilence;
      finding.hint = kSilenceHint;
      if (result)
        take_result(finding, *result ? (*result)->backend.get() : nullptr, *result ? nullptr : &result->error());
    }
    out.findings.push_back(std::move(finding));
  }
  out.stuck = !result;
  if (result && *result && (*result)->backend && !(*result)->backend->devices().empty())
    out.backend = (*result)->backend;
  return out;
}

// False: the driver did not come back.
bool examine_devices(const std::shared_ptr<Backend>& backend, const std::vector<uint32_t>& which,
                     Clock::time_point deadline, SystemChecks& checks) {
  PendingFacts pending(backend, which);
  Snapshots snapshots(backend, which, {.processes = false, .deadline_ns = kLook_ns});
  const std::vector<DeviceLook> looks = snapshots.take();
  const auto facts = pending.await(deadline);
  for (size_t i = 0; i < looks.size(); ++i) {
    const DeviceLook& look = looks[i];
    const SystemChecks found = device_checks({.info = &backend->devices()[look.device],
                                              .trouble = look.state == DeviceState::kOk ? "" : look.message,
                                              .reading = &look.reading,
                                              .facts = facts[i] ? &*facts[i] : nullptr});
    checks.insert(checks.end(), found.begin(), found.end());
  }
  const bool told = std::find(facts.begin(), facts.end(), std::nullopt) == facts.end();
  if (!told)
    checks.push_back({"facts", "", Health::kWarning, "the driver did not tell modes and links in time",
                      "`nvidia-smi -q` shows whether it hangs; persistence mode makes it faster"});
  return told && !snapshots.any_stuck();
}

SystemCheck no_device_check(const std::vector<BackendFinding>& backends) {
  std::string names;
  for (const BackendFinding& b : backends)
    if (b.state != BackendFinding::kNotTried) names += (names.empty() ? "" : ", ") + std::string(b.name);
  return {"devices", "", Health::kWarning, "no GPU can be read here" + (names.empty() ? "" : " (tried: " + names + ")"),
          "below stands for each backend why it is not there"};
}

// What is installed and does not work; what is not installed is no problem of this machine.
void add_backend_checks(const std::vector<BackendFinding>& backends, SystemChecks& checks) {
  for (const BackendFinding& b : backends) {
    const bool refuses = b.state == BackendFinding::kNotThere && b.name == "nvml" && nvml::installed();
    if (b.state == BackendFinding::kSilent || refuses)
      checks.push_back({"backend", "", Health::kProblem, fmt::format("{}: {}", b.name, b.detail), b.hint});
  }
}

/// `backend`: "auto" tries all; else as --backend takes it. `words`: what --device gave. At most six seconds.
DoctorFindings examine(const std::string& backend, const std::vector<std::string>& words) {
  const auto begin = Clock::now();
  Pending<SystemChecks> machine([deadline = begin + kOpeningLimit] {
    return run_probes(machine_probes(), SystemRoots::from_environment(), deadline);
  });
  OpenedBackends opened =
      backend == "auto" ? open_all(begin + kOpeningLimit) : open_named(backend, begin + kOpeningLimit);
  DoctorFindings out;
  out.backends = std::move(opened.findings);
  out.stuck = opened.stuck;
  add_backend_checks(out.backends, out.checks);
  if (!opened.backend) {
    out.checks.push_back(no_device_check(out.backends));
  } else if (auto selected =
                 select_devices(opened.backend->devices(), words.empty() ? std::vector<std::string>{"all"} : words);
             !selected) {
    out.checks.push_back({"devices", "", Health::kProblem, selected.error().message, selected.error().hint});
  } else {
    out.stuck |= !examine_devices(opened.backend, selected->devices, begin + kFacts, out.checks);
  }
  const auto checks = machine.await(begin + kFacts);
  if (checks) out.checks.insert(out.checks.end(), checks->begin(), checks->end());
  out.stuck |= !checks;
  for (const SystemCheck& c : out.checks) out.stuck |= c.detail == kProbeSilent;
  return out;
}

std::string_view backend_state_name(BackendFinding::State state) {
  switch (state) {
    case BackendFinding::kWorks: return "works";
    case BackendFinding::kNotThere: return "not_there";
    case BackendFinding::kSilent: return "not_answering";
    case BackendFinding::kNotTried: return "not_tried";
  }
  return "";
}

struct CheckMark {
  std::string_view text;
  Style style;
};

CheckMark mark_of(Health health) {
  switch (health) {
    case Health::kOk: return {"✓ ", Style::kGood};
    case Health::kUnknown: return {"? ", Style::kFaint};
    case Health::kWarning: return {"! ", Style::kWarn};
    case Health::kProblem: return {"✗ ", Style::kStrongBad};
  }
  return {"", Style::kPlain};
}

/// The same said by several devices.
struct GroupedCheck {
  const SystemCheck* check;
  std::vector<std::string> devices;
};

std::vector<GroupedCheck> said_of(const SystemChecks& checks) {
  std::vector<GroupedCheck> all;
  for (const SystemCheck& c : checks) {
    auto it = std::find_if(all.begin(), all.end(), [&](const GroupedCheck& s) {
      return !c.device.empty() && s.check->id == c.id && s.check->verdict == c.verdict && s.check->detail == c.detail;
    });
    if (it == all.end()) it = all.insert(all.end(), {&c, {}});
    if (!c.device.empty()) it->devices.push_back(c.device);
  }
  return all;
}

// "GPU 0–7", "GPU 0:7, 1"; empty for the machine.
std::string devices_text(const GroupedCheck& said) {
  if (said.devices.empty()) return "";
  std::vector<int> numbers;
  std::string list;
  for (const std::string& label : said.devices) {
    if (label.find_first_not_of("0123456789") == label.npos && label.size() < 6) numbers.push_back(std::stoi(label));
    list += (list.empty() ? "" : ", ") + label;
  }
  return "GPU " + (numbers.size() == said.devices.size() ? number_ranges(numbers) : list) + ": ";
}

void add_said(Lines& lines, const GroupedCheck& said, int width, bool with_hint) {
  const CheckMark mark = mark_of(said.check->verdict);
  const bool quiet = said.check->verdict == Health::kOk || said.check->verdict == Health::kUnknown;
  append(lines, wrapped_after(Line().skip(2).add(mark.text, mark.style), devices_text(said) + said.check->detail, width,
                              quiet ? Style::kPlain : Style::kStrong));
  if (with_hint && !said.check->hint.empty())
    append(lines, wrapped_after(Line().skip(6), said.check->hint, width, Style::kFaint));
}

CheckMark mark_of(BackendFinding::State state) {
  switch (state) {
    case BackendFinding::kWorks: return mark_of(Health::kOk);
    case BackendFinding::kSilent: return mark_of(Health::kProblem);
    case BackendFinding::kNotThere: return {"– ", Style::kFaint};
    case BackendFinding::kNotTried: return {"· ", Style::kFaint};
  }
  return {"", Style::kPlain};
}

void add_backends(Lines& lines, const std::vector<BackendFinding>& backends, int width) {
  lines.push_back(Line());
  lines.push_back(Line("Backends", Style::kStrong));
  for (const BackendFinding& b : backends) {
    const CheckMark mark = mark_of(b.state);
    Line head = Line().skip(2).add(mark.text, mark.style).add(fmt::format("{:<8}", b.name));
    append(lines, wrapped_after(std::move(head), b.detail, width));
    if (!b.hint.empty() && b.state != BackendFinding::kWorks)
      append(lines, wrapped_after(Line().skip(12), b.hint, width, Style::kFaint));
  }
}

size_t count_of(const SystemChecks& checks, Health verdict) {
  return static_cast<size_t>(
      std::count_if(checks.begin(), checks.end(), [&](const auto& c) { return c.verdict == verdict; }));
}

std::string title_of(const SystemChecks& checks) {
  const auto number = [&](Health h, std::string_view one, std::string_view many) {
    const auto n = static_cast<int64_t>(count_of(checks, h));
    return n == 0 ? fmt::format("no {}", many) : plural(n, one, many);
  };
  return fmt::format("{}, {}; {} of {} checks are fine", number(Health::kProblem, "problem", "problems"),
                     number(Health::kWarning, "warning", "warnings"), count_of(checks, Health::kOk), checks.size());
}

Lines doctor_lines(const DoctorFindings& findings, int width) {
  const std::vector<GroupedCheck> said = said_of(findings.checks);
  Lines lines = {Line(title_of(findings.checks), Style::kStrong)};
  for (const Health verdict : {Health::kProblem, Health::kWarning})
    for (const GroupedCheck& s : said)
      if (s.check->verdict == verdict) add_said(lines, s, width, true);
  add_backends(lines, findings.backends, width);
  constexpr std::pair<std::string_view, std::string_view> kGroups[] = {{"devices", "Devices"},
                                                                       {"driver", "Driver"},
                                                                       {"container", "Container"},
                                                                       {"environment", "Environment"},
                                                                       {"machine", "Machine"}};
  for (const auto& [group, title] : kGroups) {
    Lines below;
    for (const GroupedCheck& s : said)
      if (group_of(*s.check) == group && s.check->verdict <= Health::kUnknown) add_said(below, s, width, true);
    if (below.empty()) continue;
    append(lines, {Line(), Line(title, Style::kStrong)});
    append(lines, std::move(below));
  }
  append(lines, {Line(), Line("Next: profgpu devices   ·   profgpu stat   ·   profgpu -- COMMAND", Style::kFaint)});
  return lines;
}

std::string doctor_json(const DoctorFindings& findings) {
  Table backends{{"name", "state", "devices", "detail", "hint"}, {}};
  Table checks{{"id", "group", "device", "verdict", "detail", "hint"}, {}};
  for (const BackendFinding& b : findings.backends)
    backends.rows.push_back({b.name, backend_state_name(b.state), b.devices, b.detail, unless_empty(b.hint)});
  for (const SystemCheck& c : findings.checks)
    checks.rows.push_back({c.id, group_of(c), unless_empty(c.device), health_name(c.verdict), c.detail,
                           unless_empty(c.hint)});
  return json_document(Record()
                           .add("schema", "profgpu.doctor.v1")
                           .add("time", iso_time(unix_ns()))
                           .add("backends", std::move(backends))
                           .add("checks", std::move(checks)));
}

Outcome doctor(const Arguments& arguments) {
  auto options = device_options(arguments, 1'000'000'000);
  if (!options) return Outcome::usage(options.error());
  const DoctorFindings findings = examine(options->backend, options->device);
  const int width = output_width();
  const std::string text = arguments.has("--json") ? doctor_json(findings)
                                                   : rendered(doctor_lines(findings, width), width,
                                                              output_colour(asked_colour(arguments)));
  const bool failed = options->strict && count_of(findings.checks, Health::kProblem) > 0;
  return show_text("doctor", text, findings.stuck, {failed ? ExitCode::kFailed : ExitCode::kOk});
}

FlagGroup doctor_device_flags() {
  return device_flags(
      {.device = "only these: index, UUID, PCI id, cuda:N; several with commas or again (default: all)",
       .backend = "only this: nvml, smi, amdgpu, intel, replay:FILE or none (default: auto, which tries all)",
       .strict = "exit 1 if there is a problem"});
}

}  // namespace

extern const Command kDoctor;
const Command kDoctor{
    .name = "doctor",
    .summary = "which GPUs can be read, and what is wrong with them and the machine",
    .positional = "",
    .groups = {doctor_device_flags(),
               {"What to show", {{.name = "--json", .help = "everything, as JSON"}, colour_flag()}}},
    .examples = {{"profgpu doctor", "problems first, then all that was looked at"},
                 {"profgpu doctor --json | jq '.checks[] | select(.verdict == \"problem\")'",
                  "problems, for a program"},
                 {"profgpu doctor --strict >/dev/null || drain-this-node", "as a node's health check"}},
    .notes =
        "Looks at: every backend and why it is not there; driver and libraries and whether they fit; device files and "
        "rights; the container; PCIe, NVLink, memory errors, modes, clocks and limits of each device; Xid errors in "
        "the kernel log; variables of CUDA, PyTorch and NCCL; clock, processor governor, limits, perf events, memory "
        "nodes, IOMMU. It "
        "changes nothing and takes at most six seconds, whatever hangs. Where it may not look it says so: as an "
        "administrator it sees more. PROFGPU_NVML_LIBRARY and PROFGPU_NVIDIA_SMI name a library and a program to use "
        "instead of those that are found. Exit status: 0 looked, also without any GPU; 1 with --strict where there is "
        "a "
        "problem; 2 usage.",
    .run = doctor,
};

}  // namespace profgpu
