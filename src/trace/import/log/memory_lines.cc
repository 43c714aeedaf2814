// What programs print of memory:
//
//   [Rank 7] (after 20 iterations) memory (MB) | allocated: 21633.08 | max allocated: 24432.00 | reserved: 29316.0 |
//   max reserved: 29316.0 MA 0.29 GB         Max_MA 0.29 GB         CA 2.93 GB         Max_CA 3 GB        DeepSpeed's
//   see_memory_usage CPU Virtual Memory:  used = 65.88 GB, percent = 3.3%
//   peak memory allocated: 31695 MiB reserved: 32988 MiB                                              modded-nanogpt
//
// Ranks print at once, so one line may have several reports.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kMegatronMemory = "memory (MB) |";

std::optional<int64_t> mebibytes_after(std::string_view text, std::string_view key) {
  const auto value = number_after(text, key);
  return value && *value >= 0 && *value < 1e9 ? std::optional(std::llround(*value * (1 << 20))) : std::nullopt;
}

// "| allocated: 1 | max allocated: 2": the first is no part of the second.
void read_report(std::string_view before, std::string_view report, LogLine line, LogBuilder& rows) {
  LogMemory row{};
  row.allocated_bytes = mebibytes_after(report, "| allocated:");
  row.max_allocated_bytes = mebibytes_after(report, "| max allocated:");
  row.reserved_bytes = mebibytes_after(report, "| reserved:");
  row.max_reserved_bytes = mebibytes_after(report, "| max reserved:");
  if (const size_t label = before.rfind("[Rank "); label != before.npos)
    line.rank = static_cast<int>(leading_integer(before.substr(label + 6)).value_or(line.rank));
  if (const size_t words = before.rfind("after "); words != before.npos)
    row.step = leading_integer(before.substr(words + 6));
  rows.memory(row, line);
}

bool read_megatron(const LogLine& line, LogBuilder& rows) {
  std::string_view text = line.text;
  bool found = false;
  for (size_t at = text.find(kMegatronMemory); at != text.npos; at = text.find(kMegatronMemory)) {
    const std::string_view before = text.substr(0, at);
    const std::string_view report = text.substr(at + kMegatronMemory.size() - 1);  // from its bar on
    const size_t next = report.find('[');
    read_report(before, report.substr(0, next), line, rows);
    found = true;
    if (next == report.npos) break;
    text = report.substr(next);
  }
  return found;
}

std::optional<int64_t> bytes_after(std::string_view text, std::string_view key) {
  const auto rest = after(text, key);
  return rest ? leading_bytes(*rest) : std::nullopt;
}

bool read_memory_lines(const LogLine& line, LogBuilder& rows) {
  if (has(line.text, kMegatronMemory)) return read_megatron(line, rows);
  const std::string_view text = line.message;
  if (text.starts_with("MA ") && has(text, "Max_CA")) {
    LogMemory row{};
    row.allocated_bytes = bytes_after(text, "MA ");
    row.max_allocated_bytes = bytes_after(text, "Max_MA ");
    row.reserved_bytes = bytes_after(text, " CA ");
    row.max_reserved_bytes = bytes_after(text, "Max_CA ");
    // It is rounded to whole gibibytes: what is reserved now may be more.
    if (row.reserved_bytes && row.max_reserved_bytes)
      row.max_reserved_bytes = std::max(*row.reserved_bytes, *row.max_reserved_bytes);
    rows.memory(row, line);
    return true;
  }
  if (const auto peak = after(text, "peak memory allocated: "); peak && has(*peak, "MiB")) {
    LogMemory row{};
    row.max_allocated_bytes = mebibytes_after(*peak, "");
    row.max_reserved_bytes = mebibytes_after(*peak, "reserved: ");
    rows.memory(row, line);
    return true;
  }
  if (text.starts_with("CPU Virtual Memory:")) {
    LogMemory row{};
    row.host_bytes = bytes_after(text, "used =");
    rows.memory(row, line);
    return true;
  }
  return false;
}

}  // namespace

extern const LogFamily kMemoryLines = {"memory",
                                       "device memory: Megatron's reports, DeepSpeed's see_memory_usage, peaks",
                                       {"memory (MB) |", "Max_CA", "CPU Virtual Memory:", "peak memory allocated: "},
                                       stateless<read_memory_lines>};

}  // namespace profgpu
