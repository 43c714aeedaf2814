// Exporter: a run in the format of another tool.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/byte_writer.h"
#include "base/result.h"
#include "export/run.h"

namespace profgpu {

enum class Weight : uint8_t { kHost, kDevice };   ///< of stacks: time on the host, or of what they launched

struct ExportOptions {
  Weight weight = Weight::kHost;
  std::string table;             ///< of formats that are a folder of tables: only this one
};

struct Exporter {
  std::string_view name;
  std::string_view summary;      ///< one clause
  std::string_view reader;       ///< what opens it: "Perfetto (ui.perfetto.dev)"
  std::string_view extension;    ///< of the file, with its dot; of each file in a folder
  /// From front to back. An error is about the run; whether bytes could be written, the writer knows.
  Status (*write)(const RunRows& run, const ExportOptions& options, ByteWriter& out) = nullptr;
  /// Of formats that are written in place, instead: a file that is there already, and empty.
  Status (*write_file)(const RunRows& run, const std::string& path, std::atomic<int64_t>* written) = nullptr;
  /// Of formats that are a folder: what options.table may be.
  Result<std::vector<std::string>> (*tables)(const RunRows& run) = nullptr;
};

const std::vector<const Exporter*>& exporters();

/// Of a format that shows what was traced, where only samples are at hand.
Error only_samples(std::string_view format);

}  // namespace profgpu
