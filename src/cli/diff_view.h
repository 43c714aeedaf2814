// What `profgpu diff` shows: terminal, Markdown, JUnit XML.
#pragma once

#include <string>

#include "app/compare/gate.h"

namespace profgpu {

std::string diff_terminal(const Diff& diff, const PresentOptions& options);
/// For a pull request. `top`: rows of a table.
std::string diff_markdown(const Diff& diff, int top);
/// One test case a gate.
std::string diff_junit(const Diff& diff);

}  // namespace profgpu
