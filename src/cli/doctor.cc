// profgpu doctor: which GPUs can be read, and what is wrong with them and the machine.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/device_opening.h"
#include "cli/doctor_examination.h"
#include "cli/output.h"
#include "cli/stat_view.h"
#include "cli/terminal.h"
#include "present/json_text.h"
#include "present/line.h"
#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

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
struct Said {
  const SystemCheck* check;
  std::vector<std::string> devices;
};

std::vector<Said> said_of(const SystemChecks& checks) {
  std::vector<Said> all;
  for (const SystemCheck& c : checks) {
    auto it = std::find_if(all.begin(), all.end(), [&](const Said& s) {
      return !c.device.empty() && s.check->id == c.id && s.check->verdict == c.verdict && s.check->detail == c.detail;
    });
    if (it == all.end()) it = all.insert(all.end(), {&c, {}});
    if (!c.device.empty()) it->devices.push_back(c.device);
  }
  return all;
}

// "GPU 0–7", "GPU 0:7, 1"; empty for the machine.
std::string devices_text(const Said& said) {
  if (said.devices.empty()) return "";
  std::vector<int> numbers;
  std::string list;
  for (const std::string& label : said.devices) {
    if (label.find_first_not_of("0123456789") == label.npos && label.size() < 6) numbers.push_back(std::stoi(label));
    list += (list.empty() ? "" : ", ") + label;
  }
  return "GPU " + (numbers.size() == said.devices.size() ? number_ranges(numbers) : list) + ": ";
}

void add_said(Lines& lines, const Said& said, int width, bool with_hint) {
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
  const std::vector<Said> said = said_of(findings.checks);
  Lines lines = {Line(title_of(findings.checks), Style::kStrong)};
  for (const Health verdict : {Health::kProblem, Health::kWarning})
    for (const Said& s : said)
      if (s.check->verdict == verdict) add_said(lines, s, width, true);
  add_backends(lines, findings.backends, width);
  constexpr std::pair<std::string_view, std::string_view> kGroups[] = {{"devices", "Devices"},
                                                                       {"driver", "Driver"},
                                                                       {"container", "Container"},
                                                                       {"environment", "Environment"},
                                                                       {"machine", "Machine"}};
  for (const auto& [group, title] : kGroups) {
    Lines below;
    for (const Said& s : said)
      if (group_of(*s.check) == group && s.check->verdict <= Health::kUnknown) add_said(below, s, width, true);
    if (below.empty()) continue;
    append(lines, {Line(), Line(title, Style::kStrong)});
    append(lines, std::move(below));
  }
  append(lines, {Line(), Line("Next: profgpu devices   ·   profgpu stat   ·   profgpu -- COMMAND", Style::kFaint)});
  return lines;
}

void write_text_or_null(JsonText& json, std::string_view text) { text.empty() ? json.null() : json.text(text); }

std::string doctor_json(const DoctorFindings& findings) {
  JsonText json;
  json.open('{');
  json.key("schema"), json.text("profgpu.doctor.v1");
  json.key("time"), json.text(iso_time(unix_ns()));
  json.key("backends"), json.open('[');
  for (const BackendFinding& b : findings.backends) {
    json.element(), json.open('{', Layout::kInline);
    json.key("name"), json.text(b.name);
    json.key("state"), json.text(backend_state_name(b.state));
    json.key("devices"), json.integer(static_cast<int64_t>(b.devices));
    json.key("detail"), json.text(b.detail);
    json.key("hint"), write_text_or_null(json, b.hint);
    json.close('}');
  }
  json.close(']');
  json.key("checks"), json.open('[');
  for (const SystemCheck& c : findings.checks) {
    json.element(), json.open('{', Layout::kInline);
    json.key("id"), json.text(c.id);
    json.key("group"), json.text(group_of(c));
    json.key("device"), write_text_or_null(json, c.device);
    json.key("verdict"), json.text(health_name(c.verdict));
    json.key("detail"), json.text(c.detail);
    json.key("hint"), write_text_or_null(json, c.hint);
    json.close('}');
  }
  json.close(']');
  json.close('}');
  return json.take() + "\n";
}

Outcome doctor(const Arguments& arguments) {
  auto options = device_options(arguments, 1'000'000'000);
  if (!options) return Outcome::usage(options.error());
  const DoctorFindings findings = examine(options->backend, options->device);
  const std::string colour = arguments.value("--color", "auto");
  const int width = output_width();
  const std::string text = arguments.has("--json") ? doctor_json(findings)
                                                   : rendered(doctor_lines(findings, width), width,
                                                              output_colour(colour == "always"  ? Colour::kAlways
                                                                            : colour == "never" ? Colour::kNever
                                                                                                : Colour::kAuto));
  const auto written = write_stdout(text);
  Outcome outcome = written ? Outcome{} : Outcome::failed(written.error());
  if (options->strict && count_of(findings.checks, Health::kProblem) > 0) outcome.code = ExitCode::kFailed;
  if (!findings.stuck) return outcome;
  leave_stuck("doctor", outcome);
}

FlagGroup doctor_device_flags() {
  FlagGroup group = device_flags(false, "");
  for (Flag& flag : group.flags) {
    if (flag.name == "--strict") flag.help = "exit 1 if there is a problem";
    if (flag.name == "--device")
      flag.help = "only these: index, UUID, PCI id, cuda:N; several with commas or again (default: all)";
    if (flag.name == "--backend")
      flag.help = "only this: nvml, smi, amdgpu, intel, replay:FILE or none (default: auto, which tries all)";
  }
  return group;
}

}  // namespace

extern const Command kDoctor;
const Command kDoctor{
    .name = "doctor",
    .summary = "which GPUs can be read, and what is wrong with them and the machine",
    .positional = "",
    .groups = {doctor_device_flags(),
               {"What to show",
                {{.name = "--json", .help = "everything, as JSON"},
                 {.name = "--color",
                  .value = "WHEN",
                  .help = "colours (default auto)",
                  .choices = {"auto", "always", "never"}}}}},
    .examples = {{"profgpu doctor", "problems first, then all that was looked at"},
                 {"profgpu doctor --json | jq '.checks[] | select(.verdict == \"problem\")'",
                  "problems, for a program"},
                 {"profgpu doctor --strict >/dev/null || drain-this-node", "as a node's health check"}},
    .notes =
        "Looks at: every backend and why it is not there; driver and libraries and whether they fit; device files and "
        "rights; the container; PCIe, NVLink, memory errors, modes, clocks and limits of each device; Xid errors in "
        "the kernel log; variables of CUDA, PyTorch and NCCL; clock, processor governor, limits, perf events, memory nodes, IOMMU. It "
        "changes nothing and takes at most six seconds, whatever hangs. Where it may not look it says so: as an "
        "administrator it sees more. PROFGPU_NVML_LIBRARY and PROFGPU_NVIDIA_SMI name a library and a program to use "
        "instead of those that are found. Exit status: 0 looked, also without any GPU; 1 with --strict where there is a "
        "problem; 2 usage.",
    .run = doctor,
};

}  // namespace profgpu
