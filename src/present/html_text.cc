#include "present/html_text.h"

#include "report/text.h"

namespace profgpu {

std::string html_text(std::string_view text, int most) {
  std::string out;
  for (const char c : truncated(sanitised(text), most)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_table(const std::vector<HtmlColumn>& columns, const std::vector<std::vector<std::string>>& rows) {
  const auto cell = [&](const char* tag, size_t column, const std::string& content) {
    const std::string name = tag;
    return "<" + name + (columns[column].right ? " class=\"number\">" : ">") + content + "</" + name + ">";
  };
  std::string out = "<table>\n<thead><tr>";
  for (size_t c = 0; c < columns.size(); ++c) out += cell("th", c, columns[c].header);
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (size_t c = 0; c < columns.size() && c < row.size(); ++c) out += cell("td", c, row[c]);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

}  // namespace profgpu
