// How a job shares its work, as its collectives show it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "job/rank_digest.h"

namespace profgpu {

}  // namespace profgpu
