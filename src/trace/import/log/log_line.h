// One line of a log, without what launchers, loggers and terminals put around what the program said.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

struct LogLine {
  std::string_view text;              ///< without a launcher's label and escape sequences; the logger's own head stays
  std::string_view message;           ///< what follows the head: time, level, file, rank
  int64_t number = 0;                 ///< from 1
  int rank = -1;                      ///< -1: the line does not say
  std::string_view node;              ///< empty: likewise
  int64_t pid = 0;                    ///< of a worker of Ray; 0: likewise
  std::optional<int64_t> printed_ns;  ///< clock time in the head, as if it were UTC
  bool headed = false;                ///< the head has a clock time, with its date or not
};

/// Takes labels and heads off `raw`: "[rank3]:", "[default3]:", "3: ", "[1,3]<stdout>:", "node07: ", "[Rank 3]",
/// "trainer-1  | ", "May 01 12:00:00 gpu01 python[4711]: ", "(RayTrainWorker pid=7, ip=10.0.0.1)",
/// "[2024-05-01 12:00:00,123] [INFO] [file.py:7:f]", "2024-05-01 12:00:00,123 - root - INFO - ",
/// "2024-05-01 12:00:00 INFO ", "I0501 12:00:00.123456 7 file.py:8] ", "ERROR 05-01 12:00:00 [file.py:7] ",
/// "12:00:00 SUCCESS ", "[titan] ". `number` and the views into `raw` are set.
LogLine log_line(std::string_view raw, int64_t number);

/// Nanoseconds since 1970 of "2024-05-01 12:00:00[.,]123456" or with a T, wherever `text` begins with it; `length`: of
/// the stamp. Nullopt: it does not.
std::optional<int64_t> clock_time(std::string_view text, size_t& length);

/// Removes escape sequences of terminals.
void strip_escapes(std::string& text);

// Which lines are worth a look: families name words that their lines have, and all words are searched for at once, by a
// rare pair of bytes in each. Budget: 1.5 GB/s where few places have such a pair, however many words there are.

class LineScan {
 public:
  LineScan() : first_(1 << 16, kNone), bits_(1 << 10) {}
  /// `bits`: what is found with the word, of two bytes or more.
  void add(std::string_view word, uint64_t bits);
  /// The bits of all words that stand between `begin` and `end`. At least 16 bytes behind `end` can be read.
  [[nodiscard]] uint64_t operator()(const char* begin, const char* end) const;

 private:
  static constexpr uint16_t kNone = 0xFFFF;
  struct Word {
    std::string text;
    size_t place = 0;  // of its pair
    uint64_t bits = 0;
    uint16_t next = kNone;  // of the same pair
  };
  std::vector<Word> words_;
  std::vector<uint16_t> first_;  // by pair, as a number
  std::vector<uint64_t> bits_;   // likewise: whether a word has it
};

// Numbers and fields in prose.

/// The number that `text` begins with after blanks, as printed by people's programs: "1,234", "1.5E+01", "12.3K",
/// "-inf" and "nan" are none. `rest`: what follows.
std::optional<double> printed_number(std::string_view text, std::string_view* rest = nullptr);
std::optional<int64_t> leading_integer(std::string_view text, std::string_view* rest = nullptr);
/// Whether a key has a value such as "0,251": commas then stand for decimal points.
bool has_decimal_comma(std::string_view text);
/// In each number that has one comma.
void point_for_comma(std::string& text);
/// Whether `text` begins with "nan", "inf" or "-inf" after blanks and quotes, in small letters or capitals.
bool is_not_finite(std::string_view text);
/// Whether the first value behind "loss" is none.
bool loses_loss(std::string_view text);
/// What follows the first of `keys` that stands there as a word of its own, with a number behind it after colons,
/// equals signs or blanks, or what is_not_finite().
std::optional<std::string_view> keyed_value(std::string_view text, std::initializer_list<std::string_view> keys);
/// The same, with `keys` looked for in `searched`: `text` in lower case.
std::optional<std::string_view> keyed_value(std::string_view text, std::string_view searched,
                                            std::initializer_list<std::string_view> keys);
/// That number.
std::optional<double> keyed_number(std::string_view text, std::initializer_list<std::string_view> keys);
/// Bytes of that number of MiB, whatever unit follows: "3000", "3000M", "3000MB".
std::optional<int64_t> keyed_mebibytes(std::string_view text, std::initializer_list<std::string_view> keys);
/// Exactly: milliseconds or seconds of decimal text to nanoseconds.
std::optional<int64_t> leading_ms(std::string_view text, std::string_view* rest = nullptr);
std::optional<int64_t> leading_seconds(std::string_view text, std::string_view* rest = nullptr);
/// What follows the first `key`; nullopt: it is not there.
std::optional<std::string_view> after(std::string_view text, std::string_view key);
/// The number behind the first `key`.
std::optional<double> number_after(std::string_view text, std::string_view key);
std::optional<int64_t> integer_after(std::string_view text, std::string_view key);
/// Bytes of "5.52GiB", "678.9 MB" with factors of 1024, as PyTorch's programs print them.
std::optional<int64_t> leading_bytes(std::string_view text);
bool has(std::string_view text, std::string_view part);
/// As std::string_view::find(), which is slow where words begin with a letter that is frequent.
size_t place_of(std::string_view text, std::string_view part, size_t from = 0);

/// A line as it may stand in a report: printable, at most 240 bytes, secrets masked.
std::string quotable(std::string_view text);

}  // namespace profgpu
