// What commands that read traces are asked for alike: how to read them, how to show what comes of it, and where.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/analyze.h"
#include "app/loaded_run.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace profgpu {

struct TraceCommand {
  AnalyzeOptions read;
  PresentOptions shown;                    ///< width 0: see as_output()
  Colour colour = Colour::kAuto;
  std::vector<std::string> samples;        ///< of the paths, those said to be samples of devices
  std::string format = "terminal";
  std::string output;                      ///< -o; empty: standard output
  std::string html;                        ///< --html: the page, beside the report; empty: none
  std::optional<Severity> fail_on;         ///< exit 3 from this severity on
  bool mpi = false;                        ///< the processes that mpirun started share the reading
  bool quiet = false;
  bool progress = true;                    ///< may draw, if standard error is a terminal

  /// With the width and the colour of where the output goes.
  [[nodiscard]] PresentOptions as_output() const;
  [[nodiscard]] bool draws() const { return progress && stderr_is_terminal(); }
  /// To --output, else to standard output.
  [[nodiscard]] Status write(std::string_view text) const;
};

/// Everything wrong with the options is a usage error.
Result<TraceCommand> trace_command(const Arguments& arguments);

/// On standard error: what the input lacks.
void say_issues(const LoadedRun& run);

/// --file of runs that are kept, and which that is: --file, else PROFGPU_HISTORY, else one in the current folder.
Flag history_flag();
std::string history_path(const Arguments& arguments);

}  // namespace profgpu
