// A family of log lines: what one framework, launcher or library prints. One file each, with one constant at its end
// and one line in registry.cc.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "trace/import/log/log_builder.h"
#include "trace/import/log/log_line.h"

namespace profgpu {

/// Reads the lines of one log in their order, and may keep what earlier ones said.
class LogReading {
 public:
  virtual ~LogReading() = default;
  /// A line that has one of the family's words, or any line of the process whose block is open. Whether it is one of
  /// the family's; a line may be several families'.
  virtual bool read(const LogLine& line, LogBuilder& rows) = 0;
  /// The log is over, for now: what is pending may be given to `rows`.
  virtual void end(LogBuilder&) {}
  /// Whether the next line belongs to a block that a line before it began, such as a table.
  [[nodiscard]] virtual bool expects_more() const { return false; }
};

struct LogFamily {
  std::string_view name;     ///< "megatron"
  std::string_view summary;  ///< for `profgpu formats`
  /// Words of which each line of the family has one, but for lines of an open block. Lines that have none cost nothing.
  std::vector<std::string_view> words;
  std::unique_ptr<LogReading> (*begin)();
  /// Whether a line of it is one of a log. If not, such a line may stand in any text: one that a launcher or a logger
  /// printed, or a traceback, is one of a log.
  bool of_logs_only = true;
};

/// Of a family that keeps nothing from one line to the next.
template <bool (*Read)(const LogLine&, LogBuilder&)>
std::unique_ptr<LogReading> stateless() {
  struct Stateless : LogReading {
    bool read(const LogLine& line, LogBuilder& rows) override { return Read(line, rows); }
  };
  return std::make_unique<Stateless>();
}

/// Where several families tell of the same steps, those of the first one stand.
const std::vector<const LogFamily*>& log_families();

}  // namespace profgpu
