// Text layout: lines of styled spans, aligned columns, bars. Everything for a terminal goes through Line::add, which
// makes it harmless, and through rendered(), which cuts long lines, so that no other code has to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/severity.h"

namespace profgpu {

enum class Style : char { kPlain, kStrong, kFaint, kGood, kWarn, kBad, kNote, kWall, kBusy, kIdle, kStrongBad };

Style severity_style(Severity severity);
/// For a share of a limit: fine, near it, at it; faint if unknown.
Style heat(const std::optional<double>& share, double warn, double bad);
/// nullopt if either is unknown, or `all` is not positive.
std::optional<double> ratio(const std::optional<double>& part, const std::optional<double>& all);

class Line {
 public:
  Line() = default;
  explicit Line(std::string_view text, Style style = Style::kPlain) { add(text, style); }

  Line& add(std::string_view text, Style style = Style::kPlain);
  Line& add(const Line& other);
  Line& skip(int cells);
  /// Never cut, so that it can be copied.
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
  /// At most `width` cells, with "…" where something is cut off.
  [[nodiscard]] Line cut_to(int width) const;
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }
  void append_to(std::string& out, int width, bool colour) const;

 private:
  std::vector<Span> spans_;
  int width_ = 0;
  bool whole_ = false;
};

using Lines = std::vector<Line>;

void append(Lines& to, Lines lines);
/// After an empty line.
void append_apart(Lines& to, Lines lines);
/// A text in lines of at most `width` cells: the first after `first`, the others below its end. Cuts a paragraph after
/// `most` lines, so that an endless name does not push the rest off the screen.
Lines wrapped_after(Line first, std::string_view text, int width, Style style = Style::kPlain, int most = 40);
/// Suggested commands. None is wrapped or cut: one that is too long gets a line of its own.
Lines next_lines(const std::vector<std::string>& commands, int width);
/// Two columns; the right one begins at `column`.
Lines beside(Lines left, const Lines& right, int column);
/// Lines as bytes, without trailing blanks, cut to `width` cells (0: not cut) except whole ones. Drops leading and
/// repeated empty lines.
std::string rendered(const Lines& lines, int width, bool colour);

/// The origin of a cell's text: Markdown shows ours unchanged, other words escaped, names from a trace as code.
enum class Holds : char { kOurs, kWords, kName };

struct Cell {
  std::string text;
  Style style = Style::kPlain;
  Holds holds = Holds::kOurs;
};

struct GridColumn {
  std::string header;
  bool right = false;     ///< right-aligned, and never shortened
};

/// A table, for any format.
class Grid {
 public:
  explicit Grid(std::vector<GridColumn> columns = {});
  void add_column(std::string_view header, bool right = false);
  void add_row(std::vector<Cell> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] const std::vector<GridColumn>& columns() const { return columns_; }
  [[nodiscard]] std::vector<std::vector<Cell>>& rows() { return rows_; }
  [[nodiscard]] const std::vector<std::vector<Cell>>& rows() const { return rows_; }

  /// Lines of at most `width` cells (0: unlimited). Shortens left-aligned columns first; if that is not enough, the
  /// columns come in several blocks below each other, each beginning with column `key`.
  [[nodiscard]] Lines lines(int width, size_t key = 0) const;

 private:
  std::vector<GridColumn> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// `share` (0 to 1) of `cells`, to the nearest eighth, and at least "▏" above 0.
std::string bar(double share, int cells);

/// Values over time in at most `cells` cells, scaled to the largest; blank where one is negative, which means unknown.
std::string curve(const std::vector<double>& values, size_t cells);

struct BarRow {
  std::string label;      ///< leading blanks indent
  double pct = 0;         ///< how long the bar is
  std::string value;      ///< right of the bar
  Style style = Style::kPlain;
};

struct Panel {
  std::string title;
  std::vector<BarRow> rows;
  std::vector<std::string> notes;  ///< below the rows, not cut, as many per line as fit
};

/// Two panels beside each other where `width` allows, else below each other, with one scale for all bars. Leaves out
/// panels without rows.
Lines panels_lines(const std::vector<Panel>& panels, int width);

}  // namespace profgpu
