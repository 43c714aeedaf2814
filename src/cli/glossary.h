// The words of reports, explained: docs/glossary.md, which is part of the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

struct GlossaryEntry {
  std::string terms;     ///< "data parallel, DDP"
  std::string meaning;
};

/// In alphabetical order.
const std::vector<GlossaryEntry>& glossary();
/// Null: the glossary lacks it. Case, hyphens and underscores do not matter: "mfu", "host_bound".
const GlossaryEntry* find_in_glossary(std::string_view term);

}  // namespace profgpu
