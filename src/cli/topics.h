// What `profgpu explain` knows beside rules: subjects of which several findings and settings are parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

struct Topic {
  std::string_view name;     ///< "deepspeed"
  std::string_view summary;  ///< one line
  struct Part {
    std::string_view title;
    std::vector<std::string_view> entries;  ///< one thought each; a paragraph is wrapped where it is shown
  };
  std::vector<Part> parts;
  std::vector<std::string_view> rules;  ///< that say more
};

/// In the order in which they are listed. One more topic is one more entry.
const std::vector<Topic>& topics();
/// Null: none is called so.
const Topic* find_topic(std::string_view name);

/// As `profgpu explain` shows it, lines of at most `width` columns.
std::string topic_text(const Topic& topic, int width);

}  // namespace profgpu
