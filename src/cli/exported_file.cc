#include "cli/exported_file.h"

#include <fmt/format.h>

#include <vector>

#include "analyse/report/quantity.h"
#include "cli/output.h"
#include "cli/output_file.h"

namespace profgpu {

const Exporter* find_exporter(std::string_view name) {
  for (const Exporter* e : exporters())
    if (e->name == name) return e;
  return nullptr;
}

Status refuse_overwrite(const LoadedRun& run, const std::string& path) {
  std::vector<std::string> inputs;
  for (const InputSource& s : run.read.sources) inputs.push_back(s.path);
  return refuse_overwrite(inputs, path);
}

Status write_exported(const Exporter& exporter, const ExportOptions& options, const RunRows& run,
                      const std::string& path, Progress& progress) {
  auto file = OutputFile::open(path, &progress.done_bytes);
  if (!file) return file.error();
  if (exporter.write_file != nullptr) {
    const std::string& partial = (*file)->partial();
    if (partial.empty()) return Error{path + " is no regular file, and " + std::string(exporter.name) + " needs one"};
    auto status = exporter.write_file(run, partial, &progress.done_bytes);
    if (!status) return status.error().within(path);
  } else {
    if (path.ends_with(".gz")) (*file)->bytes().compress();
    auto status = exporter.write(run, options, (*file)->bytes());
    if (!status) return status;
  }
  return (*file)->finish();
}

void say_written(const std::string& path, const Progress& progress, std::string_view reader) {
  if (path == "-") return;
  const std::string size = format_bytes(static_cast<double>(progress.done_bytes));
  print_message(fmt::format("profgpu: wrote {}, {}, for {}", path, size, reader));
}

}  // namespace profgpu
