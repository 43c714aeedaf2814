// Text as HTML shows it: nothing that a trace says can become markup.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// For an element's content or a quoted attribute; on one line, cut after `most` cells, control characters written out.
std::string html_text(std::string_view text, int most = 4000);

struct HtmlColumn {
  std::string header;   ///< HTML already
  bool right = false;
};
/// The cells are HTML already.
std::string html_table(const std::vector<HtmlColumn>& columns, const std::vector<std::vector<std::string>>& rows);

}  // namespace profgpu
