// Any bytes as Nsight Compute's CSV: alone, and beside the kernels that it becomes.
#include "tests/fuzz/whole_report.h"
#include "trace/kernel_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  const std::string path = file_of(data, size);
  if (path.empty()) return 0;
  report_on(path);
  auto profiled = import_file(path, {}), trace = import_file(path, {});
  if (!profiled || !trace || profiled->importer->join == nullptr || !profiled->trace.kernel_profile) return 0;
  const KernelProfile& profile = *profiled->trace.kernel_profile;
  size_t launches = 0;
  for (const ProfiledKernel& kernel : match_profile(profile, trace->trace)) launches += kernel.profiled.size();
  require(launches == profile.launches.size(), "each launch is of one kernel");
  const TraceIssue said = profiled->importer->join(profiled->trace, path, trace->trace);
  require(!said.text.empty(), "joining says what it did");
  const Facts facts(trace->trace, {});
  check_totals(facts);
  require(rank_report(facts).counters.has_value(), "there are counters");
  return 0;
}
