// What people type behind flags: whole numbers, times, sizes, percentages, ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace profgpu {

// Each sets `value` where the flag is given, and leaves it as it is otherwise; the error names the flag.

constexpr int64_t kAnyNumber = INT64_MAX;
/// `most`: kAnyNumber where there is no such limit but the type's.
Status read_whole(const Arguments& arguments, std::string_view flag, int64_t least, int64_t most, int64_t& value);
template <class T>
Status read_whole(const Arguments& arguments, std::string_view flag, int64_t least, int64_t most, T& value) {
  int64_t n = 0;
  if (Status read = read_whole(arguments, flag, least, most, n); !read || !arguments.has(flag)) return read;
  value = static_cast<T>(n);
  return ok();
}

/// What times a flag takes, in nanoseconds.
struct TimeRange {
  int64_t least = 0, most = INT64_MAX;
  std::string_view words = "";   ///< " from 1ms to 24h", as the error has it
  std::string_view hint = "";    ///< empty: that units may be given
};
Status read_time(const Arguments& arguments, std::string_view flag, const TimeRange& range, int64_t& value);
Status read_time(const Arguments& arguments, std::string_view flag, const TimeRange& range,
                 std::optional<int64_t>& value);

/// 0 to 100, with or without a sign.
Status read_percent(const Arguments& arguments, std::string_view flag, std::optional<double>& value);

/// A log's files: --rotate SIZE and --keep N.
struct Rotation {
  int64_t bytes = 0;              ///< 0: never
  int64_t keep = INT64_MAX;       ///< older files that stay
};
Status read_rotation(const Arguments& arguments, Rotation& rotation);

// Ranks: "0,3,8-11".

/// First and last of each part.
using RankRanges = std::vector<std::pair<int, int>>;

/// Nullopt: no such list.
std::optional<RankRanges> rank_ranges(std::string_view text);

/// Those of `there`, which is in ascending order, that the list names. An error where a part of it names none.
Result<std::vector<int>> chosen_ranks(const RankRanges& ranges, std::span<const int> there);

// Sizes.

/// Bytes: "20GiB", "20G", "20GB", "20000 MiB", "1.5T", "4096". K, M, G, T with or without "iB" are powers of 1024, as
/// nvidia-smi and memory makers count; with "B" alone powers of 1000. Case does not matter. Nullopt: not a size.
std::optional<double> size_bytes(std::string_view text);

}  // namespace profgpu
