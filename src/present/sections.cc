#include "present/sections.h"

#include <algorithm>

namespace profgpu {

std::vector<std::string> section_names(const Report& report) {
  std::vector<std::string> names{"findings", "checklist", "inputs"};
  if (!report.cluster.is_null()) names.emplace_back("cluster");
  for (const RankReport& rank : report.ranks)
    for (const Section& section : rank.sections)
      if (std::find(names.begin(), names.end(), section.name) == names.end()) names.push_back(section.name);
  return names;
}

bool has_section(const Report& report, std::string_view name) {
  const std::vector<std::string> names = section_names(report);
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace profgpu
