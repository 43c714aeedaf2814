// Where the ranks of a job lie, so that one is read again whose trace was dropped.
#pragma once

#include <map>
#include <vector>

#include "import/input_units.h"

namespace profgpu {

class RankFiles {
 public:
  RankFiles() = default;
  RankFiles(std::vector<InputUnit> units, std::map<int, std::vector<size_t>> by_rank, const std::vector<InputPart>& parts,
            const std::vector<size_t>& unit_of);

  /// All windows of a rank that is there. The error: its files are not what they were.
  [[nodiscard]] Result<Trace> read(int rank) const;

 private:
  struct Window {
    size_t unit = 0, place = 0;   ///< InputPart::place
    std::string path;
    int64_t events = 0;
    Interval extent;
  };
  std::vector<InputUnit> units_;
  std::map<int, std::vector<Window>> windows_;   ///< of each rank, in order of time
};

}  // namespace profgpu
