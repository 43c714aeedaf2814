#include "trace/import/log/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/secrets.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr size_t kMaxLabel = 64;  // a longer word before a colon is no host's name
constexpr int kMaxHeads = 8;      // a logger's head has no more parts

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

// Of at most six digits at the front, which are taken; -1: there are none.
int take_small(std::string_view& text) {
  size_t n = 0;
  int value = 0;
  while (n < text.size() && n < 7 && is_digit(text[n])) value = value * 10 + (text[n++] - '0');
  if (n == 0 || n == 7) return -1;
  text.remove_prefix(n);
  return value;
}

// Whether `text` begins with as many characters as `shape` has, digits where it has a 'd'.
bool has_shape(std::string_view text, std::string_view shape) {
  if (text.size() < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 'd' ? !is_digit(text[i]) : text[i] != shape[i]) return false;
  return true;
}

// "[rank3]:", "[default3]:", "[trainer3]:", "[Rank 3]", "[rank: 3]", "[1,3]<stdout>:"; the role of torchrun's label is
// any word.
bool take_bracket_label(std::string_view& text, LogLine& line) {
  std::string_view at = text;
  if (!take(at, "[")) return false;
  if (!at.empty() && is_digit(at.front())) {  // mpirun: job, rank
    const int job = take_small(at);
    if (job < 0 || !take(at, ",")) return false;
    const int rank = take_small(at);
    if (rank < 0 || !take(at, "]") || !(take(at, "<stdout>:") || take(at, "<stderr>:"))) return false;
    line.rank = rank, text = at;
    return true;
  }
  size_t word = 0;
  while (word < at.size() && word < 24 && (is_letter(at[word]) || at[word] == '_')) ++word;
  const bool says_rank = lower_case(at.substr(0, word)) == "rank";
  at.remove_prefix(word);
  if (word == 0) return false;
  if (says_rank) take(at, ":"), skip_blanks(at);
  const int rank = take_small(at);
  if (rank < 0 || !take(at, "]")) return false;
  if (!says_rank && !at.starts_with(":")) return false;  // an index, no label
  take(at, ":");
  line.rank = rank, text = at;
  return true;
}

// srun --label's "3: ", which pads with blanks: " 3: ".
bool take_task_label(std::string_view& text, LogLine& line) {
  std::string_view at = text;
  skip_blanks(at);
  const int rank = take_small(at);
  if (rank < 0 || !take(at, ": ")) return false;
  line.rank = rank, text = at;
  return true;
}

// pdsh's "node07: ". A host's name ends with a number or has dots; words of programs that look so are none.
bool take_host_label(std::string_view& text, LogLine& line) {
  if (text.empty() || !is_letter(text.front())) return false;
  size_t end = 0;
  bool digits = false;
  while (end < text.size() && end < kMaxLabel &&
         (is_letter(text[end]) || is_digit(text[end]) || text[end] == '-' || text[end] == '.' || text[end] == '_'))
    digits |= is_digit(text[end++]);
  if (end == 0 || !digits || !text.substr(end).starts_with(": ") || !is_digit(text[end - 1])) return false;
  constexpr std::array<std::string_view, 9> kWords = {"step", "epoch", "iter", "iteration", "batch",
                                                      "cuda", "gpu",   "rank", "fp"};
  std::string word = lower_case(text.substr(0, text.find_first_of("0123456789")));
  while (!word.empty() && !is_letter(word.back())) word.pop_back();
  const bool dotted = text.substr(0, end).find('.') != text.npos;
  if (!dotted && std::ranges::count(kWords, word) > 0) return false;
  line.node = text.substr(0, end);
  text.remove_prefix(end + 2);
  return true;
}

// "(RayTrainWorker pid=7, ip=10.0.0.1) "
bool take_ray_label(std::string_view& text, LogLine& line) {
  if (!text.starts_with('(')) return false;
  const size_t end = text.substr(0, 128).find(") ");
  if (end == text.npos || !has(text.substr(0, end), " pid=")) return false;
  line.pid = integer_after(text.substr(0, end), " pid=").value_or(0);
  if (const auto ip = after(text.substr(0, end), "ip="))
    line.node = ip->substr(0, ip->find_first_not_of("0123456789abcdefABCDEF.:"));
  text.remove_prefix(end + 2);
  return true;
}

