// Curves as a few rows of block characters.
#pragma once

#include <string>
#include <vector>

namespace profgpu {

/// `rows` texts, the uppermost first, of one cell for each of `columns`; `most` fills them. Blank where it is NaN; what is 0 has the
/// lowest block.
std::vector<std::string> graph(const std::vector<float>& columns, double most, int rows);
/// The largest that is known; 0 if there is none.
double largest(const std::vector<float>& columns);

}  // namespace profgpu
