// PyTorch's execution traces (Chakra's schema, written by torch.profiler.ExecutionTraceObserver): the operators of a
// process in order, with shapes and types, and without times.
#pragma once

#include <cstdint>
#include <string>

#include "trace/import/importer.h"
#include "trace/trace.h"

namespace profgpu {

extern const Importer kExecutionTrace;

/// What a profiler's trace got of an execution trace of the same run.
struct ExecutionJoin {
  int64_t ops = 0;      ///< of the profiler's trace
  int64_t joined = 0;   ///< that are in both
  int64_t given = 0;    ///< of these, that had no shapes, and have some now
  bool by_number = false;   ///< they are told by their record function ids, not by their order
};

/// The number by which an execution trace of the same run knows an operator, as a range's arguments have it.
std::string function_number_text(uint32_t number);

/// Gives operators of `profiled` that have no shapes those of the same operators in `execution`: by their record
/// function ids where the names agree with them, else by thread, order and name. Joins nothing where the two do not
/// look like one run.
ExecutionJoin join_execution(const Trace& execution, Trace& profiled);
/// The same as Importer::join.
TraceIssue joined_execution(const Trace& execution, const std::string& path, Trace& profiled);

/// Whether strides as profilers write them, "[[512, 1, 0, 0], []]", tell more than that tensors are dense: one is 0, as
/// several elements lie in one place of memory, or the last of several is not 1, as neighbors lie apart.
bool tells_layout(std::string_view strides);

}  // namespace profgpu
