// Findings where code is read: GitHub's workflow commands, and SARIF for code scanning and editors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/severity.h"

namespace profgpu {

/// A workflow command of GitHub Actions, one line: it annotates `file`, if not empty, at `line`. No text can end the
/// command or begin another one.
std::string workflow_command(Severity severity, std::string_view title, std::string_view text,
                             std::string_view file = {}, std::optional<int64_t> line = {});

}  // namespace profgpu
