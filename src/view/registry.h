// Every way to show a Report.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/report/report.h"

namespace profgpu {

const std::vector<const Presenter*>& presenters();
/// Null if there is none of that name.
const Presenter* find_presenter(std::string_view name);

/// The document of `analyze --json`, as text and as what it is made of.
std::string json_report(const Report& report, const PresentOptions& options);
Value report_value(const Report& report);

}  // namespace profgpu
