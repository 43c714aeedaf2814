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

std::string manual_page() {
  std::string out = fmt::format(".TH PROFGPU 1 \"\" \"profgpu {}\" \"User Commands\"\n", roff(kVersion));
  out += ".SH NAME\nprofgpu \\- say why GPU work is slow, and what to change\n";
  out += ".SH SYNOPSIS\n";
  for (const Command* c : commands())
    if (!c->hidden) out += fmt::format("\\fB{}\\fR\n.br\n", roff(usage_line(*c)));
  out += ".SH DESCRIPTION\n"
         "Reads what a profiler recorded of a job on GPUs, finds where the time goes, and says what it costs and what to "
         "change.\n";
  out += ".SH COMMANDS\n";
  for (const Command* c : commands())
    if (!c->hidden) out += command_section(*c);
  out += ".SH EXIT STATUS\n"
         ".TP\n0\na report was made, even if it is partial\n"
         ".TP\n1\nno report; standard error says why\n"
         ".TP\n2\nthe command line cannot be understood\n"
         ".TP\n3\na finding at or above the severity given with \\-\\-fail\\-on\n"
         ".TP\n130\ninterrupted\n";
  out += ".SH ENVIRONMENT\n"
         ".TP\nNO_COLOR\nif set and not empty, no colours\n"
         ".TP\nCOLUMNS\nthe width of the report\n";
  return out + examples();
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
