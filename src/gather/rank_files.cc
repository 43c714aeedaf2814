#include "gather/rank_files.h"

#include "trace/trace_builder.h"

namespace profgpu {

RankFiles::RankFiles(std::vector<InputUnit> units, std::map<int, std::vector<size_t>> by_rank,
                     const std::vector<InputPart>& parts, const std::vector<size_t>& unit_of)
    : units_(std::move(units)) {
  for (const auto& [rank, of_rank] : by_rank)
    for (const size_t i : of_rank)
      windows_[rank].push_back({unit_of[i], parts[i].place, parts[i].source.path, parts[i].source.events, parts[i].window.extent});
}

Result<Trace> RankFiles::read(int rank) const {
  const std::vector<Window>& windows = windows_.at(rank);
  std::map<size_t, ReadPart> by_place;
  std::vector<Trace> traces;
  for (const Window& w : windows) {
    if (!by_place.contains(w.place)) {
      auto read = read_unit(units_[w.unit], {});
      if (!read) return read.error();
      for (ReadPart& r : read->parts) by_place[r.part.place] = std::move(r);
    }
    const auto at = by_place.find(w.place);
    if (at == by_place.end() || at->second.part.source.events != w.events || at->second.part.window.extent != w.extent)
      return Error{w.path + ": changed while it was read", "try again when nobody writes it"};
    traces.push_back(std::move(at->second.trace));
  }
  return joined_windows(std::move(traces));
}

}  // namespace profgpu
