#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <langinfo.h>
#include <ncursesw/curses.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "analyse/report/text.h"
#include "view/ascii.h"
#include "watch/top/session.h"

namespace profgpu {
namespace {

constexpr int kEscapeDelay_ms = 25;   // Esc feels slow with more; terminals send the bytes of a key together

struct StyleLook {
  Style style;
  short colour;   // -1: the terminal's own
  attr_t attributes;
};
// As in reports (view/layout.cc).
constexpr StyleLook kLooks[] = {
    {Style::kPlain, -1, A_NORMAL},         {Style::kStrong, -1, A_BOLD},         {Style::kFaint, -1, A_DIM},
    {Style::kGood, COLOR_GREEN, A_NORMAL}, {Style::kWarn, COLOR_YELLOW, A_NORMAL}, {Style::kBad, COLOR_RED, A_NORMAL},
    {Style::kNote, COLOR_CYAN, A_NORMAL},  {Style::kWall, COLOR_CYAN, A_NORMAL}, {Style::kBusy, COLOR_GREEN, A_NORMAL},
    {Style::kIdle, COLOR_YELLOW, A_NORMAL}, {Style::kStrongBad, COLOR_RED, A_BOLD},
};

const StyleLook& look_of(Style style) { return kLooks[static_cast<size_t>(style)]; }

bool shows_symbols() {
  std::setlocale(LC_CTYPE, "");
  // Linux' own console has neither braille nor parts of blocks.
  const char* term = std::getenv("TERM");
  return std::string_view(::nl_langinfo(CODESET)) == "UTF-8" && std::string_view(term ? term : "") != "linux";
}

std::optional<KeyPress> mouse_press() {
  MEVENT event{};
  if (::getmouse(&event) != OK) return std::nullopt;
  KeyPress press;
  press.x = event.x;
  press.y = event.y;
  press.kind = (event.bstate & BUTTON4_PRESSED) != 0   ? KeyPress::Kind::kWheelUp
               : (event.bstate & BUTTON5_PRESSED) != 0 ? KeyPress::Kind::kWheelDown
                                                       : KeyPress::Kind::kClick;
  return press;
}

std::optional<KeyPress> special_press(wint_t code) {
  using Kind = KeyPress::Kind;
  switch (code) {
    case KEY_UP: return KeyPress{Kind::kUp};
    case KEY_DOWN: return KeyPress{Kind::kDown};
    case KEY_LEFT: return KeyPress{Kind::kLeft};
    case KEY_RIGHT: return KeyPress{Kind::kRight};
    case KEY_PPAGE: return KeyPress{Kind::kPageUp};
    case KEY_NPAGE: return KeyPress{Kind::kPageDown};
    case KEY_HOME: return KeyPress{Kind::kHome};
    case KEY_END: return KeyPress{Kind::kEnd};
    case KEY_ENTER: return KeyPress{Kind::kEnter};
    case KEY_BACKSPACE: return KeyPress{Kind::kBackspace};
    case KEY_F(1): return KeyPress{Kind::kCharacter, 'h'};
    case KEY_F(10): return KeyPress{Kind::kCharacter, 'q'};
    case KEY_MOUSE: return mouse_press();
    default: return std::nullopt;
  }
}

KeyPress plain_press(wint_t c) {
  using Kind = KeyPress::Kind;
  switch (c) {
    case '\r':
    case '\n': return {Kind::kEnter};
    case 0x1b: return {Kind::kEscape};
    case 0x7f:
    case '\b': return {Kind::kBackspace};
    default: return {Kind::kCharacter, static_cast<uint32_t>(c)};
  }
}

}  // namespace

Screen::Screen(ScreenOptions options) : options_(options) {}

Result<std::unique_ptr<Screen>> Screen::open(ScreenOptions options) {
  std::unique_ptr<Screen> screen(new Screen(options));
  screen->ascii_ = !shows_symbols();
  // The terminal knows its size; LINES and COLUMNS in the environment may be those of another one.
  ::use_env(FALSE);
  ::use_tioctl(TRUE);
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    const char* term = std::getenv("TERM");
    return Error{"unknown terminal \"" + sanitised(term ? term : "") + "\"", "try TERM=xterm, or --once"};
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(::stdscr, TRUE);
  ::nodelay(::stdscr, TRUE);
  ::set_escdelay(kEscapeDelay_ms);
  ::typeahead(-1);   // do not check for keys in the middle of a frame
  ::curs_set(0);
  screen->set_up_styles();
  if (options.mouse) {
    ::mouseinterval(0);
    ::mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  }
  // Until the first endwin(), ncurses 6.4 writes each cursor movement separately: a hundred writes a frame.
  ::endwin();
  ::refresh();
  return screen;
}

Screen::~Screen() {
  if (::stdscr != nullptr && !::isendwin()) ::endwin();
}

void Screen::set_up_styles() {
  options_.colour = options_.colour && ::has_colors() && ::start_color() == OK && ::use_default_colors() == OK;
  if (!options_.colour) return;
  for (const StyleLook& look : kLooks)
    if (look.colour >= 0) ::init_pair(static_cast<short>(look.colour + 1), look.colour, -1);
}

int Screen::width() const { return ::getmaxx(::stdscr); }
int Screen::height() const { return ::getmaxy(::stdscr); }

void Screen::draw_line(int y, const FrameLine& line) {
  const attr_t reverse = line.reversed ? A_REVERSE : A_NORMAL;
  for (const CellRun& run : changed_cells(drawn_[static_cast<size_t>(y)], line, width())) {
    const StyleLook& look = look_of(run.style);
    const bool coloured = options_.colour && look.colour >= 0 && !line.reversed;
    ::attr_set(look.attributes | reverse, static_cast<short>(coloured ? look.colour + 1 : 0), nullptr);
    ::mvaddstr(y, run.x, run.text.c_str());
  }
  ::attr_set(A_NORMAL, 0, nullptr);
}

FrameLine Screen::fitted(const FrameLine& line) const {
  FrameLine out{{}, line.reversed};
  const Line cut = line.line.cut_to(width());
  for (const Line::Span& span : cut.spans())
    out.line.add(ascii_ ? ascii_text(span.text) : span.text, span.style);
  return out;
}

void Screen::draw(const Frame& frame) {
  // Most lines do not change from one frame to the next.
  drawn_.resize(static_cast<size_t>(std::max(height(), 0)));
  for (size_t y = 0; y < drawn_.size(); ++y) {
    FrameLine line = y < frame.lines.size() ? frame.lines[y] : FrameLine{};
    if (ascii_ || line.line.width() > width()) line = fitted(line);
    if (line == drawn_[y]) continue;
    draw_line(static_cast<int>(y), line);
    drawn_[y] = std::move(line);
  }
  const bool typing = frame.cursor_y >= 0;
  ::curs_set(typing ? 1 : 0);
  if (typing) ::move(frame.cursor_y, frame.cursor_x);
  ::refresh();
}

std::optional<KeyPress> Screen::key() {
  while (true) {
    wint_t c = 0;
    const int kind = ::get_wch(&c);
    if (kind == ERR) return std::nullopt;
    if (kind == OK && c == 0x0c) {   // Ctrl-L: another program wrote on the screen
      ::clearok(::curscr, TRUE);
      ::refresh();
    } else if (kind == OK) {
      return plain_press(c);
    } else if (const auto press = special_press(c)) {
      return press;
    }
  }
}

void Screen::resize() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    ::resizeterm(size.ws_row, size.ws_col);
  ::erase();
  drawn_.clear();
}

void Screen::suspend() { ::endwin(); }

void Screen::resume() {
  resize();
  ::clearok(::curscr, TRUE);
  ::refresh();
}

}  // namespace profgpu
