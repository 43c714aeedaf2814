// profgpu doctor: problems of GPUs, driver and machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "analyse/report/quantity.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/stat_view.h"
#include "cli/terminal.h"
#include "devices/nvml_library.h"
#include "devices/selection.h"
#include "devices/system_checks.h"
#include "measure/result/bench_result.h"
#include "view/json_text.h"
#include "view/layout.h"
#include "view/wording.h"
#include "watch/live/snapshot.h"

namespace profgpu {
namespace {

/// One way to read devices, and whether it works here.
struct BackendFinding {
  std::string_view name;
  enum State { kWorks, kNotThere, kSilent, kNotTried } state = kNotTried;
  std::string detail, hint = {};
  size_t devices = 0;
  bool again = false;   ///< these are another backend's
};

struct DoctorFindings {
  std::vector<BackendFinding> backends;
  SystemChecks checks;
  bool stuck = false;          ///< a thread is still blocked: leave by std::_Exit
};

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kOpeningLimit{4000}, kFactsLimit{5500};  // from the start
constexpr int64_t kLook_ns = kSecond_ns;

using BackendOpening = Pending<Result<std::unique_ptr<Backend>>>;

BackendFinding finding_of(std::string_view name, const std::optional<Result<std::unique_ptr<Backend>>>& result) {
  if (!result)
    return {name, BackendFinding::kSilent, "did not answer within 4 s",
            "without persistence mode the first call after a while takes seconds: try again; a driver that hangs needs "
            "a reboot"};
  if (!*result) return {name, BackendFinding::kNotThere, result->error().message, result->error().hint};
  const size_t devices = (**result)->devices().size();
  if (devices == 0) return {name, BackendFinding::kNotThere, "found no device"};
  return {name, BackendFinding::kWorks, plural(static_cast<int64_t>(devices), "device", "devices"), "", devices};
}

// All at the same time: one that hangs must not keep the others from being tried. `spec`: as --backend takes it. Null:
// no backend works.
std::shared_ptr<Backend> open_backends(const std::string& spec, Clock::time_point deadline, DoctorFindings& out) {
  const size_t colon = std::min(spec.find(':'), spec.size());
  std::vector<std::unique_ptr<BackendOpening>> running;
  for (const BackendKind* kind : backend_kinds()) {
    const bool wanted = spec == "auto" ? kind->automatic : spec.substr(0, colon) == kind->name;
    running.push_back(wanted ? std::make_unique<BackendOpening>([open = kind->open, file = spec.substr(colon)] {
      return open({.argument = file.substr(std::min<size_t>(file.size(), 1))});
    }) : nullptr);
  }
  std::vector<std::unique_ptr<Backend>> working;
  for (size_t i = 0; i < running.size(); ++i) {
    const BackendKind& kind = *backend_kinds()[i];
    if (!running[i]) {
      out.backends.push_back({kind.name, BackendFinding::kNotTried, "not requested"});
      if (!kind.automatic) out.backends.back().hint = fmt::format("--backend {}:FILE", kind.name);
      continue;
    }
    auto result = running[i]->await(deadline);
    out.backends.push_back(finding_of(kind.name, result));
    out.stuck |= !result;
    // nvidia-smi shows the same devices as NVML.
    const bool again = kind.name == "smi" && !working.empty() && working.front()->devices().front().vendor == "NVIDIA";
    out.backends.back().again = again;
    if (out.backends.back().devices > 0 && !again) working.push_back(*std::move(*result));
  }
  return working.empty() ? nullptr : composite_backend(std::move(working));
}

void examine_devices(const std::shared_ptr<Backend>& backend, const std::vector<uint32_t>& which,
                     Clock::time_point deadline, DoctorFindings& out) {
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
    out.checks.insert(out.checks.end(), found.begin(), found.end());
  }
  const bool late = std::find(facts.begin(), facts.end(), std::nullopt) != facts.end();
  if (late)
    out.checks.push_back({"facts", "", Health::kWarning, "the driver did not report modes and links in time",
                          "`nvidia-smi -q` shows whether it hangs; persistence mode makes it faster"});
  out.stuck |= late || snapshots.any_stuck();
}

constexpr std::string_view kNoDevice = "devices";

SystemCheck no_device_check(const std::vector<BackendFinding>& backends) {
  std::string names;
  for (const BackendFinding& b : backends)
    if (b.state != BackendFinding::kNotTried) append_listed(names, b.name);
  return {std::string(kNoDevice), "", Health::kWarning,
          "no GPU can be read here" + (names.empty() ? "" : " (tried: " + names + ")"),
          "the reason for each backend is listed below"};
}

// What the first line and the backends' list say already: the answer, and that NVML has no library.
bool is_said(const SystemCheck& check, const std::vector<BackendFinding>& backends) {
  if (check.id == kNoDevice && check.verdict == Health::kWarning) return true;
  return check.id == "driver_library_nvml" && check.verdict == Health::kUnknown &&
         std::ranges::any_of(backends, [](const BackendFinding& b) {
           return b.name == "nvml" && b.state == BackendFinding::kNotThere;
         });
}

// Only what is installed and does not work is a problem.
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
  DoctorFindings out;
  const auto opened = open_backends(backend, begin + kOpeningLimit, out);
  add_backend_checks(out.backends, out.checks);
  if (!opened) {
    out.checks.push_back(no_device_check(out.backends));
  } else if (auto selected = select_devices(opened->devices(), words); selected) {
    examine_devices(opened, selected->devices, begin + kFactsLimit, out);
  } else {
    out.checks.push_back({"devices", "", Health::kProblem, selected.error().message, selected.error().hint});
  }
  const auto checks = machine.await(begin + kFactsLimit);
  if (checks) out.checks.insert(out.checks.end(), checks->begin(), checks->end());
  out.stuck |= !checks;
  for (const SystemCheck& c : out.checks) out.stuck |= c.detail == kProbeSilent;
  return out;
}

