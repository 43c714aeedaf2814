// What users type because another tool taught them: nvidia-smi, gpustat, nvitop, nsys, py-spy.
#pragma once

#include <string>
#include <vector>

namespace profgpu {

/// A command line in our own words.
struct OwnWords {
  std::vector<std::string> words;
  /// The first one says how the line was read; the others what has no effect here. Empty: nothing worth saying.
  std::vector<std::string> notes = {};
  /// What is asked for is no business of ours, and what does it. Empty: it is.
  std::string refusal = {}, instead = {};
};

/// `words`: what follows `profgpu`. Words that mean something here already stay, and so does the line of a command to
/// run. Only what means the same here is replaced.
OwnWords own_words_for(const std::vector<std::string>& words);

}  // namespace profgpu
