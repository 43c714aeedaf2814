#include "cli/doctor_examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/device_facts.h"
#include "collect/backend.h"
#include "collect/nvml_library.h"
#include "collect/pending.h"
#include "collect/selection.h"
#include "live/snapshot.h"

namespace profgpu {
namespace {

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

}  // namespace

std::string_view backend_state_name(BackendFinding::State state) {
  switch (state) {
    case BackendFinding::kWorks: return "works";
    case BackendFinding::kNotThere: return "not_there";
    case BackendFinding::kSilent: return "not_answering";
    case BackendFinding::kNotTried: return "not_tried";
  }
  return "";
}

DoctorFindings examine(const std::string& backend, const std::vector<std::string>& words) {
  const auto begin = Clock::now();
  Pending<SystemChecks> machine([deadline = begin + kOpeningLimit] {
    return run_probes(machine_probes(), SystemRoots::from_environment(), deadline);
  });
  OpenedBackends opened = backend == "auto" ? open_all(begin + kOpeningLimit) : open_named(backend, begin + kOpeningLimit);
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

}  // namespace profgpu
