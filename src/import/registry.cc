#include "import/importer.h"

namespace profgpu {

extern const Importer kSamples, kRecording, kKineto;

const std::vector<const Importer*>& importers() {
  static const std::vector<const Importer*> all = {&kSamples, &kRecording, &kKineto};
  return all;
}

}  // namespace profgpu
