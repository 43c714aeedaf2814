#include "present/line.h"

#include <algorithm>

#include "report/text.h"

namespace profgpu {
namespace {

// The sixteen colours that follow the reader's own theme.
std::string_view escape_of(Style style) {
  switch (style) {
    case Style::kPlain: return "";
    case Style::kStrong: return "\x1b[1m";
    case Style::kFaint: return "\x1b[2m";
    case Style::kGood: return "\x1b[32m";
    case Style::kWarn: return "\x1b[33m";
    case Style::kBad: return "\x1b[31m";
    case Style::kNote: return "\x1b[36m";
    case Style::kWall: return "\x1b[36m";
    case Style::kBusy: return "\x1b[32m";
    case Style::kIdle: return "\x1b[33m";
    case Style::kStrongBad: return "\x1b[1;31m";
  }
  return "";
}

constexpr std::string_view kReset = "\x1b[0m";

bool is_blank(std::string_view text) { return text.find_first_not_of(' ') == std::string_view::npos; }

}  // namespace

Line& Line::add(std::string_view text, Style style) {
  if (text.empty()) return *this;
  spans_.push_back({sanitised(text), style});
  width_ += display_width(spans_.back().text);
  return *this;
}

Line& Line::add(const Line& other) {
  spans_.insert(spans_.end(), other.spans_.begin(), other.spans_.end());
  width_ += other.width_;
  return *this;
}

Line& Line::skip(int cells) { return cells > 0 ? add(std::string(static_cast<size_t>(cells), ' ')) : *this; }

Line& Line::whole() {
  whole_ = true;
  return *this;
}

Line& Line::to_column(int column) { return skip(std::max(column - width_, width_ > 0 ? 1 : 0)); }

void Line::append_to(std::string& out, int width, bool colour) const {
  if (whole_) width = 0;
  size_t end = spans_.size();
  while (end > 0 && is_blank(spans_[end - 1].text)) --end;
  int left = width > 0 ? width : width_;
  for (size_t i = 0; i < end && left > 0; ++i) {
    // What comes after may have to go altogether, then the mark must be here.
    const bool cut = width > 0 && width_ > width && i + 1 < end;
    std::string text = spans_[i].text;
    const int cells = display_width(text);
    if (cells > left || (cut && cells == left)) text = truncated(text + (cut ? "…" : ""), left);
    if (i + 1 == end) text.erase(text.find_last_not_of(' ') + 1);
    left -= display_width(text);
    const std::string_view escape = colour ? escape_of(spans_[i].style) : "";
    out.append(escape).append(text).append(escape.empty() ? "" : kReset);
  }
}

void append(Lines& to, Lines lines) {
  to.insert(to.end(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
}

Lines wrapped_after(Line first, std::string_view text, int width, Style style, int most) {
  const int indent = first.width();
  Lines out;
  for (const std::string_view paragraph : lines_of(text)) {
    // Text beside a very long beginning would be one character wide.
    const int room = width > 0 ? std::max(width - indent, 12) : 0;
    std::vector<std::string> pieces = wrapped(sanitised(paragraph), room);
    if (pieces.size() > static_cast<size_t>(most)) {
      pieces.resize(static_cast<size_t>(most));
      pieces.back() = truncated(pieces.back() + "…", room);
    }
    for (const std::string& piece : pieces) {
      Line line = out.empty() ? std::move(first) : Line().skip(indent);
      out.push_back(std::move(line.add(piece, style)));
    }
  }
  if (out.empty()) out.push_back(std::move(first));
  return out;
}

Lines next_lines(const std::vector<std::string>& commands, int width) {
  if (commands.empty()) return {};
  Lines out = {Line("Next: ", Style::kStrong).whole()};
  const int indent = out.back().width();
  for (const std::string& command : commands) {
    const int cells = display_width(sanitised(command));
    if (width > 0 && out.back().width() > indent && out.back().width() + 5 + cells > width)
      out.push_back(Line().skip(indent).whole());
    if (out.back().width() > indent) out.back().add("  ·  ", Style::kFaint);
    out.back().add(command);
  }
  return out;
}

Lines beside(Lines left, const Lines& right, int column) {
  if (left.size() < right.size()) left.resize(right.size());
  for (size_t i = 0; i < right.size(); ++i)
    if (right[i].width() > 0) left[i].to_column(column).add(right[i]);
  return left;
}

std::string rendered(const Lines& lines, int width, bool colour) {
  std::string out;
  bool blank_due = false;
  for (const Line& line : lines) {
    if (line.width() == 0) {
      blank_due = !out.empty();
      continue;
    }
    if (blank_due) out += '\n';
    blank_due = false;
    line.append_to(out, width, colour);
    out += '\n';
  }
  return out;
}

}  // namespace profgpu
