// The terminal: draws frames and reads keys. The only file that knows curses.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "watch/top/frame.h"

namespace profgpu {

struct ScreenOptions {
  bool colour = true;
  bool mouse = true;
};

/// One at a time. What the terminal showed before comes back when it goes.
class Screen {
 public:
  /// Takes over standard input and output, which are a terminal. The error says what the terminal lacks.
  static Result<std::unique_ptr<Screen>> open(ScreenOptions options);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void draw(const Frame& frame);
  /// What was pressed; nullopt: nothing more for now. Never waits.
  std::optional<KeyPress> key();
  [[nodiscard]] int width() const;
  [[nodiscard]] int height() const;
  /// Asks the terminal for its size again.
  void resize();
  /// Gives the terminal back for a while, and takes it again.
  void suspend();
  void resume();

 private:
  explicit Screen(ScreenOptions options);
  void set_up_styles();
  void draw_line(int y, const FrameLine& line);
  [[nodiscard]] FrameLine fitted(const FrameLine& line) const;
  void forget() { drawn_.clear(); }

  ScreenOptions options_;
  bool ascii_ = false;   // the locale knows no other letters
  std::vector<FrameLine> drawn_;   // what stands on the screen, by row
};

}  // namespace profgpu
