#include "app/export/data_table.h"
#include "app/export/run.h"

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

extern const DataTable kHostData, kThreadData, kThreadSampleData, kThreadWaitData, kBackwardData;
extern const DataTable kActivityData, kStreamData, kSyncData, kCollectiveCallData, kMemoryEventData, kCounterData;
extern const DataTable kDeviceData, kStepData, kPhaseData, kPhaseSegmentData, kIdleData, kGapData, kKernelNameData,
    kOpNameData, kLaunchData, kCollectiveData, kMemoryData, kThreadTimeData;
extern const DataTable kRankData, kWindowData, kMetadataData, kDevicePropertyData, kIssueData, kStragglerData,
    kSampleData, kSampleDeviceData, kSampleProcessData, kMarkData;
extern const DataTable kRooflineData, kDistanceData, kEnergyData, kStepEnergyData;
extern const DataTable kSnapshotEventData, kSnapshotSegmentData, kSnapshotBlockData;

const std::vector<const DataTable*>& data_tables() {
  static const std::vector<const DataTable*> all = {
      &kActivityData,   &kHostData,        &kThreadData,   &kStreamData,         &kKernelNameData,   &kOpNameData,
      &kDeviceData,     &kGapData,         &kIdleData,     &kStepData,           &kPhaseData,        &kPhaseSegmentData,
      &kLaunchData,     &kCollectiveData,  &kCollectiveCallData, &kStragglerData, &kMemoryData,      &kMemoryEventData,
      &kCounterData,    &kSyncData,        &kBackwardData, &kThreadTimeData,     &kThreadSampleData, &kThreadWaitData,
      &kRankData,       &kWindowData,      &kMetadataData, &kDevicePropertyData, &kIssueData,        &kSampleData,
      &kSampleDeviceData, &kSampleProcessData, &kMarkData, &kSnapshotEventData, &kSnapshotSegmentData,
      &kSnapshotBlockData, &kRooflineData, &kDistanceData, &kEnergyData, &kStepEnergyData};
  return all;
}

const std::vector<DataView>& data_views() {
  static const std::vector<DataView> all = {
      {"kernels", "activity that is a kernel", "SELECT * FROM activity WHERE kind = 'kernel'"},
      {"copies", "activity that is a copy or a set", "SELECT * FROM activity WHERE kind <> 'kernel'"},
      {"ops", "host rows that are operators", "SELECT * FROM host WHERE kind = 'op'"},
      {"annotations", "host rows that are ranges of the program", "SELECT * FROM host WHERE kind = 'annotation'"},
      {"calls", "host rows that are calls of the runtime or the driver",
       "SELECT * FROM host WHERE kind IN ('runtime', 'driver')"},
      {"launches", "activity beside the call that launched it",
       "SELECT a.rank, a.device, a.stream, a.id AS activity_id, a.name, a.kind, h.id AS launch_id, h.name AS call,"
       " h.thread_id, h.start_ns AS call_start_ns, h.duration_ns AS call_duration_ns,"
       " a.start_ns - h.start_ns AS latency_ns, a.start_ns, a.duration_ns"
       " FROM activity AS a JOIN host AS h ON h.rank = a.rank AND h.id = a.launch_id"},
      {"kernels_by_op", "device time by the operator that launched it",
       "SELECT a.rank, a.device, h.name AS op, a.name AS kernel, count(*) AS count, sum(a.duration_ns) AS total_ns"
       " FROM activity AS a LEFT JOIN host AS h ON h.rank = a.rank AND h.id = a.op_id"
       " GROUP BY a.rank, a.device, op, kernel ORDER BY total_ns DESC"},
  };
  return all;
}

}  // namespace profgpu
