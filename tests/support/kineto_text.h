// Kineto's JSON from simulated rows, in the layout of two of its generations: key order, line breaks, categories, flow
// events, metadata rows and top-level keys are those of traces recorded by PyTorch 2.x and by PyTorch 1.8.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tests/support/sim_trace.h"

namespace profgpu::sim {

enum class KinetoGeneration : uint8_t {
  v2,    // decimal microseconds since baseTimeNanoseconds, lower-case categories
  v1_8,  // whole microseconds since the epoch, categories Operator, Kernel, Runtime, threads as text
};

struct KinetoStyle {
  KinetoGeneration generation = KinetoGeneration::v2;
  bool array = false;             // the bare array of events
  bool steps = true;              // ProfilerStep# annotations
  bool distributed_info = true;
  bool shapes = true;             // Input Dims and kin, with_stack's Call stack in 1.8
  bool memory = true;             // [memory] instants
  bool flows = true;
  bool group_ranks = true;        // Process Group Ranks: members of a collective's group
  bool host_names = true;
  bool sequence_numbers = true;   // Seq
  bool collective_arguments = true;  // of kernels and record_param_comms at all
  uint64_t shuffle_seed = 0;      // 0: the order in which Kineto writes
  int64_t time_shift_ns = 0;
};

/// Called with pieces of about a megabyte; false stops the writer.
using TextSink = std::function<bool(std::string_view)>;

/// False when the sink said stop.
bool write_kineto(const RankTrace& trace, const KinetoStyle& style, const TextSink& sink);
std::string kineto_text(const RankTrace& trace, const KinetoStyle& style);

/// A row's start and duration as `style` writes them, in nanoseconds without the shift and the clock's offset.
struct WrittenTime {
  int64_t start_ns, duration_ns;
};
WrittenTime written(const RankTrace& trace, int64_t start_ns, int64_t duration_ns, const KinetoStyle& style);

}  // namespace profgpu::sim
