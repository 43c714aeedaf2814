#include "import/importer.h"

namespace profgpu {

extern const Importer kKineto;

const std::vector<const Importer*>& importers() {
  static const std::vector<const Importer*> all = {&kKineto};
  return all;
}

}  // namespace profgpu
