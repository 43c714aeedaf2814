// An interactive session of `profgpu top`: views and keys in, frames out, signals handled; the terminal; and what the
// user does to processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "watch/live/live_view.h"
#include "watch/top/model.h"

namespace profgpu {

struct ScreenOptions {
  bool colour = true;
  bool mouse = true;
};

/// The terminal: draws frames and reads keys. At most one at a time; its end restores what the terminal showed before.
class Screen {
 public:
  /// Takes over standard input and output, which must be a terminal. The error says what the terminal lacks.
  static Result<std::unique_ptr<Screen>> open(ScreenOptions options);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void draw(const Frame& frame);
  /// The next key; nullopt: none for now. Never blocks.
  std::optional<KeyPress> key();
  [[nodiscard]] int width() const;
  [[nodiscard]] int height() const;
  /// Reads the terminal's size again.
  void resize();
  /// Releases the terminal for a while, and takes it over again.
  void suspend();
  void resume();

 private:
  explicit Screen(ScreenOptions options);
  void set_up_styles();
  void draw_line(int y, const FrameLine& line);
  [[nodiscard]] FrameLine fitted(const FrameLine& line) const;

  ScreenOptions options_;
  bool ascii_ = false;             // the locale has no other characters
  std::vector<FrameLine> drawn_;   // the screen's content, by row
};

struct SessionOptions {
  ScreenOptions screen;
  ProcessOrder order;
  /// A line above the processes, such as why a recording stopped; empty: none.
  std::function<std::string()> notice = {};
};

struct SessionEnd {
  int signal = 0;        ///< that ended it; 0: the user left
  bool silent = false;   ///< a device did not answer at the end: do not wait for it
};

/// Runs until the user quits or a signal comes, then restores the terminal. Starts `source` and leaves it running.
Result<SessionEnd> run_session(LiveSource& source, const SessionOptions& options);

/// Acts only on the process that was meant, never on another that got its pid since. The error says why not.
Status carry_out(const ProcessCommand& command);

}  // namespace profgpu
