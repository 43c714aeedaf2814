#include "trace/import/log/progress_bar.h"

#include <algorithm>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;
constexpr size_t kMaxPoints = 1 << 20;

// "14:41", "1:02:03", "00:58".
std::optional<int64_t> clock_seconds(std::string_view text) {
  int64_t seconds = 0;
  int parts = 0;
  for (const std::string_view part : pieces_of(text, ':')) {
    if (!all_digits(part) || part.size() > 6) return std::nullopt;
    seconds = seconds * 60 + *leading_integer(part);
    ++parts;
  }
  return parts >= 2 && parts <= 3 ? std::optional(seconds * 1'000'000'000) : std::nullopt;
}

// "58.76s/it", "1.98it/s", "2.3batch/s": of one. Bars print two decimals.
void set_rate(std::string_view text, BarDrawing& bar) {
  constexpr double kRounding = 0.005;
  std::string_view unit;
  const auto value = printed_number(text, &unit);
  if (!value || *value <= 0) return;
  const double seconds = unit.starts_with("s/") ? *value : has(unit, "/s") ? 1 / *value : 0;
  if (seconds <= 0 || seconds >= 1e8) return;
  bar.each_ns = static_cast<int64_t>(seconds * 1e9);
  bar.each_error = kRounding / *value;
}

// "12/100", "12/?", "12/--".
bool set_counts(std::string_view& text, BarDrawing& bar) {
  std::string_view rest;
  const auto done = leading_integer(text, &rest);
  if (!done || *done < 0 || !rest.starts_with('/')) return false;
  rest.remove_prefix(1);
  bar.done = *done;
  for (const std::string_view unknown : {"?", "--"})
    if (rest.starts_with(unknown)) return text = rest.substr(unknown.size()), true;
  const auto total = leading_integer(rest, &text);
  if (!total || *total <= 0) return false;
  bar.total = *total;
  return true;
}

// Where tqdm's bar begins: behind its percentage, or where it would be.
size_t bar_begin(std::string_view text) {
  const size_t mark = text.rfind("%|");
  return mark != text.npos ? mark : text.rfind(": |");
}

}  // namespace

std::optional<BarDrawing> bar_drawing(std::string_view text) {
  const size_t mark = bar_begin(text);
  if (mark == text.npos) return std::nullopt;
  BarDrawing bar;
  size_t pct = mark;
  while (text[mark] == '%' && pct > 0 && (is_digit(text[pct - 1]) || text[pct - 1] == ' ')) --pct;
  bar.title = text.substr(0, pct);
  if (bar.title.ends_with(':')) bar.title.remove_suffix(1);
  std::string_view rest = text.substr(text.find('|', mark) + 1);
  const size_t end = rest.find('|');
  if (end == rest.npos) return std::nullopt;
  rest.remove_prefix(end + 1);
  if (!set_counts(rest, bar)) return std::nullopt;
  rest = without_blanks(rest);
  if (!rest.starts_with('[')) return std::nullopt;
  const size_t close = rest.find(']'), left = rest.find('<'), comma = rest.find(", ", left == rest.npos ? 0 : left);
  if (left == rest.npos) return std::nullopt;
  const auto elapsed = clock_seconds(rest.substr(1, left - 1));
  if (!elapsed) return std::nullopt;
  bar.elapsed_ns = *elapsed;
  if (comma == rest.npos || (close != rest.npos && comma > close)) return bar;
  std::string_view tail = without_blanks(rest.substr(comma + 1, close == rest.npos ? rest.npos : close - comma - 1));
  const size_t next = tail.find(", ");
  set_rate(tail.substr(0, next), bar);
  if (next != tail.npos) bar.notes = tail.substr(next + 2);
  return bar;
}