struct CheckMark {
  std::string_view text;
  Style style;
};
constexpr CheckMark kHealthMarks[] = {   // by Health
    {"✓ ", Style::kGood}, {"? ", Style::kFaint}, {"! ", Style::kWarn}, {"✗ ", Style::kStrongBad}};

struct StateView {
  std::string_view name;   // in JSON
  CheckMark mark;
};
constexpr StateView kStateViews[] = {   // by BackendFinding::State
    {"works", {"✓ ", Style::kGood}},
    {"not_there", {"– ", Style::kFaint}},
    {"not_answering", {"✗ ", Style::kStrongBad}},
    {"not_tried", {"· ", Style::kFaint}}};

/// One check that several devices have with the same result.
struct GroupedCheck {
  const SystemCheck* check;
  std::vector<std::string> devices;
};

std::vector<GroupedCheck> grouped(const SystemChecks& checks) {
  std::vector<GroupedCheck> all;
  for (const SystemCheck& c : checks) {
    auto it = std::find_if(all.begin(), all.end(), [&](const GroupedCheck& g) {
      return !c.device.empty() && g.check->id == c.id && g.check->verdict == c.verdict && g.check->detail == c.detail;
    });
    if (it == all.end()) it = all.insert(all.end(), {&c, {}});
    if (!c.device.empty()) it->devices.push_back(c.device);
  }
  return all;
}

// "GPU 0–7: ", "GPU 0:7, 1: "; empty for the machine.
std::string devices_text(const std::vector<std::string>& devices) {
  if (devices.empty()) return "";
  std::vector<int> numbers;
  for (const std::string& label : devices)
    if (all_digits(label) && label.size() < 6) numbers.push_back(std::stoi(label));
  return "GPU " + (numbers.size() == devices.size() ? number_ranges(numbers) : joined(devices)) + ": ";
}

void add_check(Lines& lines, const GroupedCheck& group, int width) {
  const SystemCheck& c = *group.check;
  const CheckMark& mark = kHealthMarks[static_cast<size_t>(c.verdict)];
  append(lines, wrapped_after(Line().skip(2).add(mark.text, mark.style), devices_text(group.devices) + c.detail, width,
                              c.verdict <= Health::kUnknown ? Style::kPlain : Style::kStrong));
  if (!c.hint.empty()) append(lines, wrapped_after(Line().skip(6), c.hint, width, Style::kFaint));
}