// Docker Compose's "trainer-1  | ": a service, and which of its containers.
bool take_container_label(std::string_view& text, LogLine& line) {
  const size_t end = text.substr(0, kMaxLabel).find_first_of(" |");
  if (end == text.npos || end < 3 || !is_letter(text.front()) || !is_digit(text[end - 1])) return false;
  const std::string_view name = text.substr(0, end);
  const size_t joint = name.find_last_of("-_");
  if (joint == name.npos || !all_digits(name.substr(joint + 1))) return false;
  std::string_view at = text.substr(end);
  skip_blanks(at);
  if (!take(at, "| ")) return false;
  line.node = name, text = at;
  return true;
}

// "May 01 12:00:00 " of ts, with journalctl's "gpu01 python[4711]: " behind it: the year is not there.
bool take_journal_head(std::string_view& text, LogLine& line) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (!has_shape(text.substr(std::min<size_t>(text.size(), 6)), " dd:dd:dd ") || text[3] != ' ' ||
      kMonths.find(text.substr(0, 3)) % 3 != 0)
    return false;
  std::string_view at = text.substr(16);
  const size_t host = at.find(' ');
  const size_t program = host == at.npos ? at.npos : at.substr(0, 2 * kMaxLabel).find("]: ", host);
  const size_t pid = program == at.npos ? at.npos : at.rfind('[', program);
  const bool whole = pid != at.npos && pid > host && at.find(' ', host + 1) > program &&
                     all_digits(at.substr(pid + 1, program - pid - 1));
  if (whole) line.node = at.substr(0, host), at.remove_prefix(program + 3);
  text = at;
  return true;
}

bool take_label(std::string_view& text, LogLine& line) {
  if (text.empty()) return false;
  if (text.front() == '[') return take_bracket_label(text, line);
  if (text.front() == '(') return take_ray_label(text, line);
  if (text.front() == ' ' || is_digit(text.front())) return take_task_label(text, line);
  return take_container_label(text, line) || take_host_label(text, line);
}

// "Z", "+02:00", "-0700" behind a time.
void take_zone(std::string_view& text) {
  for (const std::string_view zone : {"Z", "+dd:dd", "-dd:dd", "+dddd", "-dddd"})
    if (has_shape(text, zone) && (text.size() == zone.size() || has(" ]\t", text.substr(zone.size(), 1))))
      return text.remove_prefix(zone.size());
}

bool take_time(std::string_view& text, LogLine& line) {
  std::string_view at = text;
  const bool bracket = take(at, "[");
  size_t length = 0;
  const auto time = clock_time(at, length);
  if (!time) return false;
  at.remove_prefix(length);
  take_zone(at);
  if (bracket && !take(at, "]")) return false;
  if (!line.printed_ns) line.printed_ns = time;
  text = at;
  return true;
}

// "[INFO]", "[logging.py:60:log_dist]", "[titan]", "[Rank 0]": short and without blanks, but for a rank.
bool take_bracket(std::string_view& text, LogLine& line) {
  if (take_bracket_label(text, line)) return true;
  if (!text.starts_with('[')) return false;
  const size_t end = text.substr(0, kMaxLabel + 2).find(']');
  if (end == text.npos || end == 1) return false;
  const std::string_view inside = text.substr(1, end - 1);
  const auto is_plain = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("._-:/|").find(c) != std::string_view::npos;
  };
  const bool plain = std::ranges::all_of(inside, is_plain);
  if (!plain || all_digits(inside)) return false;
  text.remove_prefix(end + 1);
  return true;
}

