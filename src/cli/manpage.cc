// profgpu manpage: the manual page in troff, written from the command descriptions while the program is built.
#include <fmt/format.h>

#include "base/version.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/output.h"

namespace profgpu {
namespace {

// Text as troff takes it literally: hyphens that can be copied, no leading dot or quote that would be a request.
std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
  }
  return out;
}

std::string flag_entry(const Flag& flag) {
  std::string head = flag.short_name.empty() ? "" : fmt::format("\\fB{}\\fR, ", roff(flag.short_name));
  head += fmt::format("\\fB{}\\fR", roff(flag.name));
  if (!flag.value.empty()) head += fmt::format(" \\fI{}\\fR", roff(flag.value));
  return fmt::format(".TP\n{}\n{}\n", head, roff(flag_explanation(flag)));
}

std::string command_section(const Command& command) {
  std::string out = fmt::format(".SS {}\n\\fB{}\\fR\n.PP\n{}.\n", roff(command.name), roff(usage_line(command)),
                                roff(command.summary));
  if (command.takes_positional())
    out += fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(command.positional), roff(command.positional_help));
  for (const FlagGroup& group : command.groups)
    for (const Flag& flag : group.flags) out += flag_entry(flag);
  return out;
}

std::string examples() {
  std::string out = ".SH EXAMPLES\n";
  for (const Command* c : commands()) {
    if (c->hidden) continue;
    for (const Example& e : c->examples) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(e.command), roff(e.says));
  }
  return out;
}

struct Entry {
  std::string_view head, says;
};
constexpr Entry kExitStatus[] = {
    {"0", "a report was made, even if it is partial"},
    {"1", "no report; standard error says why"},
    {"2", "the command line cannot be understood"},
    {"3", "a finding at or above the severity given with --fail-on"},
    {"130", "interrupted"},
    {"the command's own",
     "run: also 126 if the command cannot be run, 127 if there is none, 128 + n if signal n ended it; 1 "
     "and 2 as above, and the command did not run then"},
};
constexpr Entry kEnvironment[] = {
    {"CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK",
     "the devices that are meant where --device is not given"},
    {"PROFGPU_NVML_LIBRARY", "NVIDIA's management library, instead of libnvidia-ml.so.1 where the loader finds it"},
    {"PROFGPU_NVIDIA_SMI", "the nvidia-smi program, instead of the first on the PATH"},
    {"PROFGPU_LEVEL_ZERO_LIBRARY", "the loader of Intel's Level Zero, instead of libze_loader.so.1"},
    {"PROFGPU_PROC_ROOT, PROFGPU_SYSFS_ROOT, PROFGPU_DEV_ROOT",
     "folders to read instead of /proc, /sys and /dev: where a container has the host's elsewhere"},
    {"NO_COLOR", "if set and not empty, no colours"},
    {"TERM", "no colours where it is dumb"},
    {"COLUMNS", "the width of the report"},
};

template <size_t N>
std::string roff_list(std::string_view title, const Entry (&entries)[N]) {
  std::string out = fmt::format(".SH {}\n", title);
  for (const Entry& e : entries) out += fmt::format(".TP\n{}\n{}\n", roff(e.head), roff(e.says));
  return out;
}

std::string manual_page() {
  std::string out = fmt::format(".TH PROFGPU 1 \"\" \"profgpu {}\" \"User Commands\"\n", roff(kVersion));
  out += ".SH NAME\nprofgpu \\- say why GPU work is slow, and what to change\n";
  out += ".SH SYNOPSIS\n";
  for (const Command* c : commands())
    if (!c->hidden) out += fmt::format("\\fB{}\\fR\n.br\n", roff(usage_line(*c)));
  out +=
      ".SH DESCRIPTION\n"
      "Reads what a profiler recorded of a job on GPUs, finds where the time goes, and says what it costs and what to "
      "change.\n";
  out += ".SH COMMANDS\n";
  for (const Command* c : commands())
    if (!c->hidden) out += command_section(*c);
  return out + roff_list("EXIT STATUS", kExitStatus) + roff_list("ENVIRONMENT", kEnvironment) + examples();
}

Outcome manpage(const Arguments&) {
  if (auto written = write_stdout(manual_page()); !written) return Outcome::failed(written.error());
  return {};
}

}  // namespace

extern const Command kManpage;
const Command kManpage{
    .name = "manpage",
    .summary = "write the manual page",
    .positional = "",
    .examples = {{"profgpu manpage > profgpu.1", "the page that `man profgpu` shows"}},
    .hidden = true,
    .run = manpage,
};

}  // namespace profgpu
