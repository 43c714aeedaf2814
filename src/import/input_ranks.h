// Which parts of an input are which rank of a job.
#pragma once

#include <map>
#include <vector>

#include "import/input_units.h"

namespace profgpu {

/// Parts of each rank, in order of time, by place in `parts`; parts that stand for no rank are in none. Sets the parts'
/// ranks: as recorded, else as the file is named, else that of another window of the same process or of its recording,
/// else the next that is free. A trace that PyTorch wrote while its process was recorded is part of the rank beside the
/// recording; any other is taken in the recording's place. The error: two parts claim one rank but are not successive
/// windows of it.
Result<std::map<int, std::vector<size_t>>> parts_by_rank(std::vector<InputPart>& parts);

/// "2; a.json: an empty file; b.json: not a trace": how many, and the first ones with why.
std::string left_out_text(const std::vector<std::string>& left_out);

/// All files, in the order of the paths, with what was left out said in an issue of the first.
std::vector<InputSource> sources_of(std::vector<InputPart> parts, const InputUnits& units,
                                    const std::vector<std::string>& left_out);

}  // namespace profgpu