constexpr std::array<std::string_view, 7> kLevels = {"INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "SUCCESS", "TRACE"};

// vLLM's "ERROR 05-01 12:00:00 [core.py:100] ": the year is not there.
bool take_level_and_day(std::string_view& text) {
  constexpr std::string_view kShape = " dd-dd dd:dd:dd ";
  for (const std::string_view level : kLevels) {
    std::string_view at = text;
    if (!take(at, level)) continue;
    if (!has_shape(at, kShape)) return false;
    text = at.substr(kShape.size());
    return true;
  }
  return false;
}

// "12:00:00 SUCCESS ", "12:00:00 [INFO] ": the day is not there.
bool take_time_of_day(std::string_view& text) {
  constexpr std::string_view kShape = "dd:dd:dd ";
  if (!has_shape(text, kShape)) return false;
  std::string_view at = text.substr(kShape.size());
  skip_blanks(at);
  for (const std::string_view level : kLevels) {
    std::string_view behind = at;
    const bool bracket = take(behind, "[");
    if (!take(behind, level) || !take(behind, bracket ? "]" : " ")) continue;
    text = behind;
    return true;
  }
  return false;
}

// "__main__:train:57 - ", "trainer:<module>:12 - ": where loguru's lines come from.
bool take_place(std::string_view& text) {
  const size_t end = text.substr(0, 2 * kMaxLabel).find(" - ");
  if (end == text.npos || end == 0 || !is_digit(text[end - 1])) return false;
  const std::string_view place = text.substr(0, end);
  const auto fits = [](char c) { return is_letter(c) || is_digit(c) || has("._:<>", std::string_view(&c, 1)); };
  if (std::ranges::count(place, ':') != 2 || !std::ranges::all_of(place, fits)) return false;
  text.remove_prefix(end + 3);
  return true;
}

// "[INFO|trainer.py:1143] 2021-05-25 06:38:26,360 >> ", "INFO:root:", "2024-… - root - INFO - "
bool take_level(std::string_view& text, bool dated) {
  if (take(text, ">> ") || take(text, "- ") || take(text, "| ")) return true;
  for (const std::string_view level : kLevels) {
    std::string_view at = text;
    if (!take(at, level)) continue;
    if (take(at, " - ") || take(at, " | ")) return text = at, true;
    if (dated && take(at, " ")) return text = at, true;
    if (!take(at, ":")) continue;
    const size_t end = at.substr(0, kMaxLabel).find(':');  // "INFO:root:", "INFO: said"
    if (at.starts_with(' ')) return text = at.substr(1), true;
    if (end != at.npos && at.substr(0, end).find(' ') == at.npos) return text = at.substr(end + 1), true;
  }
  if (dated && take_place(text)) return true;
  // A logger's name between dashes.
  size_t name = 0;
  while (name < text.size() && name < kMaxLabel &&
         (is_letter(text[name]) || is_digit(text[name]) || text[name] == '.' || text[name] == '_'))
    ++name;
  if (name == 0 || !text.substr(name).starts_with(" - ")) return false;
  text.remove_prefix(name + 3);
  return true;
}

// "I0501 12:00:00.123456 7 trainer.py:50] ", of glog and absl: the year is not there.
bool take_glog_head(std::string_view& text) {
  if (text.empty() || !has("IWEF", text.substr(0, 1)) || !has_shape(text.substr(1), "dddd dd:dd:dd.")) return false;
  const size_t end = text.substr(0, kMaxLabel * 2).find("] ");
  if (end == text.npos) return false;
  text.remove_prefix(end + 2);
  return true;
}

}  // namespace

LogLine log_line(std::string_view raw, int64_t number) {
  LogLine line;
  line.number = number;
  while (!raw.empty() && (raw.back() == '\n' || raw.back() == '\r' || raw.back() == ' ')) raw.remove_suffix(1);
  std::string_view at = raw;
  bool dated = take_journal_head(at, line);
  for (int i = 0; i < 2 && take_label(at, line); ++i) skip_blanks(at);
  line.text = at;
  dated |= take_glog_head(at) || take_level_and_day(at) || take_time_of_day(at);
  for (int i = 0; i < kMaxHeads; ++i) {
    skip_blanks(at);
    const bool time = take_time(at, line);
    dated |= time;
    if (!time && !take_bracket(at, line) && !((dated || i == 0) && take_level(at, dated))) break;
  }
  line.headed = dated;
  line.message = at;
  return line;
}

