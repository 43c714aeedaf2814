// Progress bars as tqdm draws them: "Epoch 3:  12%|█▎   | 12/100 [00:58<14:41, 58.76s/it, loss=2.3]".
//
// A bar shows whole seconds, so a time between two drawings is taken only over 20 of them or more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/log/log_builder.h"

namespace profgpu {

struct BarDrawing {
  std::string_view title;  ///< "Epoch 3"; empty: it has none
  int64_t done = 0, total = 0;
  int64_t elapsed_ns = 0;          ///< whole seconds
  std::optional<int64_t> each_ns;  ///< of one iteration, smoothed, as the bar shows it
  std::string_view notes;          ///< behind the rate: "loss=2.3"
};

/// The last one in a line; nullopt: there is none.
std::optional<BarDrawing> bar_drawing(std::string_view text);

/// The course of bars of one kind, such as the one of all steps, or one an epoch.
class BarCourse {
 public:
  /// `number`: steps that are done when the drawing shows `done`.
  void add(const BarDrawing& bar, int64_t number, int64_t line);
  [[nodiscard]] int64_t number() const { return points_.empty() ? -1 : points_.back().number; }
  /// Time of one step between two numbers, as far as the drawings tell; nullopt: they do not.
  [[nodiscard]] std::optional<int64_t> step_ns(int64_t from, int64_t to) const;
  /// Steps of stretches of 20 s or more, for lack of better ones.
  [[nodiscard]] std::vector<LogStep> steps() const;
  [[nodiscard]] int64_t elapsed_ns() const { return points_.empty() ? 0 : points_.back().elapsed_ns; }

 private:
  struct Point {
    int64_t number = 0, elapsed_ns = 0, line = 0;
    std::optional<int64_t> each_ns;
    bool restart = false;  // another bar: the time is counted from its start
  };
  std::vector<Point> points_;
};

}  // namespace profgpu
