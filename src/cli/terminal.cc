#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "analyse/report/text.h"
#include "cli/command.h"
#include "cli/output.h"

namespace profgpu {
namespace {

constexpr int kDefaultWidth = 100;
constexpr int kMaxWidth = 1000;  // a report stretched further is no easier to read

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int width_of(int fd) {
  int width = std::atoi(std::string(environment("COLUMNS")).c_str());
  winsize size{};
  if (width <= 0 && ::ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width <= 0 ? kDefaultWidth : std::min(width, kMaxWidth);
}

bool colour_of(Colour when, bool terminal) {
  if (when != Colour::kAuto) return when == Colour::kAlways;
  const std::string_view term = environment("TERM");
  return terminal && environment("NO_COLOR").empty() && !term.empty() && term != "dumb";
}

}  // namespace

Colour colour_option(const Arguments& arguments) {
  const std::string when = arguments.value("--color", "auto");
  return when == "always" ? Colour::kAlways : when == "never" ? Colour::kNever : Colour::kAuto;
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

int output_width() { return width_of(STDOUT_FILENO); }
int text_width(int most) { return std::min(output_width(), most); }
int message_width() { return width_of(STDERR_FILENO); }
bool output_colour(Colour when) { return colour_of(when, stdout_is_terminal()); }
bool message_colour(Colour when) { return colour_of(when, stderr_is_terminal()); }

std::string wrap(std::string_view text, int width, std::string_view indent) {
  const int blanks = display_width(indent);
  std::string out;
  for (const std::string& line : wrapped(text, width - blanks))
    out += (out.empty() ? std::string(indent) : padded_right("", line.empty() ? 0 : blanks)) + line + "\n";
  return out;
}

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
