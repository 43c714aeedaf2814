#include "present/sections.h"

#include <algorithm>

namespace profgpu {

std::vector<std::string> section_names(const Report& report) {
  std::vector<std::string> names{"findings", "checklist", "inputs"};
  if (report.job) names.emplace_back("cluster");
  if (report.ranks.empty()) return names;
  for (const Section& section : sections()) names.emplace_back(section.name);
  return names;
}

bool has_section(const Report& report, std::string_view name) {
  const std::vector<std::string> names = section_names(report);
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace profgpu
