// What the terminal, if there is one, can show.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/progress.h"

namespace profgpu {

class Arguments;

enum class Colour { kAuto, kAlways, kNever };
/// --color.
Colour colour_option(const Arguments& arguments);

/// Columns of standard output: COLUMNS, else the terminal's own, else 100.
int output_width();
/// For running text on standard output: at most so many columns, since longer lines are harder to read.
int text_width(int most);
/// Whether to color standard output: kAuto does on a terminal unless NO_COLOR is set or TERM is dumb.
bool output_colour(Colour when);
/// The same for standard error, which gets the summary of a run.
int message_width();
bool message_colour(Colour when);

bool stdout_is_terminal();
bool stderr_is_terminal();

/// Lines of at most `width` columns, each with its line feed. The first begins with `indent`, the others with as many
/// blanks.
std::string wrap(std::string_view text, int width, std::string_view indent);

// A line on standard error that shows how far reading has come.

/// Draws at most ten times a second, from the first half second on, until destroyed; then the line is gone.
/// Draws nothing if not `shown`.
class ProgressBar {
 public:
  ProgressBar(const Progress& progress, bool shown);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  void draw_until_done();

  const Progress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// "reading  [#####     ]  51 %  1.2 of 2.4 GB", without colours or control characters.
std::string progress_line(const Progress& progress);

}  // namespace profgpu
