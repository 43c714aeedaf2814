// The report as plain HTML: readable without script, and the whole page of a program that was built without one.
#pragma once

#include <string>

#include "job/report.h"

namespace profgpu {

/// `<div id="static">…</div>`, without style.
std::string html_report(const Report& report, const PresentOptions& options);

}  // namespace profgpu
