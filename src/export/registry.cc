#include "export/exporter.h"

namespace profgpu {

extern const Exporter kPerfettoExport, kChromeExport, kSqliteExport, kCsvExport, kSpeedscopeExport, kFoldedExport;

const std::vector<const Exporter*>& exporters() {
  static const std::vector<const Exporter*> all = {&kPerfettoExport, &kChromeExport, &kSqliteExport, &kCsvExport,
                                             &kSpeedscopeExport, &kFoldedExport};
  return all;
}

Error only_samples(std::string_view format) {
  return {"there are only samples of devices here, and " + std::string(format) + " is for traces",
          "--to csv, sqlite or perfetto"};
}

}  // namespace profgpu
