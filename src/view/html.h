// HTML of a report.
#pragma once

#include <string>
#include <string_view>

#include "analyse/job/report.h"
#include "analyse/report/page.h"

namespace profgpu {

/// For an element's content or a quoted attribute; on one line, cut after `most` cells, control characters written out:
/// nothing that a trace says can become markup.
std::string html_text(std::string_view text, int most = 4000);

/// The report without script or style, `<div id="static">…</div>`: the whole page of a program that was built without
/// one.
std::string html_report(const Report& report, const PresentOptions& options);

/// The data inside a page, as web/README.md describes it: a JSON header and columns of varints. `report_json`: the
/// document of `analyze --json`.
std::string packed(std::string_view report_json, const PageData& page);

/// The page that web/ is built into, as it was when this program was built; empty in a program that was built without
/// npm.
std::string_view page_template();

}  // namespace profgpu
