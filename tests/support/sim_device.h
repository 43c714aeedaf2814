// What differs between the devices and runtimes that the simulator imitates: kernel names and durations, API names,
// properties.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/sim_trace.h"

namespace profgpu::sim {

enum class Api : uint8_t {
  launch,
  launch_extended,
  launch_driver,
  launch_graph,
  launch_host_function,
  memcpy_async,
  memset_async,
  stream_synchronize,
  device_synchronize,
  event_record,
  event_query,
  stream_wait_event,
  malloc,
  free,
  stream_is_capturing,
  function_attribute,
  occupancy,
  module_load,
  begin_capture,
  end_capture,
  count
};

struct ApiName {
  const char* name;
  int id;        // cbid for CUPTI, cid for roctracer
  bool links;    // Kineto writes the start of a flow for it
  bool driver;   // category cuda_driver
};
const ApiName& api_name(Gpu gpu, Api api);

enum class Role : uint8_t {
  embedding,
  layer_norm,
  qkv_gemm,
  attention,
  attention_scores,
  attention_softmax,
  attention_output,
  proj_gemm,
  dropout,
  add,
  fc1_gemm,
  gelu,
  fc2_gemm,
  head_gemm,
  log_softmax,
  nll,
  nll_backward,
  log_softmax_backward,
  head_dgrad,
  head_wgrad,
  embedding_backward,
  fc2_dgrad,
  fc2_wgrad,
  gelu_backward,
  fc1_dgrad,
  fc1_wgrad,
  dropout_backward,
  norm_backward,
  norm_weights_backward,
  proj_dgrad,
  proj_wgrad,
  attention_backward,
  qkv_dgrad,
  qkv_wgrad,
  bias_sum,
  add_grad,
  grad_norm,
  fused_adam,
  loop_mul,
  loop_add,
  loop_addcmul,
  loop_sqrt,
  loop_addcdiv,
  tiny,
  custom,
  layout_copy,
  all_reduce,
  all_gather,
  reduce_scatter,
  send_recv,
  count
};

struct Geometry {
  int registers, shared_bytes;
  int grid[3], block[3];
};

/// What a role's kernel is called and how long it takes on an otherwise idle device. matrix: runs on tensor cores
/// unless full precision is asked for. small: normalisation and elementwise work that a badly fused model does in many
/// pieces.
struct Kernel {
  const char* name;
  int64_t duration_ns;
  bool matrix, small;
  Geometry geometry;
};
Kernel kernel(Gpu gpu, Role role, bool full_precision, bool compiled);
Geometry geometry_of(uint32_t role);

struct DeviceFacts {
  const char* name;
  int64_t memory_bytes;
  int bus_gbps;  // what a healthy ring reaches on its links, as nccl-tests' busbw
  int pinned_gbps, pageable_gbps;
  bool amd;
  int stream_numbers[kStreamSlots];
  int first_device;  // ROCm counts the CPUs first
};
const DeviceFacts& facts(Gpu gpu);

/// One entry of deviceProperties in the layout of recent Kineto, without a trailing comma.
std::string device_properties(Gpu gpu, int index);

}  // namespace profgpu::sim
