// Analysis: what one section of a rank's report says, named as in the JSON document.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/collectives.h"
#include "analyse/facts.h"
#include "report/report.h"

namespace profgpu {

struct Analysis {
  std::string_view name;      ///< JSON key and --section name
  std::string_view title;     ///< heading
  std::string_view summary;   ///< one line for help
  Value (*show)(const Facts& facts);
};

/// In the order of the report.
const std::vector<const Analysis*>& analyses();

/// What all of them show, in that order. They are worked out on two threads, from both ends of the list.
std::vector<Section> sections(const Facts& facts);

/// The content of the section on collectives.
Value collectives_value(const std::vector<CollectiveRow>& rows);

}  // namespace profgpu
