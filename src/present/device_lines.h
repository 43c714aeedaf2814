// What samples say of devices, on a terminal. The records are those of telemetry_record().
#pragma once

#include <string>
#include <vector>

#include "present/line.h"
#include "report/report.h"

namespace profgpu {

/// Every device in a block of its own; more than four as a table. `about` says what was watched: "python train.py,
/// 62.4 s, exit 0"; it stands on the first line.
Lines device_lines(const std::vector<Record>& devices, const std::string& about, int width);

/// One block.
Lines device_block(const Record& device, int width);

}  // namespace profgpu
