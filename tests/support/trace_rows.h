// Traces of a few rows, written down by hand as start and duration. Times are nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/trace_builder.h"

namespace profgpu::test {

class TraceRows {
 public:
  TraceRows() : shard_(builder_.shard()) {}

  TraceRows& op(std::string_view name, int64_t start, int64_t duration, std::string_view thread = "1") {
    return host(HostKind::kOp, name, start, duration, thread);
  }
  TraceRows& annotation(std::string_view name, int64_t start, int64_t duration, std::string_view thread = "1") {
    return host(HostKind::kAnnotation, name, start, duration, thread);
  }
  TraceRows& python(std::string_view name, int64_t start, int64_t duration, std::string_view thread = "1") {
    return host(HostKind::kPython, name, start, duration, thread);
  }
  TraceRows& call(std::string_view name, int64_t start, int64_t duration, uint32_t correlation = 0,
                   std::string_view thread = "1") {
    return host(HostKind::kRuntime, name, start, duration, thread, correlation);
  }
  TraceRows& kernel(std::string_view name, int64_t start, int64_t duration, uint32_t correlation = 0,
                     int32_t device = 0, int64_t stream = 7) {
    return activity(ActivityKind::kKernel, name, start, duration, correlation, device, stream);
  }
  TraceRows& copy(std::string_view name, int64_t start, int64_t duration, uint32_t correlation = 0,
                   int32_t device = 0, int64_t stream = 7) {
    return activity(ActivityKind::kMemcpy, name, start, duration, correlation, device, stream);
  }

  struct Message {
    std::string_view name, dtype = "Float", group = "0", ranks = "[0, 1]";
    int64_t in = 0, out = 0, sequence = -1;
    int32_t size = 2;
  };
  /// A collective's kernel with its arguments.
  TraceRows& collective(const Message& m, int64_t start, int64_t duration, uint32_t correlation = 0,
                         int64_t stream = 20, int32_t device = 0) {
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, duration, correlation, device, stream);
    shard_.activity[shard_.activity.size() - 1].collective = add(m);
    return *this;
  }
  /// A collective as the host tells of it: the op around the launch.
  TraceRows& collective_op(const Message& m, int64_t start, int64_t duration) {
    op("record_param_comms", start, duration);
    shard_.host_collectives.emplace_back(shard_.host.size() - 1, add(m));
    return *this;
  }
  /// A call of MPI: it takes its time on the host.
  TraceRows& mpi_call(const Message& m, int64_t start, int64_t duration) {
    host(HostKind::kLibrary, "MPI_" + std::string(m.name), start, duration, "1");
    shard_.host_collectives.emplace_back(shard_.host.size() - 1, add(m));
    return *this;
  }
  TraceRows& allocation(int64_t time, int64_t bytes, int64_t allocated, int64_t reserved, int32_t device = 0,
                         int32_t device_type = 1) {
    MemoryEvent m;
    m.time_ns = time;
    m.bytes = bytes;
    m.total_allocated = allocated;
    m.total_reserved = reserved;
    m.device = device;
    m.device_type = device_type;
    shard_.memory.push_back(m);
    return *this;
  }
  /// Of the last host row.
  TraceRows& flops(uint64_t count) {
    OpArgs args;
    args.flops = count;
    shard_.op_args.push_back(args);
    shard_.host[shard_.host.size() - 1].args = static_cast<uint32_t>(shard_.op_args.size() - 1);
    return *this;
  }
  Trace& header() { return builder_.header(); }
  Trace finish() { return builder_.finish(1); }

 private:
  TraceRows& host(HostKind kind, std::string_view name, int64_t start, int64_t duration, std::string_view thread,
                   uint32_t link = 0) {
    HostRow r;
    r.start_ns = start;
    r.duration_ns = duration;
    r.name = shard_.strings.intern(name);
    r.thread = static_cast<uint16_t>(shard_.thread("100", thread));
    r.link = link;
    r.kind = kind;
    shard_.host.push_back(r);
    return *this;
  }
  TraceRows& activity(ActivityKind kind, std::string_view name, int64_t start, int64_t duration, uint32_t correlation,
                       int32_t device, int64_t stream) {
    ActivityRow r;
    r.start_ns = start;
    r.duration_ns = duration;
    r.name = shard_.strings.intern(name);
    r.correlation = correlation;
    r.queue = shard_.queue({device, stream, 1});
    r.kind = kind;
    shard_.activity.push_back(r);
    return *this;
  }
  uint32_t add(const Message& m) {
    Collective c;
    c.name = shard_.strings.intern(m.name);
    c.dtype = shard_.strings.intern(m.dtype);
    c.group = shard_.strings.intern(m.group);
    c.ranks = shard_.strings.intern(m.ranks);
    c.in_elements = m.in;
    c.out_elements = m.out;
    c.group_size = m.size;
    c.sequence = m.sequence;
    shard_.collectives.push_back(c);
    return static_cast<uint32_t>(shard_.collectives.size() - 1);
  }

  TraceBuilder builder_;
  Shard& shard_;
};

}  // namespace profgpu::test
