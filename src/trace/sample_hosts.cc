#include "trace/sample_hosts.h"

#include <algorithm>

namespace profgpu {

SampleHosts::SampleHosts(const SampleLog& log, std::span<const std::string> ranks)
    : one_host_(!log.several_hosts() &&
                std::all_of(ranks.begin(), ranks.end(), [&](const std::string& r) { return r == ranks.front(); })) {}

}  // namespace profgpu
