#include "analyse/page_categories.h"

namespace profgpu {

std::vector<std::string> page_category_names() {
  std::vector<std::string> names;
  for (uint8_t c = 0; c < PageCategory::kMemcpy; ++c)
    names.emplace_back(kernel_category_name(static_cast<KernelCategory>(c)));
  // HostKind's order.
  for (const char* name : {"memcpy", "memset", "annotation", "op", "python", "runtime", "driver", "overhead"})
    names.emplace_back(name);
  for (uint8_t p = 0; p < kPhases; ++p) {
    const std::string_view name = phase_name(static_cast<Phase>(p));
    names.emplace_back(name == "other" ? "other_phase" : name);
  }
  for (uint8_t c = 0; c < kIdleCauses; ++c)
    names.push_back("idle:" + std::string(idle_cause_name(static_cast<IdleCause>(c))));
  for (const char* name : {"step", "warmup", "sync", "collective", "wait", "blocked"}) names.emplace_back(name);
  return names;
}

}  // namespace profgpu
