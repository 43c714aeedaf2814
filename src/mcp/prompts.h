// Instructions that a client offers its user: what to call, in which order, and how to read the answers.
#pragma once

#include <string_view>

#include "analyse/report/report.h"
#include "base/result.h"

namespace profgpu {

/// As `prompts/list` describes them.
List prompt_list();
/// What `prompts/get` answers; the error names what is missing.
Result<Record> prompt_of(std::string_view name, const Record& arguments);

}  // namespace profgpu
