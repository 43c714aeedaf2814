// Progress bars as tqdm draws them: "Epoch 3:  12%|█▎   | 12/100 [00:58<14:41, 58.76s/it, loss=2.3]", "Epoch 0: | |
// 12/? [00:58<?, …]"; and rich: "Epoch 2/9  ━━━━━ 12/100 0:00:58 • 0:07:09 4.87s/it loss: 2.3".
//
// A bar shows whole seconds. Where its rate is the mean since its start, that tells the time more exactly. A time
// between two drawings is taken only if it is at least ten times what the two may be wrong by.
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
  int64_t done = 0, total = 0;     ///< total 0: not known
  int64_t elapsed_ns = 0;          ///< whole seconds
  std::optional<int64_t> each_ns;  ///< of one iteration, as the bar shows it
  double each_error = 0;           ///< what that may be wrong by, as a part of it
  std::string_view notes;          ///< behind the rate: "loss=2.3"
};

/// The last one of tqdm's in a line; nullopt: there is none.
std::optional<BarDrawing> bar_drawing(std::string_view text);
/// Likewise of rich's.
std::optional<BarDrawing> rich_bar_drawing(std::string_view text);
/// Of Ultralytics: "640: 50% ━━━╸─── 50/100 4.0it/s 12.5s<12.5s".
std::optional<BarDrawing> line_bar_drawing(std::string_view text);
/// Whether `each_ns` can be the mean since the start of the bar.
bool has_mean_rate(const BarDrawing& bar);

/// The course of bars of one kind, such as the one of all steps, or one an epoch.
class BarCourse {
 public:
  enum class Rate : uint8_t {
    kSmoothed,
    kMean,  ///< since the start of the bar
  };
  explicit BarCourse(Rate rate = Rate::kSmoothed) : rate_(rate) {}
  /// `number`: steps that are done when the drawing shows `done`.
  void add(const BarDrawing& bar, int64_t number, int64_t line);
  /// Whether a drawing is of a bar of another run: not of a later epoch's, nor of another process's that lags.
  [[nodiscard]] bool begins_anew(const BarDrawing& bar, int64_t number) const;
  /// Until the next drawing the program does something else, such as an evaluation: that time is no step's.
  void interrupt() { interrupted_ = true; }
  [[nodiscard]] int64_t number() const { return points_.empty() ? -1 : points_.back().number; }
  /// Time of one step between two numbers, as far as the drawings tell; nullopt: they do not. `other_ns`: of the time
  /// between them that the program did something else.
  [[nodiscard]] std::optional<int64_t> step_ns(int64_t from, int64_t to, int64_t other_ns = 0) const;
  /// Steps of stretches that are long enough, for lack of better ones. What is left over at the end of a bar belongs to
  /// the stretch before.
  [[nodiscard]] std::vector<LogStep> steps() const;
  [[nodiscard]] int64_t elapsed_ns() const { return points_.empty() ? 0 : points_.back().elapsed_ns; }

 private:
  struct Point {
    int64_t number = 0, elapsed_ns = 0, error_ns = 0, shown_ns = 0, line = 0;
    std::optional<int64_t> each_ns;
    bool restart = false;  // another bar, or after something else: the time counts from here
    int64_t begun = 0;     // number of the step before the bar's first
  };
  [[nodiscard]] Point point_of(const BarDrawing& bar, int64_t number, int64_t line) const;
  [[nodiscard]] bool tells(const Point& from, const Point& to) const;
  void add_steps(size_t first, size_t last, std::vector<LogStep>& steps) const;

  Rate rate_;
  bool interrupted_ = false;
  std::vector<Point> points_;
};

}  // namespace profgpu
