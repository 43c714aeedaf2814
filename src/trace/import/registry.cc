#include "trace/import/importer.h"

#include <algorithm>

namespace profgpu {

extern const Importer kSamples, kRecording, kRocpd, kNsight, kNsightReport, kNsightCompute, kRocprofJson, kRocprofCsv,
    kRocprofV1Json, kExecutionTrace, kFlightRecorder, kTorchSnapshot, kTorchMemoryTimeline, kNcclTestsJson,
    kNvbandwidthJson, kTrainingLog,
    kXlaJson, kXplane, kProton, kProtonTrace, kSpeedscope, kVizTracer, kKineto;

// The reader of snapshots claims every pickle, so that one which would run code is refused by name. Kineto's takes all
// that looks like Chrome's JSON.
const std::vector<const Importer*>& importers() {
  static const std::vector<const Importer*> all = {
      &kNsightReport,        &kRocprofCsv,    &kNsightCompute,  &kSamples,        &kRecording,
      &kRocpd,               &kNsight,        &kRocprofJson,    &kRocprofV1Json,  &kExecutionTrace,
      &kFlightRecorder,
      &kTorchSnapshot,       &kXplane,        &kXlaJson,        &kSpeedscope,     &kVizTracer,
      &kProtonTrace,         &kProton,        &kTorchMemoryTimeline,
      &kNcclTestsJson,       &kNvbandwidthJson, &kTrainingLog,   &kKineto};
  return all;
}

const Importer* find_importer(std::string_view head, const std::string& path) {
  const auto known = std::find_if(importers().begin(), importers().end(), [&](const Importer* i) {
    return i->sniff(head) && (i->knows == nullptr || i->knows(path));
  });
  return known != importers().end() ? *known : nullptr;
}

const Importer* search_importer(const std::string& path) {
  const auto known = std::find_if(importers().begin(), importers().end(),
                                  [&](const Importer* i) { return i->search != nullptr && i->search(path); });
  return known != importers().end() ? *known : nullptr;
}

}  // namespace profgpu
