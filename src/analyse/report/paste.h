// What of a change can be pasted as it stands.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace profgpu {

/// Of each change its call or assignment, options of a command line, setting of the environment or command of ours,
/// without the framework in front ("Trainer: ") and the comment behind it. None: the change is a sentence, or leaves
/// out a part with "…".
std::vector<std::optional<std::string>> pasteable(const std::vector<std::string>& fixes);

}  // namespace profgpu
