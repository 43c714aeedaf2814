// Every way to show a Report.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/report/report.h"

namespace profgpu {

const std::vector<const Presenter*>& presenters();
/// Null if there is none of that name.
const Presenter* find_presenter(std::string_view name);

/// The document of `analyze --json`, as values and as text.
Value report_value(const Report& report);
std::string json_report(const Report& report, const PresentOptions& options);

}  // namespace profgpu
