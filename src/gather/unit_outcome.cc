#include "gather/unit_outcome.h"

#include "gather/archive.h"

namespace profgpu::archive {

// How many members each struct has that travels.
template <> constexpr int kMembers<Error> = 2;
template <> constexpr int kMembers<Interval> = 2;
template <> constexpr int kMembers<TraceIssue> = 3;
template <> constexpr int kMembers<InputSource> = 7;
template <> constexpr int kMembers<WindowFacts> = 5;
template <> constexpr int kMembers<InputPart> = 9;
template <> constexpr int kMembers<Issue> = 4;
template <> constexpr int kMembers<Locator> = 2;
template <> constexpr int kMembers<Finding> = 13;
template <> constexpr int kMembers<RankReport> = 16;
template <> constexpr int kMembers<DeviceRow> = 10;
template <> constexpr int kMembers<Step> = 9;
template <> constexpr int kMembers<Steps> = 5;
template <> constexpr int kMembers<PhaseShare> = 3;
template <> constexpr int kMembers<PhaseRow> = 2;
template <> constexpr int kMembers<AverageStep> = 4;
template <> constexpr int kMembers<NamedGap> = 5;
template <> constexpr int kMembers<IdleRow> = 6;
template <> constexpr int kMembers<KernelRow> = 17;
template <> constexpr int kMembers<OpRow> = 11;
template <> constexpr int kMembers<Launch> = 9;
template <> constexpr int kMembers<MemoryPoint> = 3;
template <> constexpr int kMembers<Memory> = 9;
template <> constexpr int kMembers<Varying> = 2;
template <> constexpr int kMembers<Makeup> = 3;
template <> constexpr int kMembers<NamedTime> = 2;
template <> constexpr int kMembers<MeasuredWork> = 8;
template <> constexpr int kMembers<MeasuredOp> = 3;
template <> constexpr int kMembers<MeasuredCollective> = 5;
template <> constexpr int kMembers<MeasuredSteps> = 8;
template <> constexpr int kMembers<ThreadTime> = 14;
template <> constexpr int kMembers<ThreadTime::Call> = 5;
template <> constexpr int kMembers<RankMeasure> = 21;
template <> constexpr int kMembers<RankDiagnosis> = 2;
template <> constexpr int kMembers<DigestStep> = 4;
template <> constexpr int kMembers<DigestMemory> = 3;
template <> constexpr int kMembers<CollectiveKind> = 7;
template <> constexpr int kMembers<CollectiveCall> = 18;
template <> constexpr int kMembers<CollectiveRow> = 14;
template <> constexpr int kMembers<CollectiveCalls> = 4;
template <> constexpr int kMembers<StepWork> = 9;
template <> constexpr int kMembers<KernelWork> = 4;
template <> constexpr int kMembers<RankWork> = 2;
template <> constexpr int kMembers<LanePoint> = 4;
template <> constexpr int kMembers<LanePart> = 2;
template <> constexpr int kMembers<LaneStep> = 3;
template <> constexpr int kMembers<Lane> = 3;
template <> constexpr int kMembers<CallSite> = 4;
template <> constexpr int kMembers<JobLibraries> = 5;
template <> constexpr int kMembers<CallSites> = 3;
template <> constexpr int kMembers<ClockStatement> = 2;
template <> constexpr int kMembers<RankDigest> = 14;
template <> constexpr int kMembers<RankResult> = 4;

}  // namespace profgpu::archive

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