std::optional<int64_t> clock_time(std::string_view text, size_t& length) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kShape.size()) return std::nullopt;
  if (has_shape(text, "dd/dd/dddd dd:dd:dd")) {   // of Hugging Face's examples: the month comes first
    const std::string year_first = fmt::format("{}-{}{}", text.substr(6, 4), text.substr(0, 5), text.substr(10, 64));
    return clock_time(year_first, length);
  }
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool fits = kShape[i] == 'd'   ? is_digit(text[i])
                      : kShape[i] == ' ' ? text[i] == ' ' || text[i] == 'T' || text[i] == '_'
                      : kShape[i] == '-' ? text[i] == '-' || text[i] == '/'
                                         : text[i] == kShape[i];
    if (!fits) return std::nullopt;
  }
  const auto part = [&](size_t from, size_t count) {
    int value = 0;
    for (size_t i = from; i < from + count; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  const std::chrono::year_month_day date(std::chrono::year(part(0, 4)), std::chrono::month(part(5, 2)),
                                         std::chrono::day(part(8, 2)));
  if (!date.ok() || part(0, 4) < 1970 || part(0, 4) > 2200 || part(11, 2) > 23 || part(14, 2) > 59 || part(17, 2) > 60)
    return std::nullopt;
  int64_t ns = std::chrono::nanoseconds(std::chrono::sys_days(date).time_since_epoch()).count();
  ns += (part(11, 2) * 3600LL + part(14, 2) * 60LL + part(17, 2)) * 1'000'000'000;
  length = kShape.size();
  if (length < text.size() && (text[length] == ',' || text[length] == '.')) {
    int64_t scale = 100'000'000;
    size_t at = length + 1;
    for (; at < text.size() && is_digit(text[at]); ++at, scale /= 10) ns += (text[at] - '0') * scale;
    if (at > length + 1) length = at;
  }
  return ns;
}

void strip_escapes(std::string& text) {
  size_t to = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\x1b') {
      text[to++] = text[i++];
      continue;
    }
    ++i;
    if (i >= text.size()) break;
    if (text[i] == '[') {  // CSI: parameters, then one letter
      ++i;
      while (i < text.size() && text[i] >= ' ' && text[i] < '@') ++i;
      ++i;
    } else if (text[i] == ']') {  // OSC: up to BEL or ST
      while (i < text.size() && text[i] != '\x07' && text[i] != '\x1b') ++i;
      i += i < text.size() && text[i] == '\x07';
    } else {
      ++i;
    }
  }
  text.resize(to);
}

namespace {

uint16_t pair_at(const char* at) {
  uint16_t pair = 0;
  std::memcpy(&pair, at, sizeof pair);
  return pair;
}

// How often a byte stands in a log: letters of prose most, then digits, blanks and what is between numbers.
int frequency(char c) {
  constexpr std::string_view kFrequent = "etaoinsr", kCommon = "dlcumpgfh";
  if (c == ' ' || kFrequent.find(c) != kFrequent.npos) return 8;
  if (kCommon.find(c) != kCommon.npos) return 5;
  if (is_lower(c) || is_digit(c) || c == '.' || c == ':' || c == '=' || c == '"' || c == '_') return 3;
  return 1;
}

}  // namespace

void LineScan::add(std::string_view word, uint64_t bits) {
  Word w{std::string(word), 0, bits, kNone};
  const auto weight = [&](size_t at) { return frequency(word[at]) * frequency(word[at + 1]); };
  for (size_t at = 1; at + 1 < word.size(); ++at)
    if (weight(at) < weight(w.place)) w.place = at;
  const uint16_t pair = pair_at(word.data() + w.place);
  w.next = first_[pair];
  first_[pair] = static_cast<uint16_t>(words_.size());
  bits_[pair >> 6] |= uint64_t{1} << (pair & 63);
  words_.push_back(std::move(w));
}

uint64_t LineScan::operator()(const char* begin, const char* end) const {
  uint64_t found = 0;
  const uint64_t* bits = bits_.data();
  for (const char* at = begin; at < end; at += 8) {
    uint64_t hits = 0;
    for (int i = 0; i < 8; ++i) {
      const uint16_t pair = pair_at(at + i);
      hits |= ((bits[pair >> 6] >> (pair & 63)) & 1) << i;
    }
    for (; hits != 0; hits &= hits - 1) {
      const char* hit = at + __builtin_ctzll(hits);
      for (uint16_t w = first_[pair_at(hit)]; w != kNone; w = words_[w].next) {
        const Word& word = words_[w];
        const size_t before = static_cast<size_t>(hit - begin);
        if (before < word.place || static_cast<size_t>(end - hit) + word.place < word.text.size()) continue;
        if (std::memcmp(hit - word.place, word.text.data(), word.text.size()) == 0) found |= word.bits;
      }
    }
  }
  return found;
}

size_t place_of(std::string_view text, std::string_view part, size_t from) {
  if (text.empty() || from > text.size()) return text.npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? text.npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

bool has(std::string_view text, std::string_view part) { return place_of(text, part) != text.npos; }

std::string quotable(std::string_view text) {
  constexpr size_t kLongest = 240;
  std::string plain(text.substr(0, 4 * kLongest));
  strip_escapes(plain);
  replace_invalid_utf8(plain);
  for (char& c : plain)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  plain = masked_secrets(without_blanks(plain));
  if (plain.size() <= kLongest) return plain;
  size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(plain[cut]) & 0xC0) == 0x80) --cut;
  return plain.substr(0, cut) + "…";
}

}  // namespace profgpu
