// Small traces written by hand, in microseconds, for tests with numbers that can be checked by eye.
#pragma once

#include <string>
#include <string_view>

#include "trace/trace_builder.h"

namespace profgpu {

/// Times are microseconds. The step's thread is "main"; device 0, stream 7 unless said otherwise.
class HandTrace {
 public:
  HandTrace& range(std::string_view name, int64_t start, int64_t end, std::string_view thread = "main") {
    return host(HostKind::kAnnotation, name, start, end, thread, 0);
  }
  HandTrace& op(std::string_view name, int64_t start, int64_t end, std::string_view thread = "main") {
    return host(HostKind::kOp, name, start, end, thread, 0);
  }
  /// With the shapes and dtypes of its inputs, as torch.profiler writes them.
  HandTrace& shaped_op(std::string_view name, int64_t start, int64_t end, std::string_view shapes,
                       std::string_view types, std::string_view strides = "") {
    OpArgs args;
    if (!strides.empty()) args.strides = shard_.strings.intern(strides);
    args.shapes = shard_.strings.intern(shapes);
    args.types = shard_.strings.intern(types);
    shard_.op_args.push_back(args);
    return host(HostKind::kOp, name, start, end, "main", 0, static_cast<uint32_t>(shard_.op_args.size() - 1));
  }
  /// With autograd's number, as forward operators have it.
  HandTrace& numbered_op(std::string_view name, int64_t start, int64_t end, int32_t sequence,
                         std::string_view thread = "main") {
    OpArgs args;
    args.sequence = sequence;
    shard_.op_args.push_back(args);
    return host(HostKind::kOp, name, start, end, thread, 0, static_cast<uint32_t>(shard_.op_args.size() - 1));
  }
  HandTrace& call(std::string_view name, int64_t start, int64_t end, std::string_view thread = "main") {
    return host(HostKind::kRuntime, name, start, end, thread, 0);
  }
  HandTrace& python(std::string_view name, int64_t start, int64_t end, std::string_view thread = "main") {
    return host(HostKind::kPython, name, start, end, thread, 0);
  }
  /// The profiler's own work, or CUDA's.
  HandTrace& overhead(std::string_view name, int64_t start, int64_t end) {
    return host(HostKind::kOverhead, name, start, end, "main", 0);
  }
  /// A frame of the main thread's stack, sampled at its start.
  HandTrace& sampled(std::string_view name, int64_t start, int64_t end) {
    return python(name, start, end, "main (Python stack)");
  }
  /// A launching call and the kernel that it launched.
  HandTrace& kernel(std::string_view name, int64_t launch, int64_t launch_end, int64_t start, int64_t end,
                     std::string_view thread = "main", int64_t stream = 7) {
    host(HostKind::kRuntime, "cudaLaunchKernel", launch, launch_end, thread, ++correlation_);
    return activity(ActivityKind::kKernel, name, start, end, stream, correlation_);
  }
  /// On a device of its number.
  HandTrace& kernel_on(int32_t device, std::string_view name, int64_t launch, int64_t launch_end, int64_t start,
                       int64_t end) {
    host(HostKind::kRuntime, "cudaLaunchKernel", launch, launch_end, "main", ++correlation_);
    return activity(ActivityKind::kKernel, name, start, end, 7, correlation_, device);
  }
  HandTrace& copy(std::string_view name, int64_t launch, int64_t launch_end, int64_t start, int64_t end) {
    host(HostKind::kRuntime, "cudaMemcpyAsync", launch, launch_end, "main", ++correlation_);
    return activity(ActivityKind::kMemcpy, name, start, end, 7, correlation_);
  }
  /// A kernel without a launch in the file.
  HandTrace& orphan(std::string_view name, int64_t start, int64_t end) {
    return activity(ActivityKind::kKernel, name, start, end, 7, 0);
  }
  /// A range as a stream of the device saw it.
  HandTrace& device_range(std::string_view name, int64_t start, int64_t end, uint32_t stream = 7, uint32_t id = 0) {
    shard_.device_ranges.push_back(
        {start * 1000, (end - start) * 1000, shard_.device_range_names.intern(name), stream, id});
    return *this;
  }
  Trace build() { return builder_.finish(1); }

 private:
  HandTrace& host(HostKind kind, std::string_view name, int64_t start, int64_t end, std::string_view thread,
                   uint32_t link, uint32_t args = HostRow().args) {
    HostRow row;
    row.start_ns = start * 1000;
    row.duration_ns = (end - start) * 1000;
    row.name = shard_.strings.intern(name);
    row.thread = static_cast<uint16_t>(shard_.thread("1", thread));
    row.kind = kind;
    row.link = link;
    row.args = args;
    shard_.host.push_back(row);
    return *this;
  }
  HandTrace& activity(ActivityKind kind, std::string_view name, int64_t start, int64_t end, int64_t stream,
                       uint32_t correlation, int32_t device = 0) {
    ActivityRow row;
    row.start_ns = start * 1000;
    row.duration_ns = (end - start) * 1000;
    row.name = shard_.strings.intern(name);
    row.queue = shard_.queue({device, stream, 1});
    row.kind = kind;
    row.correlation = correlation;
    row.args = shard_.activity_args({});
    shard_.activity.push_back(row);
    return *this;
  }

  TraceBuilder builder_;
  Shard& shard_ = builder_.shard();
  uint32_t correlation_ = 0;
};

}  // namespace profgpu
