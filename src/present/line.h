// Lines of styled text. All that reaches a terminal goes through Line::add, which makes it harmless, and through
// rendered(), which cuts what is too long: so no part of a screen needs to think of either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

enum class Style : char { kPlain, kStrong, kFaint, kGood, kWarn, kBad, kNote, kWall, kBusy, kIdle, kStrongBad };

class Line {
 public:
  Line() = default;
  explicit Line(std::string_view text, Style style = Style::kPlain) { add(text, style); }

  Line& add(std::string_view text, Style style = Style::kPlain);
  Line& add(const Line& other);
  Line& skip(int cells);
  /// Not to be cut: it is there to be copied.
  Line& whole();
  /// Blanks up to `column`, at least one if there is text already.
  Line& to_column(int column);

  struct Span {
    std::string text;
    Style style;
    friend bool operator==(const Span&, const Span&) = default;
  };
  friend bool operator==(const Line&, const Line&) = default;
  [[nodiscard]] int width() const { return width_; }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }
  void append_to(std::string& out, int width, bool colour) const;

 private:
  std::vector<Span> spans_;
  int width_ = 0;
  bool whole_ = false;
};

using Lines = std::vector<Line>;

void append(Lines& to, Lines lines);
/// A text in lines of at most `width` cells: the first after `first`, the others below its end. A paragraph that needs
/// more than `most` lines is cut: one endless name must not push the rest off the screen.
Lines wrapped_after(Line first, std::string_view text, int width, Style style = Style::kPlain, int most = 40);
/// Commands worth running next. None is wrapped or cut: one that is too long has a line of its own.
Lines next_lines(const std::vector<std::string>& commands, int width);
/// Two columns; the right one begins at `column`.
Lines beside(Lines left, const Lines& right, int column);
/// Lines as bytes, with no blank at their ends, cut to `width` cells (0: none is) but for whole ones; empty lines never lead or repeat.
std::string rendered(const Lines& lines, int width, bool colour);

}  // namespace profgpu
