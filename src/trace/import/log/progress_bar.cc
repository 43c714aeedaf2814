#include "trace/import/log/progress_bar.h"

#include <algorithm>

#include "base/text.h"

namespace profgpu {
namespace {

constexpr int64_t kTelling_ns = 20'000'000'000;
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

// "58.76s/it", "1.98it/s", "2.3batch/s": of one.
std::optional<int64_t> each(std::string_view rate) {
  std::string_view unit;
  const auto value = printed_number(rate, &unit);
  if (!value || *value <= 0) return std::nullopt;
  const double seconds = unit.starts_with("s/") ? *value : has(unit, "/s") ? 1 / *value : 0;
  return seconds > 0 && seconds < 1e8 ? std::optional(static_cast<int64_t>(seconds * 1e9)) : std::nullopt;
}

}  // namespace

std::optional<BarDrawing> bar_drawing(std::string_view text) {
  const size_t mark = text.rfind("%|");
  if (mark == text.npos) return std::nullopt;
  BarDrawing bar;
  size_t pct = mark;
  while (pct > 0 && (is_digit(text[pct - 1]) || text[pct - 1] == ' ')) --pct;
  bar.title = text.substr(0, pct);
  if (bar.title.ends_with(':')) bar.title.remove_suffix(1);
  std::string_view rest = text.substr(mark + 2);
  const size_t end = rest.find('|');
  if (end == rest.npos) return std::nullopt;
  rest.remove_prefix(end + 1);
  const auto done = leading_integer(rest, &rest);
  if (!done || *done < 0 || !rest.starts_with('/')) return std::nullopt;
  const auto total = leading_integer(rest.substr(1), &rest);
  if (!total || *total <= 0) return std::nullopt;
  rest = without_blanks(rest);
  if (!rest.starts_with('[')) return std::nullopt;
  const size_t close = rest.find(']'), left = rest.find('<'), comma = rest.find(", ", left == rest.npos ? 0 : left);
  if (left == rest.npos) return std::nullopt;
  const auto elapsed = clock_seconds(rest.substr(1, left - 1));
  if (!elapsed) return std::nullopt;
  bar.done = *done, bar.total = *total, bar.elapsed_ns = *elapsed;
  if (comma == rest.npos || (close != rest.npos && comma > close)) return bar;
  std::string_view tail = without_blanks(rest.substr(comma + 1, close == rest.npos ? rest.npos : close - comma - 1));
  const size_t next = tail.find(", ");
  bar.each_ns = each(tail.substr(0, next));
  if (next != tail.npos) bar.notes = tail.substr(next + 2);
  return bar;
}

void BarCourse::add(const BarDrawing& bar, int64_t number, int64_t line) {
  if (!points_.empty() && number <= points_.back().number && bar.elapsed_ns >= points_.back().elapsed_ns) {
    if (number == points_.back().number && bar.each_ns) points_.back().each_ns = bar.each_ns;
    return;  // drawn again, or by another process
  }
  if (!points_.empty() && number < points_.back().number) return;
  if (points_.size() >= kMaxPoints) return;
  const bool restart = points_.empty() || bar.elapsed_ns < points_.back().elapsed_ns;
  points_.push_back({number, bar.elapsed_ns, line, bar.each_ns, restart});
}

std::optional<int64_t> BarCourse::step_ns(int64_t from, int64_t to) const {
  const auto at = [&](int64_t number) { return std::ranges::lower_bound(points_, number, {}, &Point::number); };
  const auto end = at(to), begin = at(from);
  if (end == points_.end()) return std::nullopt;
  const bool one_bar = begin != points_.end() && begin < end && begin->number == from &&
                       std::none_of(begin + 1, end + 1, [](const Point& p) { return p.restart; });
  if (one_bar && end->elapsed_ns - begin->elapsed_ns >= kTelling_ns && end->number > begin->number)
    return (end->elapsed_ns - begin->elapsed_ns) / (end->number - begin->number);
  return end->each_ns;
}

std::vector<LogStep> BarCourse::steps() const {
  std::vector<LogStep> steps;
  const auto add = [&](const Point& from, const Point& to, int64_t elapsed_ns) {
    if (to.number <= from.number || elapsed_ns <= 0) return;
    LogStep& s = steps.emplace_back();
    s.number = to.number;
    s.iterations = to.number - from.number;
    s.line = to.line;
    s.duration_ns = elapsed_ns / s.iterations;
    s.derived = true;
  };
  size_t first = 0;
  for (size_t i = 1; i < points_.size(); ++i) {
    if (points_[i].restart) {
      first = i;
      continue;
    }
    const int64_t elapsed_ns = points_[i].elapsed_ns - points_[first].elapsed_ns;
    const bool ends = i + 1 == points_.size() || points_[i + 1].restart;
    if (elapsed_ns < kTelling_ns && !(ends && steps.empty())) continue;
    add(points_[first], points_[i], elapsed_ns);
    first = i;
  }
  return steps;
}

}  // namespace profgpu
