// Text laid out: lines of styled spans, aligned columns, bars. All that reaches a terminal goes through Line::add,
// which makes it harmless, and through rendered(), which cuts what is too long: so no part of a screen needs to think
// of either.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

enum class Style : char { kPlain, kStrong, kFaint, kGood, kWarn, kBad, kNote, kWall, kBusy, kIdle, kStrongBad };

/// Of a share of a limit: fine, near it, at it; faint where it is not known.
Style heat(const std::optional<double>& share, double warn, double bad);
/// Not known where a part is not, or of nothing.
std::optional<double> ratio(const std::optional<double>& part, const std::optional<double>& all);

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
/// With an empty line before.
void append_apart(Lines& to, Lines lines);
/// A text in lines of at most `width` cells: the first after `first`, the others below its end. A paragraph that needs
/// more than `most` lines is cut: one endless name must not push the rest off the screen.
Lines wrapped_after(Line first, std::string_view text, int width, Style style = Style::kPlain, int most = 40);
/// Commands worth running next. None is wrapped or cut: one that is too long has a line of its own.
Lines next_lines(const std::vector<std::string>& commands, int width);
/// Two columns; the right one begins at `column`.
Lines beside(Lines left, const Lines& right, int column);
/// Lines as bytes, with no blank at their ends, cut to `width` cells (0: none is) but for whole ones; empty lines never
/// lead or repeat.
std::string rendered(const Lines& lines, int width, bool colour);

/// Whose words a cell has: Markdown shows ours as they stand, what may mark up escaped, names from a trace as code.
enum class Holds : char { kOurs, kWords, kName };

struct Cell {
  std::string text;
  Style style = Style::kPlain;
  Holds holds = Holds::kOurs;
};

struct GridColumn {
  std::string header;
  bool right = false;     ///< aligned to the right, and never shortened
};

/// A table of any format.
class Grid {
 public:
  explicit Grid(std::vector<GridColumn> columns = {});
  void add_column(std::string_view header, bool right = false);
  void add_row(std::vector<Cell> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] const std::vector<GridColumn>& columns() const { return columns_; }
  [[nodiscard]] std::vector<std::vector<Cell>>& rows() { return rows_; }
  [[nodiscard]] const std::vector<std::vector<Cell>>& rows() const { return rows_; }

  /// Lines of at most `width` cells (0: as wide as it gets). Left-aligned columns give way first; if that is not
  /// enough, the columns come in several blocks below each other, each beginning with column `key`.
  [[nodiscard]] Lines lines(int width, size_t key = 0) const;

 private:
  std::vector<GridColumn> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// `share` (0 to 1) of `cells`, to the nearest eighth; anything over 0 shows at least "▏". Never longer than `cells`.
std::string bar(double share, int cells);

/// The course of values over time in at most `cells` cells, from 0 to their largest; blank where one is negative, which
/// says that it is not known.
std::string curve(const std::vector<double>& values, size_t cells);

struct BarRow {
  std::string label;      ///< leading blanks indent
  double pct = 0;         ///< how long the bar is
  std::string value;      ///< right of it
  Style style = Style::kPlain;
};

struct Panel {
  std::string title;
  std::vector<BarRow> rows;
  std::vector<std::string> notes;  ///< below the rows; kept whole, as many on a line as fit
};

/// The panels beside each other where `width` has room for two, else below each other. All bars have one scale.
/// Panels without rows are left out.
Lines panels_lines(const std::vector<Panel>& panels, int width);

}  // namespace profgpu