std::optional<BarDrawing> rich_bar_drawing(std::string_view text) {
  constexpr std::string_view kBetween = " \xE2\x80\xA2 ";  // a bullet between what has passed and what is left
  const size_t bullet = text.rfind(kBetween);
  if (bullet == text.npos) return std::nullopt;
  const size_t elapsed = text.rfind(' ', bullet - std::min<size_t>(bullet, 1));
  if (elapsed == text.npos || elapsed == 0) return std::nullopt;
  const auto passed = clock_seconds(text.substr(elapsed + 1, bullet - elapsed - 1));
  const size_t counts = text.find_last_not_of("0123456789/-", elapsed - 1);
  BarDrawing bar;
  std::string_view of = text.substr(counts == text.npos ? 0 : counts + 1, elapsed);
  if (!passed || !set_counts(of, bar)) return std::nullopt;
  bar.elapsed_ns = *passed;
  const auto drawn = std::ranges::find_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  bar.title = without_blanks(text.substr(0, static_cast<size_t>(drawn - text.begin())));
  std::string_view tail = text.substr(bullet + kBetween.size());
  tail.remove_prefix(std::min(tail.find(' '), tail.size()));  // what is left
  tail = without_blanks(tail);
  set_rate(tail.substr(0, tail.find(' ')), bar);
  bar.each_error = 1;  // it is of the last half minute
  if (const size_t notes = tail.find(' '); notes != tail.npos) bar.notes = tail.substr(notes + 1);
  return bar;
}

std::optional<BarDrawing> line_bar_drawing(std::string_view text) {
  const size_t mark = text.find("% \xE2");
  if (mark == text.npos) return std::nullopt;
  BarDrawing bar;
  size_t pct = mark;
  while (pct > 0 && (is_digit(text[pct - 1]) || text[pct - 1] == ' ')) --pct;
  bar.title = text.substr(0, pct);
  if (bar.title.ends_with(':')) bar.title.remove_suffix(1);
  std::string_view rest = text.substr(mark + 2);
  size_t drawn = 0;
  while (drawn < rest.size() && static_cast<unsigned char>(rest[drawn]) >= 0x80) ++drawn;
  rest = without_blanks(rest.substr(drawn));
  if (!set_counts(rest, bar)) return std::nullopt;
  rest = without_blanks(rest);
  const size_t blank = rest.find(' ');
  if (blank == rest.npos) return std::nullopt;
  set_rate(rest.substr(0, blank), bar);
  bar.each_error = 1;  // it is of the last moments
  const std::string_view passed = rest.substr(blank + 1, rest.find('<') - blank - 1);
  std::string_view unit;
  const auto seconds = leading_seconds(passed, &unit);
  const auto elapsed = unit == "s" ? seconds : clock_seconds(without_blanks(passed));
  if (!elapsed || *elapsed < 0) return std::nullopt;
  bar.elapsed_ns = *elapsed;
  return bar;
}

bool has_mean_rate(const BarDrawing& bar) {
  if (!bar.each_ns) return false;
  const double elapsed = static_cast<double>(bar.done) * static_cast<double>(*bar.each_ns);
  const double error = elapsed * bar.each_error + 1;
  const auto shown = static_cast<double>(bar.elapsed_ns);
  return elapsed + error >= shown && elapsed - error <= shown + kSecond_ns;
}

BarCourse::Point BarCourse::point_of(const BarDrawing& bar, int64_t number, int64_t line) const {
  Point p{number, bar.elapsed_ns, kSecond_ns, bar.elapsed_ns, line, bar.each_ns, false, number - bar.done};
  if (bar.done == 0 && bar.elapsed_ns == 0) p.error_ns = 0;
  if (rate_ != Rate::kMean || !has_mean_rate(bar)) return p;
  const double elapsed = static_cast<double>(bar.done) * static_cast<double>(*bar.each_ns);
  if (elapsed * bar.each_error >= kSecond_ns) return p;
  p.elapsed_ns = static_cast<int64_t>(elapsed);
  p.error_ns = static_cast<int64_t>(elapsed * bar.each_error);
  return p;
}

bool BarCourse::begins_anew(const BarDrawing& bar, int64_t number) const {
  if (points_.empty() || number >= points_.back().number) return false;
  const Point& last = points_.back();
  const bool begins = bar.done == 0 && bar.elapsed_ns == 0 && number + 1 < last.number;
  const bool same_bar = number - bar.done == last.begun;
  if (same_bar) return begins || bar.elapsed_ns < last.shown_ns / 2;
  return bar.done != bar.total && (begins || (bar.total > 0 && last.number - number > bar.total / 2));
}

