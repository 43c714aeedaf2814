// Options that commands which read traces share: how to read them, how to show the result, and where.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/analyze.h"
#include "app/export/run.h"
#include "app/loaded_run.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace profgpu {

struct TraceCommand {
  AnalyzeOptions read;
  PresentOptions shown;                    ///< width 0: that of the output, see as_output()
  Colour colour = Colour::kAuto;
  std::vector<std::string> samples;        ///< of the paths, those given by --samples
  std::string format = "terminal";
  std::string output;                      ///< -o; empty: standard output
  std::string html;                        ///< --html: the page, beside the report; empty: none
  std::optional<Severity> fail_on;         ///< exit 3 from this severity on
  bool allow_inconclusive = false;         ///< a gate without enough evidence to decide it passes
  bool mpi = false;                        ///< the processes that mpirun started share the reading
  bool quiet = false;
  bool progress = true;                    ///< may draw, if standard error is a terminal

  /// With the width and the color of the output.
  [[nodiscard]] PresentOptions as_output() const;
  [[nodiscard]] bool draws() const { return progress && stderr_is_terminal(); }
  /// To --output, else to standard output.
  [[nodiscard]] Status write(std::string_view text) const;
};

/// Everything wrong with the options is a usage error.
Result<TraceCommand> trace_command(const Arguments& arguments);

inline const Flag kAllowInconclusiveFlag{
    "--allow-inconclusive", "with --fail-on: pass where the evidence is not enough to decide; without it, that fails"};

inline const Flag kRawFlag{"--raw", "csv: names as they are; without it, a name that begins with =, +, - or @ gets an "
                                    "apostrophe, as spreadsheets take it for a formula"};
/// How CSV writes names, by kRawFlag and whether they go to a terminal. The error: not with this `format`.
Result<CsvText> csv_text(const Arguments& arguments, std::string_view format, std::string_view output);

/// Prints what the input lacks on standard error.
void print_issues(const LoadedRun& run);

inline const Flag kHistoryFlag{"--file FILE",
                               "the history (default: PROFGPU_HISTORY, else profgpu-history.sqlite here)"};
std::string history_path(const Arguments& arguments);

}  // namespace profgpu
