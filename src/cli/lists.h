// What there is to read about, as text: rules, subjects, tables.
#pragma once

#include <string>

#include "base/result.h"

namespace profgpu {

/// What `profgpu explain` prints of a rule or subject. The error suggests what was probably meant.
Result<std::string> explanation(const std::string& id);
/// Of `profgpu query --tables`: tables with their columns, units and meaning, and views.
std::string table_list();

}  // namespace profgpu
