#include "gather/unit_outcome.h"

#include "gather/archive.h"

namespace profgpu {

std::string encoded(const ShareRead& share) {
  archive::Writer to;
  to.put(share.names);
  to.put(share.outcomes.size());
  for (const auto& [unit, o] : share.outcomes) {
    to.put(unit);
    to.put(o.error);
    to.put(o.left_out);
    to.put(o.parts);
    to.put(o.result);
  }
  return std::move(to.bytes);
}

Result<ShareRead> decoded_share(const std::string& bytes) {
  archive::Reader from(bytes);
  ShareRead share;
  size_t n = 0;
  from.get(share.names);
  from.get(n);
  for (size_t i = 0; i < n && !from.failed(); ++i) {
    auto& [unit, o] = share.outcomes.emplace_back();
    from.get(unit);
    from.get(o.error);
    from.get(o.left_out);
    from.get(o.parts);
    from.get(o.result);
  }
  if (from.failed() || !from.at_end())
    return Error{"what another process read cannot be understood", "run the same version of profgpu on all nodes"};
  return share;
}

}  // namespace profgpu
