#include "cli/trace_command.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "cli/output.h"

namespace profgpu {
namespace {

constexpr int kFileWidth = 100;

std::optional<Severity> severity_of(std::string_view name) {
  for (Severity s : {Severity::kInfo, Severity::kWarning, Severity::kCritical})
    if (severity_name(s) == name) return s;
  return std::nullopt;
}

template <class Options, size_t N>
Status set_options(Options& options, const std::string_view (&names)[N], const Arguments& arguments) {
  for (const std::string_view name : names)
    if (arguments.has(name))
      if (Status set = set_option(options, name, arguments.values(name)); !set) return set;
  return ok();
}

bool names_one_file(const std::string& a, const std::string& b) {
  std::error_code error;
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return a == b || (!a.empty() && a != "-" && whole(a) == whole(b));
}

}  // namespace

PresentOptions TraceCommand::as_output() const {
  // mpirun gives process 0 a terminal of its own, whatever its output goes to.
  const bool to_file = !output.empty() || mpi;
  PresentOptions options = shown;
  if (options.width <= 0) options.width = to_file ? kFileWidth : output_width();
  options.colour = to_file ? colour == Colour::kAlways : output_colour(colour);
  return options;
}

Status TraceCommand::write(std::string_view text) const {
  if (!output.empty()) return write_file(output, text);
  return format == "terminal" ? write_text(text) : write_stdout(text);
}

Result<TraceCommand> trace_command(const Arguments& arguments) {
  TraceCommand c;
  c.shown.width = 0;   // unless --width says otherwise: as wide as the output
  c.read.paths = arguments.positional;
  c.samples = arguments.values("--samples");
  c.read.paths.insert(c.read.paths.end(), c.samples.begin(), c.samples.end());
  auto format = format_option(arguments, "terminal");
  if (!format) return format.error();
  c.format = *std::move(format);
  c.output = arguments.value("--output");
  c.html = arguments.value("--html");
  c.read.page = !c.html.empty() || c.format == "html";
  if (!c.html.empty() && names_one_file(c.output, c.html))
    return Error{"--output and --html name the same file, " + c.html, "give the page another name"};
  c.mpi = arguments.has("--mpi");
  if (c.mpi && c.read.page)
    return Error{"--mpi cannot write a page: the events stay with the processes that read them",
                 "run profgpu analyze --html FILE on the files of some ranks"};
  if (c.format == "html" && arguments.has("--section"))
    return Error{"--section and --format html cannot be combined", "the page has the whole report"};
  c.fail_on = severity_of(arguments.value("--fail-on"));
  c.allow_inconclusive = arguments.has("--allow-inconclusive");
  if (c.allow_inconclusive && !arguments.has("--fail-on"))
    return Error{"--allow-inconclusive needs --fail-on", "it says which gates may stay undecided"};
  c.colour = colour_option(arguments);
  c.quiet = arguments.has("--quiet");
  c.progress = !c.quiet && !arguments.has("--no-progress");
  if (Status set = set_options(c.shown, kShowingOptions, arguments); !set) return set.error();
  if (Status set = set_options(c.read, kReadingOptions, arguments); !set) return set.error();
  return c;
}

void print_issues(const LoadedRun& run) {
  for (const auto& [path, text] : run.issues()) print_issue(path, text);
}

Result<CsvText> csv_text(const Arguments& arguments, std::string_view format, std::string_view output) {
  if (arguments.has("--raw")) {
    if (format != "csv") return Error{fmt::format("--raw is for csv, not {}", format)};
    return CsvText::kRaw;
  }
  const bool to_stdout = output.empty() || output == "-";
  return to_stdout && stdout_is_terminal() ? CsvText::kForTerminal : CsvText::kForFile;
}

std::string history_path(const Arguments& arguments) {
  if (arguments.has("--file")) return arguments.value("--file");
  const char* set = std::getenv("PROFGPU_HISTORY");
  return set && *set ? set : "profgpu-history.sqlite";
}

}  // namespace profgpu
