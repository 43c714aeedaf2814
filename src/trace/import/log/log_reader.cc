#include "trace/import/log/log_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"
#include "base/text_source.h"

namespace profgpu {
namespace {

constexpr size_t kPiece = 1 << 18;
constexpr size_t kPadding = 64;                  // readable bytes behind a piece
// How lines of launchers and drivers begin, or what else only they have.
constexpr std::array<std::string_view, 3> kLaunchers = {"slurmstepd: ", "srun: ", "Traceback (most recent call last)"};
constexpr std::array<std::string_view, 7> kDrivers = {
    "torch.distributed.elastic", "torch/distributed/elastic", "ProcessGroupNCCL.cpp:",
    "NVRM: Xid (PCI:",           "NVRM: fallen off the bus",  "GPU has fallen off the bus",
    "mpirun noticed that process rank "};

// "torch.OutOfMemoryError: … Tried to allocate 2.00 GiB": prose does not begin with a class.
bool is_memory_error(std::string_view message) {
  const std::string_view name = message.substr(0, message.find(": "));
  return (name.ends_with("Error") || name.ends_with("Exception")) && name.find(' ') == name.npos &&
         contains_any(message, std::array<std::string_view, 3>{"Tried to allocate ", "trying to allocate ",
                                                               "Out of memory allocating "});
}

constexpr int64_t kSearched = int64_t{4} << 30;  // bytes of a file without a telling head: seconds

bool is_printed(const LogLine& line) {
  const auto begins = [&](std::string_view words) { return line.message.starts_with(words); };
  return line.rank >= 0 || !line.node.empty() || line.printed_ns || line.headed || is_memory_error(line.message) ||
         std::ranges::any_of(kLaunchers, begins) ||
         contains_any(line.text, kDrivers);
}

// Where the first of two bars ends that were drawn one behind the other, without an end of line between them; npos:
// there are not two.
size_t end_of_first_bar(std::string_view text) {
  const size_t first = place_of(text, "%|");
  const size_t second = first == text.npos ? first : place_of(text, "%|", first + 2);
  if (second == text.npos) return text.npos;
  const size_t end = text.substr(0, second).rfind(']');
  return end == text.npos || end < first || end + 1 >= second ? text.npos : end + 1;
}

}  // namespace

LogReader::LogReader() {
  uint64_t bit = 1;
  for (const LogFamily* family : log_families()) {
    for (const std::string_view word : family->words) scan_.add(word, bit);
    families_.push_back({bit, family->begin(), family->name, family->of_logs_only});
    if (std::ranges::count(family->words, "%|") > 0) bars_ |= bit;
    bit <<= 1;
  }
  scan_.add("\x1b[", escape_ = bit);
}

void LogReader::feed(std::string_view text) {
  rows_.log().text_bytes += static_cast<int64_t>(text.size());
  while (!text.empty()) {
    if (skips_) {
      const size_t end = text.find_first_of("\r\n");
      if (end == text.npos) return;
      number_ += text[end] == '\n';
      skips_ = false;
      text.remove_prefix(end + 1);
    } else if (rest_.empty()) {
      lines_of(text);
      text = {};
    } else {
      text = complete_rest(text);
    }
    if (rest_.size() >= kMaxLine) make_room();
  }
}

// The line that the last piece left over, up to its end or as far as there is room. Returns what is left of the text.
std::string_view LogReader::complete_rest(std::string_view text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const size_t part = std::min(end, kMaxLine - std::min(kMaxLine, rest_.size()));
  rest_.append(text.substr(0, part));
  text.remove_prefix(part);
  if (part < end || text.empty()) return text;
  give_rest();
  ++number_;
  return text.substr(1);
}

void LogReader::give_rest() {
  std::string whole = std::move(rest_);
  rest_.clear();
  const size_t size = whole.size();
  whole.append(kPadding, '\0');
  line(whole.data(), whole.data() + size);
}

// What ends with a carriage return is whole; else the line is too long, and its rest is left out.
void LogReader::make_room() {
  const size_t end = rest_.rfind('\r');
  std::string left = end == rest_.npos ? std::string() : rest_.substr(end + 1);
  skips_ = end == rest_.npos;
  rows_.log().cut_lines += skips_;
  if (!skips_) rest_.resize(end);
  give_rest();
  rest_ = std::move(left);
}

void LogReader::lines_of(std::string_view text) {
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    const auto* line_end = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (line_end == nullptr) break;
    line(at, line_end);
    ++number_;
    at = line_end + 1;
  }
  rest_.assign(at, end);
}

