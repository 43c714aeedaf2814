#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace profgpu {
namespace {

constexpr int kDefaultWidth = 100;
constexpr int kWidest = 1000;  // a report stretched further is no easier to read

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int width_of(int fd) {
  int width = std::atoi(std::string(environment("COLUMNS")).c_str());
  winsize size{};
  if (width <= 0 && ::ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width <= 0 ? kDefaultWidth : std::min(width, kWidest);
}

bool colour_of(Colour asked, bool terminal) {
  if (asked != Colour::kAuto) return asked == Colour::kAlways;
  return terminal && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

}  // namespace

Flag colour_flag() {
  return {.name = "--color", .value = "WHEN", .help = "colours (default auto)", .choices = {"auto", "always", "never"}};
}

Colour asked_colour(const Arguments& arguments) {
  const std::string when = arguments.value("--color", "auto");
  return when == "always" ? Colour::kAlways : when == "never" ? Colour::kNever : Colour::kAuto;
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

int output_width() { return width_of(STDOUT_FILENO); }
int message_width() { return width_of(STDERR_FILENO); }
bool output_colour(Colour asked) { return colour_of(asked, stdout_is_terminal()); }
bool message_colour(Colour asked) { return colour_of(asked, stderr_is_terminal()); }

}  // namespace profgpu
