#include "trace/copy_kind.h"

#include <utility>

namespace profgpu {

CopyKind copy_kind(std::string_view name) {
  using enum CopyKind;
  constexpr std::pair<std::string_view, CopyKind> kForms[] = {
      {"HtoD", kHtoD},         {"DtoH", kDtoH},         {"HtoA", kHtoA},           {"AtoH", kAtoH},      {"AtoA", kAtoA},
      {"AtoD", kAtoD},         {"DtoA", kDtoA},         {"DtoD", kDtoD},           {"HtoH", kHtoH},      {"PtoP", kPtoP},
      {"HostToDevice", kHtoD}, {"DeviceToHost", kDtoH}, {"DeviceToDevice", kDtoD}, {"HostToHost", kHtoH}};
  for (const auto& [form, kind] : kForms)
    if (name.find(form) != std::string_view::npos) return kind;
  // XLA's operations, on the device.
  if (name.starts_with("data formatting:") || name.starts_with("copy.")) return kDtoD;
  return kUnknown;
}

}  // namespace profgpu
