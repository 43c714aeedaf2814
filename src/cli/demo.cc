// profgpu demo: the report of a built-in trace, for a first look without a GPU and without a file.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptor.h"
#include "app/analyze.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/trace_command.h"
#include "view/registry.h"
#include "view/terminal.h"

extern "C" const char profgpu_demo_trace_begin[], profgpu_demo_trace_end[];   // cmake/embed.cmake

namespace profgpu {
namespace {

constexpr std::string_view kDemoName = "built-in example (simulated)";

std::string_view demo_trace() {
  return {profgpu_demo_trace_begin, static_cast<size_t>(profgpu_demo_trace_end - profgpu_demo_trace_begin)};
}

// Importers read files, some of them twice. This one is in memory, so that a read-only machine shows the demo too.
Result<Descriptor> file_in_memory(std::string_view text) {
  Descriptor file(::memfd_create("profgpu-demo", MFD_CLOEXEC));
  const int error = file ? write_all(file.get(), text) : errno;
  if (error != 0) return cannot_write("a file in memory", error);
  return file;
}

std::vector<std::string> next_after_demo(const Report& report, const std::string& html) {
  std::vector<std::string> next;
  if (!report.findings.empty()) next.push_back("profgpu explain " + report.findings.front().rule);
  next.push_back(html.empty() ? "profgpu demo --html demo.html" : "xdg-open " + html);
  next.emplace_back("profgpu run --trace -o rec -- python train.py");
  return next;
}

Outcome demo(const Arguments& arguments) {
  auto options = trace_command(arguments);
  if (!options) return Outcome::usage(options.error());
  if (const std::string save = arguments.value("--save"); !save.empty())
    if (Status saved = write_file(save, demo_trace()); !saved) return saved.error();
  auto file = file_in_memory(demo_trace());
  if (!file) return file.error();
  options->read.paths = {"/proc/self/fd/" + std::to_string(file->get())};
  Progress progress;
  auto report = make_report(options->read, progress);
  if (!report) return report.error();
  for (InputFile& input : report->inputs) input.path = kDemoName;
  report->next = next_after_demo(*report, options->html);
  const bool person = options->format == "terminal" && stdout_is_terminal();
  if (person && options->shown.section.empty() && !arguments.has("--all")) options->shown.section = "brief";
  const Status page = options->html.empty()
                          ? ok()
                          : write_file(options->html, find_presenter("html")->write(*report, options->as_output()));
  const Status shown = options->write(find_presenter(options->format)->write(*report, options->as_output()));
  return page ? shown : page;
}

}  // namespace

extern const Command kDemo{
    .name = "demo",
    .summary = "show the report of a built-in example; needs no GPU and no file",
    .groups = {{"What to write",
                {{"--html FILE", "also write the page with timeline, flame graph and all tables to FILE"},
                 {"--json", "the report as JSON"},
                 {"--all", "everything on a terminal too, not only what fits 24 lines"},
                 {"--section NAME", "only this section",
                  {std::begin(kReportSections), std::end(kReportSections)}},
                 {"--save FILE", "save the example trace (.json.gz), to try other commands on it"}}},
               {"Screen", {kWidthFlag, kColourFlag}}},
    .examples = {{"profgpu demo", "a training loop that waits for its data: what it costs, and what to change"},
                 {"profgpu demo --html demo.html", "the same as a page for any browser"},
                 {"profgpu demo --save demo.json.gz", "save the trace, to try query, export and diff on it"}},
    .notes = "The example is a simulated PyTorch training on one GPU, the same as examples/resnet-demo.json.gz.",
    .run = demo,
};

}  // namespace profgpu
