#include "cli/command.h"

namespace profgpu {

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