// A progress bar draws itself anew after each carriage return: each drawing is a line of its own.
void LogReader::line(const char* begin, const char* end) {
  const auto size = static_cast<size_t>(end - begin);
  if (size > kMaxLine && std::memchr(begin, '\r', size) == nullptr) ++rows_.log().cut_lines;
  const uint64_t found = scan_(begin, end);
  if ((found & ~escape_) == 0 && !open_) return;
  while (begin < end) {
    const auto* part_end = static_cast<const char*>(std::memchr(begin, '\r', static_cast<size_t>(end - begin)));
    if (part_end == nullptr) part_end = end;
    if (part_end > begin) part({begin, std::min(static_cast<size_t>(part_end - begin), kMaxLine)}, found);
    begin = part_end + 1;
  }
}

void LogReader::part(std::string_view text, uint64_t found) {
  if ((found & escape_) != 0) {
    plain_.assign(text);
    strip_escapes(plain_);
    text = plain_;
  }
  for (size_t end = 0; (found & bars_) != 0 && (end = end_of_first_bar(text)) != text.npos; text.remove_prefix(end))
    drawing(text.substr(0, end), found);
  drawing(text, found);
}

void LogReader::drawing(std::string_view text, uint64_t found) {
  decimal_commas_ = decimal_commas_ || has_decimal_comma(text);
  if (decimal_commas_ && text.find(',') != text.npos) {
    std::string pointed(text);
    point_for_comma(pointed);
    return give(log_line(pointed, number_), found);
  }
  give(log_line(text, number_), found);
}

void LogReader::give(const LogLine& line, uint64_t found) {
  bool known = false, open = false;
  for (Family& f : families_) {
    const bool wanted = (f.bit & found) != 0 || (open_ && f.reading->expects_more());
    if (wanted && f.reading->read(line, rows_)) {
      rows_.found(f.name), known = true;
      is_log_ = is_log_ || f.of_logs_only || is_printed(line);
    }
    if (wanted) open |= f.reading->expects_more();
  }
  open_ = open;
  records_ += known;
  if (known) rows_.mark_lost_loss(line);
}

void LogReader::end() {
  const bool unended = !rest_.empty() || skips_;
  give_rest();
  number_ += unended;
  skips_ = false;
  for (Family& f : families_) f.reading->end(rows_);
  rows_.log().lines = number_ - 1;
  rows_.log().records = records_;
}

Result<RunLog> read_log(const std::string& path, const std::function<void(int64_t, int64_t)>& more) {
  auto source = open_text(path);
  if (!source) return source.error();
  LogReader reader;
  std::string piece(kPiece + kPadding, '\0');
  for (;;) {
    const size_t size = (*source)->read(piece.data(), kPiece);
    if (size > 0) reader.feed({piece.data(), size});
    if (more) more((*source)->file_bytes_read(), (*source)->file_bytes());
    if (size < kPiece) break;
  }
  if ((*source)->end() == TextSource::End::kUnreadable) return Error{path + ": " + (*source)->problem()};
  reader.end();
  RunLog log = reader.taken();
  log.path = path;
  const bool cut = (*source)->end() != TextSource::End::kComplete;
  if (cut) log.problem = (*source)->problem();
  return log;
}

bool head_of_log(std::string_view head) {
  LogReader reader;
  std::string text(head);
  text.append(kPadding, '\0');
  reader.feed({text.data(), head.size()});
  return reader.is_log();
}

bool holds_log(const std::string& path) {
  auto source = open_text(path);
  if (!source) return false;
  LogReader reader;
  std::string piece(kPiece + kPadding, '\0');
  for (int64_t read = 0; read < kSearched && !reader.is_log();) {
    const size_t size = (*source)->read(piece.data(), kPiece);
    // Weights, archives and other data are no log: it may have dirt in it, but is text.
    const auto zeros = std::count(piece.data(), piece.data() + size, '\0');
    if (read == 0 && zeros * 16 > static_cast<ptrdiff_t>(size)) return false;
    reader.feed({piece.data(), size});
    read += static_cast<int64_t>(size);
    if (size < kPiece) {
      reader.end();
      break;
    }
  }
  return reader.is_log();
}

}  // namespace profgpu
