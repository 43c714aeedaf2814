// Text that Markdown shows as it stands: what a trace says can neither mark up the page nor leave its cell.
#pragma once

#include <string>
#include <string_view>

#include "view/layout.h"

namespace profgpu {

/// Prose: markup escaped, on one line, cut after `most` cells.
std::string markdown_text(std::string_view text, int most = 2000);
/// `code`, fenced by more backticks than it holds; pipes escaped where it stands in a table.
std::string markdown_code(std::string_view text, bool in_table, int most = 200);

std::string markdown_table(const Grid& grid);

}  // namespace profgpu
