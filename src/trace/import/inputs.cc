#include "trace/import/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trace/import/input_units.h"
#include "trace/sample_file.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

// Samples of devices belong to no rank, but to whoever ran there.
SampleLog take_samples(std::vector<ReadPart>& all) {
  std::vector<SampleLog> logs;
  for (ReadPart& r : all)
    if (r.part.only_samples) logs.push_back(std::move(r.trace.samples));
  return joined_samples(std::move(logs));
}

// Samples alone stand as one rank.
RankTrace rank_of_samples(Trace trace, SampleLog samples) {
  RankTrace rank{0, std::move(trace)};
  rank.trace.events = samples.ticks;
  rank.trace.windows = {{samples.first_ns, samples.last_ns}};
  rank.trace.samples = std::move(samples);
  return rank;
}

}  // namespace

Error nothing_to_read(const std::vector<std::string>& paths, const std::vector<std::string>& left_out) {
  return {fmt::format("{}: no trace in it (files: {})", paths.front(), left_out_text(left_out)),
          "`profgpu formats` lists what it reads"};
}

Result<Inputs> read_inputs(const std::vector<std::string>& paths, const ImportOptions& options) {
  auto units = find_units(paths, options);
  if (!units) return units.error();
  std::vector<ReadPart> all;
  std::vector<std::string> left_out = units->left_out;
  for (InputUnit& unit : units->units) {
    auto read = read_unit(unit, options);
    if (!read) return read.error();
    unit.opened.clear();
    std::move(read->parts.begin(), read->parts.end(), std::back_inserter(all));
    left_out.insert(left_out.end(), read->left_out.begin(), read->left_out.end());
  }
  if (all.empty()) return nothing_to_read(paths, left_out);
  Inputs inputs;
  inputs.samples = take_samples(all);
  std::vector<InputPart> parts;
  for (ReadPart& r : all) parts.push_back(std::move(r.part));
  auto by_rank = parts_by_rank(parts);
  if (!by_rank) return by_rank.error();
  for (const auto& [rank, of_rank] : *by_rank) {
    std::vector<Trace> windows;
    for (const size_t i : of_rank) windows.push_back(std::move(all[i].trace));
    inputs.ranks.push_back({rank, joined_windows(std::move(windows))});
  }
  if (by_rank->empty()) {
    inputs.ranks.push_back(rank_of_samples(std::move(all.front().trace), std::exchange(inputs.samples, {})));
    for (InputPart& p : parts) p.source.rank = 0;
  }
  inputs.sources = sources_of(std::move(parts), *units, left_out);
  return inputs;
}

}  // namespace profgpu
