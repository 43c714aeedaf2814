// Any bytes as an execution trace: alone, and joined with the trace that it becomes.
#include "tests/fuzz/whole_report.h"
#include "trace/import/execution_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  const std::string path = file_of(data, size);
  if (path.empty()) return 0;
  report_on(path);
  auto execution = import_file(path, {}), profiled = import_file(path, {});
  if (!execution || !profiled) return 0;
  const ExecutionJoin join = join_execution(execution->trace, profiled->trace);
  require(join.joined <= join.ops, "no more operators are joined than there are");
  return 0;
}
