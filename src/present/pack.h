// The data inside an HTML report: a JSON header and columns of varints, as web/README.md describes it.
#pragma once

#include <string>
#include <string_view>

#include "report/page.h"

namespace profgpu {

/// `report_json`: the document of `analyze --json`.
std::string packed(std::string_view report_json, const PageData& page);

}  // namespace profgpu
