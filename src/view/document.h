// A report down a page: in Markdown, and in HTML both for readers without script and as the page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/report.h"
#include "analyse/report/page.h"
#include "view/layout.h"
#include "view/overview.h"

namespace profgpu {

/// A piece of a text. Renderers escape it.
struct Run {
  /// kLines: several lines, where all others are shown on one. kWarning: a mark, without a text.
  enum class As : char { kPlain, kLines, kStrong, kCode, kWarning };
  std::string text;
  As as = As::kPlain;
};
using Runs = std::vector<Run>;
struct ListItem {
  Runs runs;
  std::vector<Runs> below = {};   ///< a list of its own
};

/// What Markdown and HTML write differently.
class Renderer {
 public:
  virtual ~Renderer() = default;
  /// `level`: 1 of the whole, 2 of a part.
  virtual void heading(int level, const Runs& runs) = 0;
  virtual void paragraph(const Runs& runs) = 0;
  virtual void list(const std::vector<ListItem>& items, bool numbered = false) = 0;
  /// `bars_pct`: a bar per row, for formats that have bars.
  virtual void table(const Grid& grid, const std::vector<double>& bars_pct = {}) = 0;

  std::string out;
};

/// The first screen, then `sections` in full or only the top kernels and ops. `rows`: of long tables, unless --top says
/// otherwise.
void render_report(const Report& report, const PresentOptions& options, bool sections, int rows, Renderer& to);
/// The section that options.section names, of every rank.
void render_section(const Report& report, const PresentOptions& options, Renderer& to);

// Markdown: what a trace says can neither add markup nor leave its table cell.

/// Prose: markup escaped, on one line, cut after 2000 cells. `begins_line`: may otherwise begin a heading or a list.
std::string markdown_text(std::string_view text, bool begins_line = true);
/// `code`, fenced by more backticks than it holds; pipes escaped in a table.
std::string markdown_code(std::string_view text, bool in_table, int most = 200);
std::string markdown_table(const Grid& grid);

// HTML.

/// A page of its own around a body, both HTML already. It loads and runs nothing.
std::string plain_page(std::string_view title, std::string_view body);
/// For an element's content or a quoted attribute; on one line, cut after `most` cells, control characters written out.
std::string html_text(std::string_view text, int most = 4000);

/// The report without script or style, `<div id="static">…</div>`: the whole page of a program that was built without
/// one.
std::string html_report(const Report& report, const PresentOptions& options);

/// The data inside a page, as web/README.md describes it: a JSON header and columns of varints. `report_json`: the
/// document of `analyze --json`.
std::string packed(std::string_view report_json, const PageData& page);

/// The page from web/, as of this program's build; empty in a program that was built without npm.
std::string_view page_template();

}  // namespace profgpu
