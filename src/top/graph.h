// Curves as a few rows of block characters, the newest point on the right.
#pragma once

#include <string>
#include <vector>

#include "top/history.h"

namespace profgpu {

/// `rows` texts of `cells` cells each, the uppermost first, one column a point; `most` fills them. Blank where nothing is
/// known; what is 0 has the lowest block.
std::vector<std::string> graph(const Curve& curve, double most, int rows, int cells);
/// The largest known of the newest `cells` points; 0 if there is none.
double largest(const Curve& curve, int cells);

}  // namespace profgpu
