// What `profgpu diff` shows: terminal, Markdown, JUnit XML.
#pragma once

#include <string>

#include "app/compare/gate.h"

namespace profgpu {

std::string diff_terminal(const Diff& diff, const PresentOptions& options);
/// For a pull request. `top`: rows of a table.
std::string diff_markdown(const Diff& diff, int top);
/// One test case a gate. An undecided gate fails unless `undecided_passes`.
std::string diff_junit(const Diff& diff, bool undecided_passes);
/// Annotations of GitHub Actions: what changed, and each gate that did not pass.
std::string diff_github(const Diff& diff, bool undecided_passes);

}  // namespace profgpu
