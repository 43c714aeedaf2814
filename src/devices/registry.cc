// Every backend, in the order that `auto` tries them.

#include "devices/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace profgpu {

extern const BackendKind kNvml, kSmi, kAmdgpu, kIntel, kReplay;

const std::vector<const BackendKind*>& backend_kinds() {
  static const std::vector<const BackendKind*> kAll = {&kNvml, &kSmi, &kAmdgpu, &kIntel, &kReplay};
  return kAll;
}

namespace {

std::string backends_hint() {
  std::string out = "backends: auto, none";
  for (const BackendKind* k : backend_kinds()) out += fmt::format(", {}{}", k->name, k->automatic ? "" : ":FILE");
  return out;
}

Opened open_automatically(const BackendOptions& options) {
  Opened opened;
  std::vector<std::unique_ptr<Backend>> found;
  const auto has_nvidia = [&] {
    return std::any_of(found.begin(), found.end(),
                       [](const auto& b) { return b->devices().front().vendor == "NVIDIA"; });
  };
  for (const BackendKind* kind : backend_kinds()) {
    // nvidia-smi queries the same driver as NVML, at a higher cost.
    if (!kind->automatic || (kind == &kSmi && has_nvidia())) continue;
    auto backend = kind->open(options);
    if (backend && !(*backend)->devices().empty()) found.push_back(std::move(*backend));
    else opened.tried.push_back({kind->name, backend ? Error{"found no device"} : backend.error()});
  }
  if (!found.empty()) opened.backend = composite_backend(std::move(found));
  return opened;
}

Result<const BackendKind*> named_kind(const std::string& spec) {
  const size_t colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  for (const BackendKind* kind : backend_kinds()) {
    if (name != kind->name) continue;
    if (kind->automatic == (colon != std::string::npos))
      return Error{fmt::format("--backend {} {}", name, kind->automatic ? "takes no argument" : "needs a file"),
                   backends_hint()};
    return kind;
  }
  return Error{"no backend \"" + name + "\"", backends_hint()};
}

}  // namespace

Status check_backend(const std::string& spec) {
  if (spec == "auto" || spec == "none") return ok();
  const auto kind = named_kind(spec);
  return kind ? ok() : Status(kind.error());
}

Result<Opened> open_backend(const std::string& spec, BackendOptions options) {
  if (spec == "auto") return open_automatically(options);
  if (spec == "none") return Opened{};
  const auto kind = named_kind(spec);
  if (!kind) return kind.error();
  if (const size_t colon = spec.find(':'); colon != std::string::npos) options.argument = spec.substr(colon + 1);
  auto backend = (*kind)->open(options);
  if (!backend) return backend.error().within(std::string((*kind)->name));
  return Opened{std::move(*backend), {}};
}

}  // namespace profgpu
