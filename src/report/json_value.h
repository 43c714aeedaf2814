// A JSON text as a Value: documents that profgpu wrote, read back.
#pragma once

#include <string>

#include "base/result.h"
#include "report/report.h"

namespace profgpu {

/// Objects become records (of two fields of one name both stay), arrays lists, whole numbers that fit 64 bits integers.
/// The error says at which byte the text stops being JSON.
Result<Value> value_from_json(const std::string& text);

}  // namespace profgpu
