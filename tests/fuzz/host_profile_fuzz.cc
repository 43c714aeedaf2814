// Any bytes as a profile of speedscope or a trace of VizTracer: alone, and beside the trace that it becomes.
#include "tests/fuzz/whole_report.h"
#include "trace/import/host_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  const std::string path = file_of(data, size);
  if (path.empty()) return 0;
  report_on(path);
  auto profile = import_file(path, {}), trace = import_file(path, {});
  if (!profile || !trace || profile->importer->join == nullptr) return 0;
  require(!profile->importer->join(profile->trace, path, trace->trace).text.empty(), "joining says what it did");
  add_stacks(profile->trace, 0, trace->trace);
  require(shift_by_calls(profile->trace, trace->trace).agree >= 0, "a number of calls");
  const Facts facts(trace->trace, {});
  check_totals(facts);
  return 0;
}
