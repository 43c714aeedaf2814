// What `profgpu diff` shows: terminal, Markdown, JUnit XML.
#pragma once

#include <string>

#include "app/compare/comparison_record.h"

namespace profgpu {

/// `top`: rows of a table.
std::string diff_terminal(const Diff& diff, int top, int width, bool colour);
/// For a pull request.
std::string diff_markdown(const Diff& diff, int top);
/// One test case a gate.
std::string diff_junit(const Diff& diff);

}  // namespace profgpu
