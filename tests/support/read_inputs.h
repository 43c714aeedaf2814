// From paths to the ranks of a job, all of them in memory: what a test reads at once, and the program unit by unit
// (app/gather/read_job.h).
#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "trace/import/input_units.h"
#include "trace/sample_file.h"
#include "trace/trace_builder.h"

namespace profgpu {

struct RankTrace {
  int rank = 0;
  Trace trace;                  ///< all windows of the rank
};

struct Inputs {
  std::vector<InputSource> sources;   ///< in the order of paths; of a folder, by name
  std::vector<RankTrace> ranks;       ///< by rank
  SampleLog samples;                  ///< of sample files given beside traces; of them alone, in the one rank's trace
};

inline Result<Inputs> read_inputs(const std::vector<std::string>& paths, const ImportOptions& options) {
  auto units = find_units(paths, options);
  if (!units) return units.error();
  std::vector<InputPart> parts;
  std::vector<Trace> traces;
  std::vector<SampleLog> logs;
  std::vector<std::string> left_out = units->left_out;
  for (const InputUnit& unit : units->units) {
    auto read = read_unit(unit, options);
    if (!read) return read.error();
    for (ReadPart& r : read->parts) {
      if (r.part.has_samples) logs.push_back(std::exchange(r.trace.samples, {}));
      parts.push_back(std::move(r.part));
      traces.push_back(std::move(r.trace));
    }
    left_out.insert(left_out.end(), read->left_out.begin(), read->left_out.end());
  }
  if (parts.empty()) return nothing_to_read(paths, left_out);
  Inputs inputs;
  inputs.samples = joined_samples(std::move(logs));
  auto by_rank = parts_by_rank(parts);
  if (!by_rank) return by_rank.error();
  for (const auto& [rank, of_rank] : *by_rank) {
    std::vector<Trace> windows;
    for (const size_t i : of_rank) windows.push_back(std::move(traces[i]));
    inputs.ranks.push_back({rank, joined_windows(std::move(windows))});
  }
  if (by_rank->empty()) {   // samples alone
    Trace trace = std::move(traces.front());
    trace.samples = std::exchange(inputs.samples, {});
    trace.events = trace.samples.ticks;
    trace.windows = {{trace.samples.first_ns, trace.samples.last_ns}};
    inputs.ranks.push_back({0, std::move(trace)});
    for (InputPart& p : parts) p.source.rank = 0;
  }
  inputs.sources = sources_of(std::move(parts), *units, left_out);
  return inputs;
}

}  // namespace profgpu
