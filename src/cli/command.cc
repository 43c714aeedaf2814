#include "cli/command.h"

#include <algorithm>

namespace profgpu {

void Arguments::add(std::string_view flag, std::string value) {
  const auto given = std::find_if(flags_.begin(), flags_.end(), [&](const Given& g) { return g.flag == flag; });
  if (given != flags_.end()) given->values.push_back(std::move(value));
  else flags_.push_back({flag, {std::move(value)}});
}

const std::vector<std::string>& Arguments::values(std::string_view flag) const {
  static const std::vector<std::string> kNone;
  for (const Given& given : flags_)
    if (given.flag == flag) return given.values;
  return kNone;
}

std::string Arguments::value(std::string_view flag, std::string_view otherwise) const {
  const auto& all = values(flag);
  return all.empty() ? std::string(otherwise) : all.back();
}

}  // namespace profgpu
