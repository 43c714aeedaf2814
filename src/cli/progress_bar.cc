#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "cli/output.h"

namespace profgpu {
namespace {

constexpr auto kQuiet = std::chrono::milliseconds(500);  // most files are read before anyone wonders
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kCells = 30;

void put(std::string_view text) {
  // A progress line that cannot be shown is no reason to stop.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string progress_line(const Progress& progress) {
  const auto done = static_cast<double>(progress.done_bytes.load());
  const auto total = static_cast<double>(progress.total_bytes.load());
  const char* stage = progress.stage.load();
  if (total <= 0) return fmt::format("{}  {:.0f} MB", stage, done / 1e6);
  const double share = std::clamp(done / total, 0.0, 1.0);
  const int full = static_cast<int>(share * kCells);
  return fmt::format("{}  [{:#<{}}{: <{}}]  {:.0f} %  {:.0f} of {:.0f} MB", stage, "", full, "", kCells - full,
                     100 * share, done / 1e6, total / 1e6);
}

ProgressBar::ProgressBar(const Progress& progress, bool shown) : progress_(progress) {
  if (shown) thread_ = std::thread([this] { draw_until_done(); });
}

ProgressBar::~ProgressBar() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProgressBar::draw_until_done() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kQuiet, [this] { return done_; })) return;
  clear_line_on_interrupt(true);
  do {
    put("\r" + progress_line(progress_) + "\033[K");
  } while (!changed_.wait_for(lock, kTick, [this] { return done_; }));
  put("\r\033[K");
  clear_line_on_interrupt(false);
}

}  // namespace profgpu