void add_backends(Lines& lines, const std::vector<BackendFinding>& backends, int width) {
  append(lines, {Line(), Line("Backends", Style::kStrong)});
  for (const BackendFinding& b : backends) {
    const CheckMark& mark = kStateViews[b.state].mark;
    Line head = Line().skip(2).add(mark.text, mark.style).add(fmt::format("{:<8}", b.name));
    append(lines, wrapped_after(std::move(head), b.detail, width));
    if (!b.hint.empty()) append(lines, wrapped_after(Line().skip(12), b.hint, width, Style::kFaint));
  }
}

int64_t count_of(const SystemChecks& checks, Health verdict) {
  return std::count_if(checks.begin(), checks.end(), [&](const auto& c) { return c.verdict == verdict; });
}

// `other`: the line above names a problem.
std::string title_of(const SystemChecks& checks, bool other) {
  const auto number = [&](Health h, std::string_view one, std::string_view many) {
    const int64_t n = count_of(checks, h);
    if (n == 0) return fmt::format("no {}{}", other && h == Health::kProblem ? "other " : "", many);
    return plural(n, one, many);
  };
  return fmt::format("{}, {}; {} of {} checks are fine", number(Health::kProblem, "problem", "problems"),
                     number(Health::kWarning, "warning", "warnings"), count_of(checks, Health::kOk), checks.size());
}

// Whether there is something to work with.
int64_t usable_devices(const std::vector<BackendFinding>& backends) {
  int64_t usable = 0;
  for (const BackendFinding& b : backends)
    if (kStateViews[b.state].name == "works" && !b.again) usable += static_cast<int64_t>(b.devices);
  return usable;
}

Line answer_of(int64_t usable) {
  if (usable == 0)
    return Line().add("✗ ", Style::kStrongBad).add("No usable GPU found; each backend's reason is below", Style::kStrong);
  return Line().add("✓ ", Style::kGood).add(plural(usable, "usable GPU", "usable GPUs") + " found", Style::kStrong);
}

Lines doctor_lines(const DoctorFindings& findings, int width) {
  SystemChecks checks = findings.checks;
  std::erase_if(checks, [&](const SystemCheck& c) { return is_said(c, findings.backends); });
  const std::vector<GroupedCheck> groups = grouped(checks);
  const int64_t usable = usable_devices(findings.backends);
  Lines lines = {answer_of(usable), Line(title_of(checks, usable == 0), Style::kStrong)};
  for (const Health verdict : {Health::kProblem, Health::kWarning})
    for (const GroupedCheck& g : groups)
      if (g.check->verdict == verdict) add_check(lines, g, width);
  add_backends(lines, findings.backends, width);
  for (const std::string_view title : {"Devices", "Driver", "Container", "Environment", "Machine"}) {
    Lines below;
    for (const GroupedCheck& g : groups)
      if (group_of(*g.check) == lower_case(title) && g.check->verdict <= Health::kUnknown) add_check(below, g, width);
    if (below.empty()) continue;
    append(lines, {Line(), Line(title, Style::kStrong)});
    append(lines, std::move(below));
  }
  const std::string_view next = usable > 0 ? "profgpu devices   ·   profgpu stat   ·   profgpu -- COMMAND"
                                           : "profgpu demo   ·   profgpu -- COMMAND";
  append(lines, {Line(), Line(fmt::format("Next: {}", next), Style::kFaint)});
  return lines;
}

std::string doctor_json(const DoctorFindings& findings) {
  Table backends{{"name", "state", "devices", "detail", "hint"}, {}};
  Table checks{{"id", "group", "device", "verdict", "detail", "hint"}, {}};
  for (const BackendFinding& b : findings.backends)
    backends.rows.push_back({b.name, kStateViews[b.state].name, b.devices, b.detail, unless_empty(b.hint)});
  for (const SystemCheck& c : findings.checks)
    checks.rows.push_back({c.id, group_of(c), unless_empty(c.device), health_name(c.verdict), c.detail,
                           unless_empty(c.hint)});
  return json_document(Record()
                           .add("schema", "profgpu.doctor.v1")
                           .add("time", iso_time(unix_ns()))
                           .add("backends", std::move(backends))
                           .add("checks", std::move(checks)));
}

