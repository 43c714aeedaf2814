// What `profgpu diff` shows, before it is laid out: one description for the terminal and for Markdown.
#pragma once

#include <string>
#include <vector>

#include "compare/comparison_record.h"
#include "present/layout.h"

namespace profgpu {

struct DiffTable {
  std::string title;
  std::vector<GridColumn> columns;
  std::vector<std::vector<Cell>> rows;
  size_t left_out = 0;       ///< rows
  bool code = false;         ///< the first column holds names from a trace
};

struct DiffView {
  std::string headline;      ///< "Slower: a step takes 182 ms instead of 176 ms"
  Style style = Style::kStrong;
  std::vector<std::string> details;   ///< how sure that is
  std::vector<DiffTable> tables;
  std::vector<std::string> notes;
  std::vector<GateResult> gates;
};

/// `top`: rows of a table.
DiffView diff_view(const Diff& diff, int top);

std::string diff_terminal(const Diff& diff, int top, int width, bool colour);
/// For a pull request.
std::string diff_markdown(const Diff& diff, int top);
/// One test case a gate.
std::string diff_junit(const Diff& diff);

}  // namespace profgpu
