// profgpu formats: what can be read and written.
#include <fmt/format.h>

#include <algorithm>

#include "app/export/run.h"
#include "cli/command.h"
#include "cli/output.h"
#include "trace/import/importer.h"
#include "view/registry.h"

namespace profgpu {
namespace {

Outcome list_formats(const Arguments&) {
  size_t widest = 0;
  for (const Importer* i : importers()) widest = std::max(widest, i->name.size());
  for (const Presenter* p : presenters()) widest = std::max(widest, p->name.size());
  for (const Exporter* e : exporters()) widest = std::max(widest, e->name.size());
  std::string out = "Reads\n";
  for (const Importer* i : importers()) {
    out += fmt::format("  {:<{}}  {}\n", i->name, widest, i->summary);
    if (!i->examples.empty()) out += fmt::format("  {:<{}}  files such as {}\n", "", widest, i->examples);
  }
  out += "Writes\n";
  for (const Presenter* p : presenters()) out += fmt::format("  {:<{}}  {}\n", p->name, widest, p->summary);
  out += "Exports, with --to\n";
  for (const Exporter* e : exporters()) out += fmt::format("  {:<{}}  {}\n", e->name, widest, e->summary);
  out += "\nNext: profgpu analyze PATH\n";
  if (auto written = write_stdout(out); !written) return Outcome::failed(written.error());
  return {};
}

}  // namespace

extern const Command kFormats;
const Command kFormats{
    .name = "formats",
    .summary = "list what it reads and writes",
    .positional = "",
    .examples = {{"profgpu formats", "one entry for each format"}},
    .run = list_formats,
};

}  // namespace profgpu
