#include "trace/import/importer.h"

#include <algorithm>

namespace profgpu {

extern const Importer kSamples, kRecording, kKineto;

const std::vector<const Importer*>& importers() {
  static const std::vector<const Importer*> all = {&kSamples, &kRecording, &kKineto};
  return all;
}

const Importer* find_importer(std::string_view head) {
  const auto known =
      std::find_if(importers().begin(), importers().end(), [&](const Importer* i) { return i->sniff(head); });
  return known != importers().end() ? *known : nullptr;
}

}  // namespace profgpu