// What a saved result of `profgpu bench` shows: one check for each slow figure, or one that there is none.
Status add_bench_checks(const std::string& path, SystemChecks& checks) {
  const auto result = read_bench(path);
  if (!result) return result.error();
  std::vector<std::string> slow = slow_places(*result);
  for (const SlowFigure& s : slow_figures(*result)) slow.push_back(s.text());
  for (std::string& text : devices_below_their_kind(*result)) slow.push_back(std::move(text));
  if (result->simulated)
    checks.push_back({"bench", "", Health::kWarning, path + ": a stand-in for the driver gave these figures, no device",
                      "measure with the real driver"});
  for (const std::string& place : disturbed_places(*result))
    checks.push_back({"bench", "", Health::kUnknown, "not judged: " + place, "measure again while nothing else runs"});
  for (const NotMeasured& n : result->not_measured)
    if (n.is_fault()) checks.push_back({"bench", "", Health::kProblem, n.what() + ": " + n.why, n.hint});
  for (const std::string& text : slow)
    checks.push_back({"bench", "", Health::kWarning, text,
                      "its clocks, power limit, temperature and link explain it, or the device is at fault"});
  if (slow.empty())
    checks.push_back({"bench", "", Health::kOk,
                      "no device was slower than its neighbors or far below its kind when they were measured"});
  return ok();
}

Outcome doctor(const Arguments& arguments) {
  auto options = device_options(arguments, "all");
  if (!options) return Outcome::usage(options.error());
  SystemChecks measured;
  if (arguments.has("--bench"))
    if (const Status read = add_bench_checks(arguments.value("--bench"), measured); !read) return read;
  DoctorFindings findings = examine(options->backend, options->device);
  findings.checks.insert(findings.checks.end(), measured.begin(), measured.end());
  const int width = output_width();
  const std::string text = arguments.has("--json") ? doctor_json(findings)
                                                   : rendered(doctor_lines(findings, width), width,
                                                              output_colour(colour_option(arguments)));
  Outcome outcome = arguments.has("--json") ? write_stdout(text) : write_text(text);
  if (options->strict && count_of(findings.checks, Health::kProblem) > 0) outcome.code = ExitCode::kFailed;
  if (findings.stuck) leave_stuck("doctor", outcome);
  return outcome;
}

FlagGroup doctor_flags() {
  return {"Devices",
          {{"--device WHICH...", "only these: index, UUID, PCI id, cuda:N, separated by commas (default: all)"},
           {"--backend NAME", "only this: nvml, smi, amdgpu, intel, replay:FILE or none (default auto: try all)"},
           {"--bench FILE", "also report what a saved result of profgpu bench shows as slow"},
           {"--strict", "exit 1 if there is a problem"}}};
}

}  // namespace

extern const Command kDoctor{
    .name = "doctor",
    .summary = "check GPUs, driver and machine for problems",
    .groups = {doctor_flags(), {"What to show", {{"--json", "everything, as JSON"}, kColourFlag}}},
    .examples = {{"profgpu doctor", "problems first, then everything that was checked"},
                 {"profgpu doctor --json | jq '.checks[] | select(.verdict == \"problem\")'",
                  "problems, for a program"},
                 {"profgpu doctor --strict >/dev/null || drain-this-node", "a node's health check"}},
    .notes =
        "Checks every backend and why it is not available; whether driver and libraries fit; device files and "
        "permissions; the container; PCIe, NVLink, memory errors, modes, clocks and limits of each GPU; Xid errors in the "
        "kernel log; variables of CUDA, PyTorch and NCCL; clock, CPU governor, limits, perf events, NUMA nodes, IOMMU.\n\n"
        "It changes nothing and takes at most six seconds, whatever hangs. Checks that need more rights say so: run it as "
        "administrator to see more. PROFGPU_NVML_LIBRARY and PROFGPU_NVIDIA_SMI name a library and a program to use "
        "instead of those found.\n\n"
        "Exit status: 0 checked, even without any GPU; 1 with --strict if there is a problem; 2 usage.",
    .run = doctor,
};

}  // namespace profgpu
