// The device's half of a simulated process: launches, copies, events, collectives and the waits for them.
#include <algorithm>

#include "tests/support/sim_process.h"

namespace profgpu::sim {

uint32_t Process::call(Api api, int64_t duration_ns, uint32_t detail) {
  const uint32_t correlation = correlation_++;
  const int64_t start = now_;
  spend(duration_ns);
  trace_.calls.push_back({start, now_ - start, static_cast<uint32_t>(api), external_id(), correlation, detail, thread_,
                          api_name(options_.gpu, api).links});
  spend(260);
  return correlation;
}

/// The driver's queue holds about a thousand launches; after that a launch waits until the device has taken one.
void Process::throttle() {
  int64_t& oldest = queue_[launches_ % queue_.size()];
  skip_to(oldest);
}

void Process::flush_profiler() {
  if (plan.flush_every_launches == 0 || launches_ % static_cast<size_t>(plan.flush_every_launches) != 0) return;
  static const char* const kNames[] = {"Buffer Flush", "Activity Buffer Request", "Instrumentation"};
  const int64_t start = now_;
  spend(plan.flush_ns);
  const size_t which = launches_ / static_cast<size_t>(plan.flush_every_launches) % 3;
  trace_.overhead.push_back({start, now_ - start, name_id(kNames[which])});
}

void Process::extend_spans(StreamSlot stream, int64_t start, int64_t end) {
  for (Open& o : open_[thread_]) {
    const HostRow& row = trace_.host[thread_][o.row];
    if (row.kind != HostKind::annotation) continue;
    int32_t& index = o.spans[stream];
    if (index < 0) {
      index = static_cast<int32_t>(trace_.gpu_spans.size());
      trace_.gpu_spans.push_back({start - 1, end + 1, row.name, row.external_id, stream, row.step});
    } else {
      trace_.gpu_spans[static_cast<size_t>(index)].end_ns = end + 1;
    }
  }
}

void Process::run_device(DeviceKind kind, uint32_t name, int64_t ready_ns, int64_t duration_ns, StreamSlot stream,
                         uint32_t correlation, uint32_t geometry, uint64_t bytes) {
  if (capturing_) return;
  Stream& s = streams_[stream];
  const int64_t gap = in_graph_ ? 600 : noise_.around(1050, 120);
  const int64_t start = std::max({ready_ns, s.free_ns + gap, s.wait_ns});
  s.free_ns = start + duration_ns;
  last_start_ns_ = start;
  last_device_row_ = -1;
  if (!in_graph_) queue_[launches_ % queue_.size()] = s.free_ns;
  ++launches_;
  extend_spans(stream, start, s.free_ns);
  if (!recorded_) return;
  if (options_.drop_pct > 0 && (correlation * 2654435761u >> 8) % 100 < static_cast<uint32_t>(options_.drop_pct))
    return;
  const bool compute = kind == DeviceKind::kernel && pending_collective_row_ == kNone;
  trace_.device_rows.push_back({start, duration_ns, bytes, name, external_id(), correlation, geometry,
                                pending_collective_row_, stream, kind,
                                static_cast<uint16_t>(compute ? work_permille_ : 1000)});
  last_device_row_ = static_cast<int64_t>(trace_.device_rows.size()) - 1;
}

void Process::getters(Role role) {
  if (!options_.runtime_getters || in_graph_) return;
  if (kernel(options_.gpu, role, false, false).matrix) {
    call(Api::stream_is_capturing, 480);
    call(Api::function_attribute, 420);
    call(Api::function_attribute, 300);
  } else if (role == Role::norm_weights_backward || role == Role::log_softmax) {
    call(Api::occupancy, 900);
  }
}

/// The operator that launches it has inputs of the role's sizes.
void Process::note_role(Role role) {
  if (in_graph_ || open_[thread_].empty()) return;
  HostRow& row = trace_.host[thread_][open_[thread_].back().row];
  row.role = static_cast<uint8_t>(role);
  row.batch_permille = static_cast<uint16_t>(std::min<int64_t>(batch_permille_, UINT16_MAX));
}

void Process::launch(Role role, int64_t duration_ns, StreamSlot stream) {
  const Kernel k = kernel(options_.gpu, role, plan.full_precision, options_.compiled);
  int64_t duration = duration_ns > 0 ? duration_ns : k.duration_ns;
  if (role == Role::attention_softmax) duration = duration / 1000 * plan.softmax_permille;
  if (k.matrix) duration = duration / 1000 * plan.matrix_permille;
  if (role == Role::gelu && plan.activation_permille != 1000) duration = duration * plan.activation_permille / 1000;
  note_role(role);
  if (work_permille_ != 1000 && role < Role::all_reduce) duration = duration * work_permille_ / 1000;
  duration = noise_.around(paced(duration / 1000 * compute_permille_ + duration % 1000 * compute_permille_ / 1000), 18);
  if (options_.cpu_only) {  // the same work on a CPU takes some thirty times as long, and the host does it itself
    spend(duration * 30);
    return;
  }
  if (plan.piece_ns > 0 && k.small && !in_graph_) {
    const int64_t pieces = std::max<int64_t>(duration / plan.piece_ns, 1);
    for (int64_t i = 0; i < pieces; ++i) {
      spend(plan.piece_host_ns / 2);
      open(i % 2 == 0 ? "aten::mul" : "aten::add", HostKind::op);
      spend(plan.piece_host_ns / 6);
      throttle();
      const int64_t start = now_;
      const uint32_t correlation = call(Api::launch, 5200, static_cast<uint32_t>(Role::tiny));
      run_device(DeviceKind::kernel, name_id(kernel(options_.gpu, Role::tiny, false, false).name), start + 7000,
                 duration / pieces, stream, correlation, static_cast<uint32_t>(Role::tiny), 0);
      close();
    }
    return;
  }
  if (in_graph_) {
    run_device(DeviceKind::kernel, name_id(k.name), graph_ready_ns_, duration, stream, graph_correlation_,
               static_cast<uint32_t>(role), 0);
    return;
  }
  getters(role);
  spend(1900);
  const bool nccl = role >= Role::all_reduce;
  const bool triton = options_.compiled && k.small;
  const int64_t start = now_;
  throttle();
  flush_profiler();
  const int64_t waited = now_ - start;
  now_ = start;
  const int64_t call_ns = noise_.around(5200, 120);
  const uint32_t correlation = correlation_++;
  now_ = start + waited + call_ns;
  const Api api = nccl ? Api::launch_extended : triton ? Api::launch_driver : Api::launch;
  trace_.calls.push_back({start, now_ - start, static_cast<uint32_t>(api), external_id(), correlation,
                          static_cast<uint32_t>(role), thread_, true});
  run_device(DeviceKind::kernel, name_id(k.name), now_ + noise_.around(1900, 150), duration, stream, correlation,
             static_cast<uint32_t>(role), 0);
  spend(600);
}

void Process::copy(const char* name, uint64_t bytes, int gbps, bool blocking, StreamSlot stream) {
  const int64_t duration = noise_.around(1300 + static_cast<int64_t>(bytes) / gbps, 25);
  if (options_.cpu_only) return spend(duration);
  throttle();
  const int64_t start = now_;
  const uint32_t correlation = correlation_++;
  spend(6200);
  run_device(DeviceKind::memcpy, name_id(name), now_ + 1500, duration, stream, correlation, kNone, bytes);
  if (blocking) skip_to(streams_[stream].free_ns + 2200);
  trace_.calls.push_back({start, now_ - start, static_cast<uint32_t>(Api::memcpy_async), external_id(), correlation,
                          kNone, thread_, true});
  spend(500);
}

void Process::clear(uint64_t bytes) {
  if (options_.cpu_only) return;
  const int64_t duration = noise_.around(1500 + static_cast<int64_t>(bytes) / 1800, 25);
  const int64_t start = now_;
  if (in_graph_)
    return run_device(DeviceKind::memset, name_id("Memset (Device)"), graph_ready_ns_, duration, kComputeStream,
                      graph_correlation_, kNone, bytes);
  throttle();
  const uint32_t correlation = call(Api::memset_async, 4300);
  run_device(DeviceKind::memset, name_id("Memset (Device)"), start + 6500, duration, kComputeStream, correlation, kNone,
             bytes);
}

void Process::wait_for(StreamSlot stream) {
  if (options_.cpu_only || in_graph_) return;
  const int64_t start = now_, until = std::max(now_ + 2800, streams_[stream].free_ns + noise_.around(3200, 150));
  const uint32_t correlation = correlation_++, external = external_id();
  now_ = until;
  trace_.calls.push_back({start, until - start, static_cast<uint32_t>(Api::stream_synchronize), external, correlation,
                          kNone, thread_, api_name(options_.gpu, Api::stream_synchronize).links});
  if (options_.sync_rows)
    trace_.syncs.push_back({start + 300, until - start - 500, name_id("Stream Sync"), external, correlation,
                            facts(options_.gpu).stream_numbers[stream], 0, 0});
}

void Process::wait_unrecorded(int64_t ns) {
  skip_to(streams_[kComputeStream].free_ns);
  spend(30'000);
  for (Stream& s : streams_) s.free_ns = std::max(s.free_ns, now_ + ns);
  wait_for(kComputeStream);
}

void Process::wait_for_device() {
  if (options_.cpu_only) return;
  int64_t until = now_ + 3000;
  for (const Stream& s : streams_) until = std::max(until, s.free_ns + 3000);
  const int64_t start = now_;
  const uint32_t correlation = correlation_++;
  now_ = until;
  trace_.calls.push_back({start, until - start, static_cast<uint32_t>(Api::device_synchronize), external_id(),
                          correlation, kNone, thread_, api_name(options_.gpu, Api::device_synchronize).links});
  if (options_.sync_rows)
    trace_.syncs.push_back(
        {start + 300, until - start - 500, name_id("Context Sync"), external_id(), correlation, -1, 0, 0});
}

void Process::wait_event(StreamSlot waiter, StreamSlot awaited) {
  if (options_.cpu_only) return;
  Stream& s = streams_[waiter];
  s.wait_ns = std::max(s.wait_ns, streams_[awaited].free_ns + 1800);
  if (in_graph_) return;
  const uint32_t record = call(Api::event_record, 1600);
  const int64_t start = now_;
  const uint32_t correlation = call(Api::stream_wait_event, 1700);
  const auto& numbers = facts(options_.gpu).stream_numbers;
  if (options_.sync_rows)
    trace_.syncs.push_back({start + 200, 1300, name_id("Stream Wait Event"), external_id(), correlation,
                            numbers[waiter], numbers[awaited], record});
}

void Process::host_function(StreamSlot stream, int64_t duration_ns) {
  if (options_.cpu_only || in_graph_) return;
  call(Api::launch_host_function, 7000);
  Stream& s = streams_[stream];
  s.free_ns = std::max({s.free_ns, s.wait_ns, now_ + 4000}) + noise_.around(duration_ns, 30);
}

void Process::begin_graph() {
  if (options_.cpu_only) return;
  graph_start_ns_ = now_;
  graph_correlation_ = correlation_++;
  graph_ready_ns_ = now_ + noise_.around(42'000, 80);
  in_graph_ = true;
}

void Process::end_graph() {
  if (options_.cpu_only) return;
  in_graph_ = false;
  now_ = graph_start_ns_;
  spend(38'000);
  trace_.calls.push_back({graph_start_ns_, now_ - graph_start_ns_, static_cast<uint32_t>(Api::launch_graph),
                          external_id(), graph_correlation_, kNone, thread_, true});
  spend(900);
}

void Process::item(bool twice) {
  open("aten::item", HostKind::op);
  open("aten::_local_scalar_dense", HostKind::op);
  copy(facts(options_.gpu).amd ? "Memcpy DtoH (Device -> Host)" : "Memcpy DtoH (Device -> Pinned)", twice ? 8 : 4, 12,
       false);
  wait_for(kComputeStream);
  close();
  close();
}

Process::Arrival Process::arrive(Role role, Collective what, StreamSlot stream) {
  what.sequence = what.source >= 0 || what.destination >= 0 ? pair_sequence_++ : collective_sequences_[what.group]++;
  const char* op = what.op;
  const std::string annotation = what.annotation;
  trace_.collectives.push_back(std::move(what));
  const auto collective = static_cast<uint32_t>(trace_.collectives.size() - 1);
  open(op, HostKind::op);
  open("record_param_comms", HostKind::op);
  if (!in_graph_) trace_.host[thread_].back().collective = collective;
  open(annotation, HostKind::annotation);
  wait_event(stream, kComputeStream);
  pending_collective_row_ = collective;
  launch(role, 1000, stream);
  pending_collective_row_ = kNone;
  close();
  close();
  close();
  if (options_.cpu_only) return {now_, -1, 0, stream};
  return {last_start_ns_, last_device_row_, launches_ - 1, stream};
}

void Process::complete(const Arrival& arrival, int64_t end_ns) {
  if (options_.cpu_only) return skip_to(end_ns);
  Stream& s = streams_[arrival.stream];
  const int64_t before = s.free_ns;
  s.free_ns = end_ns;
  if (!in_graph_) queue_[arrival.launch % queue_.size()] = end_ns;
  if (arrival.device_row >= 0)
    trace_.device_rows[static_cast<size_t>(arrival.device_row)].duration_ns = end_ns - arrival.start_ns;
  for (auto span = trace_.gpu_spans.rbegin(); span != trace_.gpu_spans.rend() && span->end_ns >= before - 4000;
       ++span) {
    if (span->stream == arrival.stream && span->end_ns == before + 1) span->end_ns = end_ns + 1;
  }
}

}  // namespace profgpu::sim
