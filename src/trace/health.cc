#include "trace/health.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace profgpu {
namespace {

// After NVIDIA's "XID Errors" guide (docs.nvidia.com/deploy/xid-errors).
constexpr std::string_view kProgram =
    "most often the program: run it under compute-sanitizer; if other programs have it too, the device";
constexpr std::string_view kReset = "stop all programs on it and `nvidia-smi --gpu-reset -i N`, else reboot";
constexpr std::string_view kReplace = "reset it and run `dcgmi diag -r 3`; if it recurs, have the device replaced";

constexpr std::array<XidMeaning, 22> kXids = {{
    {13, Severity::kWarning, "a kernel faulted (illegal instruction or address)", kProgram},
    {31, Severity::kWarning, "a kernel touched memory that is not mapped", kProgram},
    {32, Severity::kWarning, "a broken command buffer reached the device",
     "check PCIe errors and the driver's version"},
    {43, Severity::kWarning, "a program's channel stopped after its own error", kProgram},
    {45, Severity::kWarning, "a program's work was removed because it ended or after another error",
     "check the errors before it"},
    {48, Severity::kCritical, "an uncorrectable double-bit memory error", kReset},
    {61, Severity::kCritical, "the device's microcontroller halted (breakpoint)", kReset},
    {62, Severity::kCritical, "the device's microcontroller halted", kReset},
    {63, Severity::kWarning, "a memory row was remapped or a page retired",
     "reset the device when it is free to make it effective"},
    {64, Severity::kCritical, "remapping a memory row failed", kReplace},
    {69, Severity::kWarning, "the graphics engine raised an exception", kProgram},
    {74, Severity::kCritical, "an NVLink error",
     "`nvidia-smi nvlink -e`; reset the device, then check bridge and switch"},
    {79, Severity::kCritical, "the device fell off the PCIe bus",
     "power cycle the machine; check seating, cables, power and temperature"},
    {92, Severity::kWarning, "a high rate of correctable memory errors", "have the device tested if it continues"},
    {94, Severity::kWarning, "a memory error contained to its own program",
     "restart that program; reset the device when it is free"},
    {95, Severity::kCritical, "a memory error that may have affected other programs", kReset},
    {109, Severity::kWarning, "switching between programs took too long",
     "update the driver; if it recurs, report it to NVIDIA"},
    {110, Severity::kCritical, "a security fault", "power cycle the machine"},
    {119, Severity::kCritical, "the device's firmware (GSP) did not answer",
     "reset it or reboot; a newer driver may fix it"},
    {120, Severity::kCritical, "the device's firmware (GSP) failed", "reset it or reboot; a newer driver may fix it"},
    {121, Severity::kWarning, "an error of the chip-to-chip link", kReset},
    {140, Severity::kCritical, "an uncorrected memory error", kReset},
}};

}  // namespace

std::string_view health_name(Health health) {
  constexpr std::string_view kNames[] = {"ok", "unknown", "warning", "problem"};
  return kNames[static_cast<size_t>(health)];
}

std::optional<Severity> severity_of(Health health) {
  if (health == Health::kProblem) return Severity::kCritical;
  return health == Health::kWarning ? std::optional(Severity::kWarning) : std::nullopt;
}

Health health_of(Severity severity) {
  if (severity == Severity::kCritical) return Health::kProblem;
  return severity == Severity::kWarning ? Health::kWarning : Health::kOk;
}

std::optional<uint32_t> reason_bits(std::optional<double> value) {
  return value && *value >= 0 && *value < 4e9 ? std::optional(static_cast<uint32_t>(*value)) : std::nullopt;
}

std::string recovery_action(double value) {
  constexpr std::string_view kActions[] = {"none", "reset the GPU", "reboot the node", "drain peer-to-peer traffic",
                                           "drain and reset"};
  for (size_t i = 0; i < std::size(kActions); ++i)
    if (value == static_cast<double>(i)) return std::string(kActions[i]);
  return "an unknown action";
}

const XidMeaning* find_xid(int code) {
  const auto it = std::find_if(kXids.begin(), kXids.end(), [&](const XidMeaning& x) { return x.code == code; });
  return it == kXids.end() ? nullptr : &*it;
}

XidMeaning xid_meaning(int code) {
  if (const XidMeaning* known = find_xid(code)) return *known;
  return {code, Severity::kWarning, "an error of the device or driver", "see NVIDIA's list of Xid errors"};
}

bool xid_ends_programs(int code) { return code != 63 && code != 64 && code != 92; }

std::span<const XidMeaning> known_xids() { return kXids; }

}  // namespace profgpu