void BarCourse::add(const BarDrawing& bar, int64_t number, int64_t line) {
  Point p = point_of(bar, number, line);
  bool next_bar = false;  // batches of evaluations that an old Lightning's bar counts move its beginning back
  if (points_.empty()) {
    p.restart = true;
  } else {
    Point& before = points_.back();
    if (number < before.number) return;
    next_bar = p.begun > before.begun;
    p.restart = interrupted_ || next_bar || p.shown_ns < before.shown_ns ||
                (bar.done == 0 && number > 0 && p.shown_ns == 0);
    if (number == before.number && !p.restart) {  // drawn again, or by another process
      if (p.each_ns && p.shown_ns == before.shown_ns) before.each_ns = p.each_ns;
      return;
    }
  }
  if (points_.size() + 2 > kMaxPoints) return;
  // A bar of which the first drawing is late began at 0.
  const bool begun = p.restart && !interrupted_ && bar.done > 0 && (next_bar || has_mean_rate(bar));
  if (begun && (points_.empty() || points_.back().number <= p.begun)) {
    points_.push_back({p.begun, 0, 0, 0, line, {}, true, p.begun});
    p.restart = false;
  }
  interrupted_ = false;
  points_.push_back(p);
}

std::optional<int64_t> BarCourse::step_ns(int64_t from, int64_t to, int64_t other_ns) const {
  const auto at = [&](int64_t number) { return std::ranges::lower_bound(points_, number, {}, &Point::number); };
  const auto end = at(to), begin = at(from);
  if (end == points_.end()) return std::nullopt;
  const bool one_bar = begin != points_.end() && begin < end && begin->number == from &&
                       std::none_of(begin + 1, end + 1, [](const Point& p) { return p.restart; });
  const int64_t steps_ns = one_bar && tells(*begin, *end) ? end->elapsed_ns - begin->elapsed_ns - other_ns : 0;
  if (steps_ns > 0) return steps_ns / (end->number - begin->number);
  return end->each_ns;
}

bool BarCourse::tells(const Point& from, const Point& to) const {
  constexpr int64_t kTelling = 10;
  const int64_t elapsed_ns = to.elapsed_ns - from.elapsed_ns;
  return to.number > from.number && elapsed_ns > 0 && elapsed_ns >= kTelling * (from.error_ns + to.error_ns);
}

// Of the points of one bar.
void BarCourse::add_steps(size_t first, size_t last, std::vector<LogStep>& steps) const {
  size_t from = first, told = SIZE_MAX;  // where the last stretch began
  const auto set = [&](LogStep& s, const Point& begin, const Point& end, int64_t each_ns) {
    s.number = end.number, s.line = end.line;
    s.iterations = end.number - begin.number;
    s.duration_ns = each_ns;
    s.derived = true;
  };
  const auto each = [](const Point& begin, const Point& end) {
    return (end.elapsed_ns - begin.elapsed_ns) / (end.number - begin.number);
  };
  for (size_t i = first + 1; i <= last; ++i) {
    if (!tells(points_[from], points_[i])) continue;
    set(steps.emplace_back(), points_[from], points_[i], each(points_[from], points_[i]));
    told = from, from = i;
  }
  const Point &begin = points_[told != SIZE_MAX ? told : first], &end = points_[last];
  if (from == last || end.number <= points_[from].number) return;
  if (told != SIZE_MAX) return set(steps.back(), begin, end, each(begin, end));
  if (begin.elapsed_ns == 0 && end.each_ns) return set(steps.emplace_back(), begin, end, *end.each_ns);
  if (end.elapsed_ns > begin.elapsed_ns) set(steps.emplace_back(), begin, end, each(begin, end));
}

std::vector<LogStep> BarCourse::steps() const {
  std::vector<LogStep> steps;
  size_t first = 0;
  for (size_t i = 1; i <= points_.size(); ++i) {
    if (i < points_.size() && !points_[i].restart) continue;
    add_steps(first, i - 1, steps);
    first = i;
  }
  return steps;
}

}  // namespace profgpu
