#include <gtest/gtest.h>

#include "base/text.h"
#include "support/recording_fixture.h"
#include "trace/import/recording_file.h"
#include "trace/import/recording_rows.h"

namespace profgpu {
namespace {

using wire::RangeOp;
using wire::WindowEvent;

class Recording : public RecordingTest {};

TEST_F(Recording, kernels_calls_and_ranges_stand_on_one_clock) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100, "python");
  r.kernel("_Z4gemmIfEvPT_i", main, kDevice + 10 * kMs, kDevice + 11 * kMs, 2 * kMs);
  r.range(RangeOp::kPush, 9 * kMs, main, "forward", "profgpu");
  r.range(RangeOp::kPop, 12 * kMs, main, "", "profgpu").end();
  const Trace t = read(r);
  ASSERT_EQ(t.activity.size(), 1U);
  EXPECT_EQ(t.name(ActivityId(size_t{0})), "void gemm<float>(float*, int)");
  EXPECT_EQ(t.activity.start_ns[0] + t.base_time_ns, kUnix + 11 * kMs);
  ASSERT_TRUE(t.activity.launch[0].valid());
  const HostId call = t.activity.launch[0];
  EXPECT_EQ(t.name(call), "cudaLaunchKernel");
  EXPECT_EQ(t.host.kind[call.value], HostKind::kRuntime);
  ASSERT_TRUE(t.host.parent[call.value].valid());
  EXPECT_EQ(t.name(t.host.parent[call.value]), "forward");
  EXPECT_EQ(t.threads.front().name, "python");
  EXPECT_TRUE(t.issues.empty());
}

TEST_F(Recording, frames_of_a_sampled_stack_are_another_threads_and_make_no_window_longer) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.kernel("k", main, kDevice + 10 * kMs, kDevice + 11 * kMs, 2 * kMs);
  r.range(RangeOp::kPush, 1 * kMs, main, "train.py(9): <module>", "profgpu.stack");
  r.range(RangeOp::kPush, 1 * kMs, main, "train.py(3): f", "profgpu.stack");
  r.range(RangeOp::kPush, 9 * kMs, main, "forward", "profgpu");
  r.range(RangeOp::kPop, 11 * kMs, main, "", "profgpu.stack");
  r.range(RangeOp::kPush, 11 * kMs, main, "train.py(4): f", "profgpu.stack");
  r.range(RangeOp::kPop, 12 * kMs, main, "", "profgpu").range(RangeOp::kPop, 90 * kMs, main, "", "profgpu.stack").end();
  const Trace t = read(r);
  EXPECT_EQ(annotations(t), (std::vector<std::string>{"forward 9 3"}));
  ASSERT_EQ(t.threads.size(), 2U);
  EXPECT_EQ(t.threads[1].id, "100 (Python stack)");
  EXPECT_EQ(t.sampled_stacks(), (std::vector{ThreadId(size_t{1}), ThreadId()}));
  std::vector<std::string> frames;
  for (HostId i = t.threads[1].begin; i < t.threads[1].end; i = HostId(size_t{i.value} + 1)) {
    EXPECT_EQ(t.host.kind[i.value], HostKind::kPython);
    frames.push_back(std::string(t.name(i)) + " " + std::to_string(t.host.duration_ns[i.value] / kMs));
  }
  EXPECT_EQ(frames, (std::vector<std::string>{"train.py(9): <module> 4", "train.py(3): f 2", "train.py(4): f 2"}));
  EXPECT_EQ(t.windows, (std::vector<Interval>{{t.host.start_ns[0], t.activity.end_ns(ActivityId(size_t{0}))}}));
}

TEST_F(Recording, steps_begin_where_the_one_before_ended_and_the_first_with_its_first_phase) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.range(RangeOp::kPush, 1 * kMs, main, "import", "");
  r.range(RangeOp::kPush, 5 * kMs, main, "data_loading", "profgpu").range(RangeOp::kPop, 6 * kMs, main, "", "profgpu");
  r.range(RangeOp::kStep, 15 * kMs, main, "", "profgpu", 0, 0);
  r.range(RangeOp::kStep, 25 * kMs, main, "", "profgpu", 0, 1);
  r.range(RangeOp::kPop, 26 * kMs, main).end();
  EXPECT_EQ(annotations(read(r)), (std::vector<std::string>{"import 1 25", "ProfilerStep#0 5 10", "data_loading 5 1",
                                                            "ProfilerStep#1 15 10"}));
}

TEST_F(Recording, ranges_that_overlap_or_stay_open) {
  HandRecording r = begun();
  const uint32_t a = r.thread(100, 100), b = r.thread(100, 101);
  r.range(RangeOp::kPop, 0, a);                                    // pushed before the recording
  r.range(RangeOp::kPush, 1 * kMs, a, "outer").range(RangeOp::kPush, 2 * kMs, a, "other", "lib");
  r.range(RangeOp::kPop, 3 * kMs, a);                              // closes "outer", not lib's
  r.range(RangeOp::kStart, 4 * kMs, a, "copy", "", 9).range(RangeOp::kEnd, 8 * kMs, b, "", "", 9);
  r.range(RangeOp::kMark, 5 * kMs, b, "epoch").range(RangeOp::kEnd, 9 * kMs, b, "", "", 77);
  r.range(RangeOp::kPush, 6 * kMs, b, "open").range(RangeOp::kMark, 10 * kMs, b, "last").end();
  EXPECT_EQ(annotations(read(r)),
            (std::vector<std::string>{"outer 1 2", "lib: other 2 8", "copy 4 4", "epoch 5 0", "open 6 4",
                                      "last 10 0"}));
}


TEST_F(Recording, ranges_of_another_domain_cost_a_pop_nothing) {
  constexpr int64_t kRanges = 60'000;
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100), name = r.string("step"), a = r.string("A"), b = r.string("B");
  std::vector<wire::RangeEvent> rows;
  for (int64_t i = 0; i < 2 * kRanges; ++i) {
    const bool push = i < kRanges;
    rows.push_back({1000 + i, main, push ? name : 0, push ? a : b, 0, push ? RangeOp::kPush : RangeOp::kPop,
                    wire::PayloadType::kNone, 0, 0});
  }
  r.add(rows).end();
  EXPECT_EQ(read(r).host.size(), size_t{kRanges});
}

TEST_F(Recording, collectives_of_many_communicators_look_at_each_kernel_once) {
  constexpr int64_t kCalls = 40'000;
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100), gemm = r.string("gemm"), queue = r.queue(0, 7);
  std::vector<wire::CollectiveRow> calls;
  std::vector<wire::Kernel> kernels;
  for (int64_t i = 0; i < kCalls; ++i) {
    wire::CollectiveRow c;
    c.start_ns = i * 1000, c.duration_ns = 10, c.ranks = 2, c.thread = main, c.function = r.string("AllReduce");
    c.communicator = static_cast<uint64_t>(i) + 1;
    calls.push_back(c);
    kernels.push_back({kDevice + i * 1000, 500, gemm, queue, static_cast<uint32_t>(i) + 1, 0, 0, 0});
  }
  r.add(calls).add(kernels).end();
  const Trace t = read(r);
  EXPECT_EQ(t.collectives.size(), size_t{kCalls});
  for (const Collective& c : t.collectives) ASSERT_FALSE(c.activity.valid());
}

TEST_F(Recording, small_chunks_ask_for_no_more_rows_than_the_file_has_bytes) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  const wire::RangeEvent one{1000, main, 0, 0, 0, RangeOp::kMark, wire::PayloadType::kNone, 0, 0};
  for (int chunk = 0; chunk < 1000; ++chunk) r.add(std::vector<wire::RangeEvent>(wire::kMaxFreeRows, one));
  const auto file = recording_of(r.end().bytes(), "small.pgt");
  ASSERT_TRUE(file);
  EXPECT_LE(file->range_events.size(), r.bytes().size() + 65'536);
  EXPECT_GT(file->bad_chunks, 0);
  EXPECT_TRUE(file->ended);
}

TEST_F(Recording, a_number_beyond_what_a_recorder_gives_is_no_reason_for_a_large_table) {
  HandRecording r = begun();
  constexpr uint32_t kFar = 3'000'000;
  r.add(wire::ThreadRow{kFar, 100, 100, 0}).add(wire::QueueRow{kFar, 0, 1, 7});
  r.add(wire::PayloadSchema{kFar, 0, 1, 0, wire::SchemaKind::kStatic, 8, 0});
  wire::LaunchShape shape;
  shape.id = kFar;
  r.add(shape).raw(std::string(kFar + 1, ' '));   // as long as its numbers are large
  const auto file = recording_of(r.end().bytes(), "far.pgt");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->threads.size() + file->queues.size() + file->schemas.size() + file->shapes.size(), 0U);
}

TEST_F(Recording, checkpoints_are_called_as_other_analyses_know_them) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.range(RangeOp::kPush, 0, main, "checkpoint", "profgpu").range(RangeOp::kPop, kMs, main, "", "profgpu").end();
  EXPECT_EQ(annotations(read(r)), (std::vector<std::string>{"save_checkpoint 0 1"}));
}

TEST_F(Recording, clocks_that_drift_are_joined_point_by_point) {
  HandRecording r;
  r.process(100, 1, "node1").sync(1000 * kMs, kUnix, kDevice);
  r.sync(2000 * kMs, kUnix + 1000 * kMs, kDevice + 1000 * kMs + 100'000);
  const uint32_t main = r.thread(100, 100);
  r.kernel("k", main, kDevice + 500 * kMs, kDevice + 500 * kMs + 50'000, 1000).end();
  const Trace t = read(r);
  EXPECT_EQ(t.activity.start_ns[0] + t.base_time_ns, kUnix + 500 * kMs);
}

TEST_F(Recording, a_clock_that_jumps_is_split_there) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.kernel("before", main, kDevice + 10 * kMs, kDevice + 11 * kMs, kMs);
  r.sync(20 * kMs, kUnix + 20 * kMs, kDevice + 20 * kMs);
  const int64_t other = 77'000'000 * kMs;
  r.sync(30 * kMs, kUnix + 30 * kMs, other);
  r.kernel("after", main, other + 10 * kMs, other + 11 * kMs, kMs);
  r.sync(50 * kMs, kUnix + 50 * kMs, other + 20 * kMs).end();
  const Trace t = read(r);
  ASSERT_EQ(t.activity.size(), 2U);
  EXPECT_EQ(t.activity.start_ns[0] + t.base_time_ns, kUnix + 11 * kMs);
  EXPECT_EQ(t.activity.start_ns[1] + t.base_time_ns, kUnix + 41 * kMs);
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kOther, "jumps of the device records' clock"));
}

TEST_F(Recording, a_clock_stepped_back_is_told_apart_by_the_order_of_the_file) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.kernel("before", main, kDevice + 8 * kMs, kDevice + 9 * kMs, kMs).sync(20 * kMs, kUnix, kDevice + 20 * kMs);
  r.sync(21 * kMs, kUnix, kDevice + 5 * kMs);   // 16 ms back
  r.kernel("after", main, kDevice + 8 * kMs, kDevice + 9 * kMs, kMs).sync(40 * kMs, kUnix, kDevice + 24 * kMs).end();
  const Trace t = read(r);
  ASSERT_EQ(t.activity.size(), 2U);
  EXPECT_EQ(t.activity.start_ns[0] + t.base_time_ns, kUnix + 9 * kMs);
  EXPECT_EQ(t.activity.start_ns[1] + t.base_time_ns, kUnix + 25 * kMs);
}

TEST_F(Recording, what_was_written_around_a_step_back_is_on_its_side_of_it) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.sync(20 * kMs, kUnix, kDevice + 20 * kMs);
  r.kernel("late", main, kDevice + 15 * kMs, kDevice + 16 * kMs, kMs);
  r.kernel("before", main, kDevice + 22 * kMs, kDevice + 23 * kMs, kMs);
  r.kernel("after", main, kDevice + 9 * kMs, kDevice + 10 * kMs, kMs);   // 15 ms back at 24
  r.sync(26 * kMs, kUnix, kDevice + 11 * kMs).sync(50 * kMs, kUnix, kDevice + 35 * kMs).end();
  const Trace t = read(r);
  ASSERT_EQ(t.activity.size(), 3U);
  EXPECT_EQ(t.activity.start_ns[0] + t.base_time_ns, kUnix + 16 * kMs);
  EXPECT_EQ(t.activity.start_ns[1] + t.base_time_ns, kUnix + 23 * kMs);
  EXPECT_EQ(t.activity.start_ns[2] + t.base_time_ns, kUnix + 25 * kMs);
}

TEST_F(Recording, without_a_reading_cupti_s_clock_is_unix_time) {
  HandRecording r;
  r.process(100, 1, "node1").sync(5 * kMs, kUnix + 5 * kMs, 0);
  r.kernel("k", r.thread(100, 100), kUnix + 6 * kMs, kUnix + 7 * kMs, kMs).end();
  const Trace t = read(r);
  EXPECT_EQ(t.activity.start_ns[0] + t.base_time_ns, kUnix + 7 * kMs);
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kOther, "never read"));
}

TEST_F(Recording, several_windows_stay_apart_and_cut_the_ranges) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  for (int64_t step = 0; step < 10; ++step) {
    r.range(RangeOp::kPush, step * 10 * kMs, main, "forward", "profgpu");
    r.range(RangeOp::kPop, (step * 10 + 5) * kMs, main, "", "profgpu");
    r.range(RangeOp::kStep, (step + 1) * 10 * kMs, main, "", "profgpu", 0, static_cast<uint64_t>(step));
  }
  // Each window opens a little late.
  for (const int64_t first : {2, 7}) {
    r.window(WindowEvent::kOpen, first * 10 * kMs + 100'000, "steps");
    for (int64_t step = first; step < first + 2; ++step)
      r.kernel("k", main, kDevice + (step * 10 + 1) * kMs, kDevice + (step * 10 + 2) * kMs, kMs);
    r.window(WindowEvent::kClose, (first + 2) * 10 * kMs, "steps");
  }
  const Trace t = read(r.end());
  std::vector<std::string> steps;
  for (const std::string& a : annotations(t))
    if (a.starts_with("Profiler")) steps.push_back(a);
  EXPECT_EQ(steps, (std::vector<std::string>{"ProfilerStep#2 20 10", "ProfilerStep#3 30 10", "ProfilerStep#7 70 10",
                                             "ProfilerStep#8 80 10"}));
  ASSERT_EQ(t.windows.size(), 2U);
  EXPECT_LE(t.windows[0].end, t.windows[1].start);
  EXPECT_EQ(std::count(t.host.kind.begin(), t.host.kind.end(), HostKind::kAnnotation), 8);
}

TEST_F(Recording, copies_sets_waits_and_graphs_are_called_as_in_other_traces) {
  HandRecording r = begun();
  const uint32_t q = r.queue(0, 7), main = r.thread(100, 100);
  r.add(wire::Copy{kDevice, kMs, 4096, q, 1, 1, 1, 3, 1, 0, 0, 0});
  r.add(wire::Set{kDevice + kMs, kMs, 64, q, 2, 0, 3, 0, 0});
  r.add(wire::GraphLaunch{kDevice + 2 * kMs, kMs, q, 3, 12}).add(wire::Sync{kDevice, kMs, q, 4, 3, 0});
  r.add(wire::Overhead{kDevice, kMs, 1 << 16, main});
  const uint32_t call = r.string("cudaStreamSynchronize_ptsz_v3020");
  r.add(wire::Call{kDevice, kMs, call, main, 4, 0, 0});
  const Trace t = read(r.end());
  ASSERT_EQ(t.activity.size(), 3U);
  EXPECT_EQ(t.name(ActivityId(size_t{0})), "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(t.activity_args[t.activity.args[0].value].bytes, 4096);
  EXPECT_EQ(t.name(ActivityId(size_t{1})), "Memset (Device)");
  EXPECT_EQ(t.name(ActivityId(size_t{2})), "CUDA graph 12");
  ASSERT_EQ(t.syncs.size(), 1U);
  EXPECT_EQ(t.strings[t.syncs[0].name], "Stream Sync");
  ASSERT_EQ(t.host.size(), 2U);
  EXPECT_TRUE(t.strings.find("cudaStreamSynchronize").valid());
  EXPECT_TRUE(t.strings.find("Buffer Flush").valid());
}

TEST_F(Recording, a_launch_that_goes_through_the_driver_is_one_launch) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100), inner = r.string("cuLaunchKernel");
  r.kernel("k", main, kDevice, kDevice + kMs, kMs);
  r.add(wire::Call{kDevice + 1000, 2000, inner, main, r.last_correlation(), 1, 0});
  const Trace t = read(r.end());
  ASSERT_EQ(t.launching.size(), 1U);
  EXPECT_EQ(t.name(t.launching[0]), "cudaLaunchKernel");
  EXPECT_TRUE(t.issues.empty());
}

TEST_F(Recording, collectives_have_the_kernels_launched_from_their_enqueue) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  wire::CollectiveRow c;
  c.start_ns = 10 * kMs, c.duration_ns = 2 * kMs, c.communicator = 0xabcd, c.ranks = 8, c.sequence = 4;
  c.function = r.string("AllGather"), c.data_type = r.string("ncclBfloat16"), c.count = 1000, c.thread = main;
  r.add(c).kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", main, kDevice + 11 * kMs,
                  kDevice + 12 * kMs, kMs);
  const Trace t = read(r.end());
  ASSERT_EQ(t.collectives.size(), 1U);
  const Collective& found = t.collectives[0];
  EXPECT_TRUE(found.activity.valid());
  EXPECT_EQ(t.strings[found.name], "AllGather");
  EXPECT_EQ(t.strings[found.dtype], "Bfloat16");
  EXPECT_EQ(t.strings[found.group], "abcd");
  EXPECT_EQ(found.group_size, 8);
  EXPECT_EQ(found.in_elements, 1000);
  EXPECT_EQ(found.out_elements, 8000);
  EXPECT_EQ(found.sequence, 4);
}

TEST_F(Recording, collectives_launched_by_another_thread_are_matched_in_order) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100), nccl = r.thread(100, 101);
  for (int64_t i = 0; i < 3; ++i) {
    wire::CollectiveRow c;
    c.start_ns = i * 10 * kMs, c.duration_ns = kMs, c.ranks = 2, c.sequence = static_cast<uint64_t>(i), c.thread = main;
    c.function = r.string(i == 1 ? "ReduceScatter" : "AllReduce"), c.count = static_cast<uint64_t>(100 + i);
    r.add(c);
    const char* name = i == 1 ? "ncclDevKernel_ReduceScatter_Sum" : "ncclDevKernel_AllReduce_Sum";
    r.kernel(name, nccl, kDevice + (i * 10 + 2) * kMs, kDevice + (i * 10 + 3) * kMs, kMs);
  }
  const Trace t = read(r.end());
  ASSERT_EQ(t.collectives.size(), 3U);
  for (const Collective& c : t.collectives) {
    ASSERT_TRUE(c.activity.valid());
    EXPECT_EQ(t.activity.start_ns[c.activity.value] + t.base_time_ns - kUnix, (c.sequence * 10 + 3) * kMs);
  }
}

TEST_F(Recording, a_pair_names_the_other_and_its_own_place) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  const auto pair = [&](const char* function, int64_t at, int32_t peer) {
    wire::CollectiveRow c;
    c.start_ns = at, c.duration_ns = kMs, c.communicator = 0xabcd, c.rank = 1, c.ranks = 4, c.root_or_peer = peer;
    c.function = r.string(function), c.data_type = r.string("ncclInt8"), c.count = 64, c.thread = main;
    r.add(c);
  };
  pair("Send", 10 * kMs, 2);
  pair("Recv", 20 * kMs, 0);
  r.kernel("ncclDevKernel_SendRecv", main, kDevice + 11 * kMs, kDevice + 12 * kMs, kMs);
  const Trace t = read(r.end());
  ASSERT_EQ(t.collectives.size(), 2U);
  EXPECT_EQ(std::pair(t.collectives[0].destination, t.collectives[0].source), std::pair(2, -1));
  EXPECT_EQ(std::pair(t.collectives[1].destination, t.collectives[1].source), std::pair(-1, 0));
  EXPECT_EQ(t.collectives[0].group_rank, 1);
}

/// Ranges as NCCL gives them: a communicator, and what runs over it.
class NcclByRanges : public Recording {
 protected:
  static constexpr uint64_t kCommunicator = 0xfedcba9876543210;
  static constexpr uint64_t kMade = 1u << 24, kCall = kMade + 1, kOldCall = kMade + 2, kPair = kMade + 3;

  NcclByRanges() {
    const auto schema = [&](uint32_t id, uint64_t number, const std::vector<std::pair<const char*, uint64_t>>& fields) {
      r.add(wire::PayloadSchema{id, r.string("NCCL"), number, 0, wire::SchemaKind::kStatic, 0, 0});
      std::vector<wire::PayloadField> rows;
      for (uint32_t i = 0; i < fields.size(); ++i)
        rows.push_back({id, i, r.string(fields[i].first), 0, fields[i].second, 0, 0});
      r.add(rows);
    };
    const std::pair hash("NCCL communicator ID", kUint64), bytes("Message size [bytes]", kUint64);
    schema(1, kMade, {hash, {"No. of ranks", kInt32}, {"Rank", kInt32}});
    schema(2, kCall, {hash, bytes});
    schema(3, kOldCall, {bytes});
    schema(4, kPair, {hash, bytes, {"Peer rank", kInt32}});
  }
  void call(const char* name, int64_t at, uint64_t schema, const std::vector<uint64_t>& longs,
            const std::vector<int32_t>& ints = {}) {
    std::string data(reinterpret_cast<const char*>(longs.data()), longs.size() * sizeof(uint64_t));
    data.append(reinterpret_cast<const char*>(ints.data()), ints.size() * sizeof(int32_t));
    r.payload(++events, "NCCL", schema, data);
    const uint32_t text = r.string(name), domain = r.string("NCCL");
    r.add(wire::RangeEvent{at, main, text, domain, 0, RangeOp::kPush, wire::PayloadType::kExtended, 0, events});
    r.range(RangeOp::kPop, at + kMs, main, "", "NCCL");
  }
  void communicator() { call("ncclCommInitRank", 2 * kMs, kMade, {kCommunicator}, {8, 3}); }

  static constexpr uint64_t kInt32 = 15, kUint64 = 18;
  HandRecording r = begun();
  uint32_t main = r.thread(100, 100);
  uint64_t events = 0;
};

TEST_F(NcclByRanges, are_collectives_with_their_size_and_communicator) {
  communicator();
  call("ncclAllGather", 10 * kMs, kCall, {kCommunicator, 4096});
  r.kernel("ncclDevKernel_AllGather_RING_LL", main, kDevice + 10 * kMs, kDevice + 12 * kMs, kMs);
  call("ncclSend", 20 * kMs, kPair, {kCommunicator, 64}, {5});
  call("ncclGroupEnd", 30 * kMs, kCall, {kCommunicator, 1});
  const Trace t = read(r.end());
  ASSERT_EQ(t.collectives.size(), 2U);
  const Collective& gather = t.collectives[0];
  EXPECT_TRUE(gather.activity.valid());
  EXPECT_EQ(t.strings[gather.name], "AllGather");
  EXPECT_EQ(t.strings[gather.group], "fedcba9876543210");
  EXPECT_EQ(std::pair(gather.group_size, gather.group_rank), std::pair(8, 3));
  EXPECT_EQ(std::pair(gather.in_elements, gather.out_elements), std::pair(int64_t{4096}, int64_t{8 * 4096}));
  EXPECT_EQ(t.collectives[1].destination, 5);
}

TEST_F(NcclByRanges, without_a_communicator_have_their_size) {
  call("ncclAllReduce", 10 * kMs, kOldCall, {4096});
  call("ncclReduceScatter", 20 * kMs, kOldCall, {64});
  const Trace t = read(r.end());
  ASSERT_EQ(t.collectives.size(), 2U);
  EXPECT_EQ(t.collectives[0].in_elements, 4096);
  EXPECT_EQ(std::pair(t.collectives[1].in_elements, t.collectives[1].out_elements),
            std::pair(int64_t{-1}, int64_t{64}));
  EXPECT_EQ(t.strings[t.collectives[0].group], "");
}

TEST_F(NcclByRanges, are_ranges_only_where_the_plugin_recorded_the_calls) {
  communicator();
  call("ncclAllGather", 10 * kMs, kCall, {kCommunicator, 4096});
  wire::CollectiveRow c;
  c.start_ns = 10 * kMs, c.duration_ns = kMs, c.ranks = 8, c.function = r.string("AllGather"), c.thread = main;
  const Trace t = read(r.add(c).end());
  ASSERT_EQ(t.collectives.size(), 1U);
  EXPECT_EQ(t.name(t.collectives[0].host), "nccl:AllGather");
}

TEST_F(Recording, what_the_recorder_says_is_said) {
  HandRecording r = begun();
  r.kernel("k", r.thread(100, 100), kDevice, kDevice + kMs, kMs);
  r.add(wire::Drop{5, 16, wire::DropReason::kCupti, 30}).add(wire::Drop{6, 16, wire::DropReason::kCupti, 12});
  r.note(wire::Severity::kWarning, "another profiler has CUPTI").note(wire::Severity::kInfo, "CUPTI 12.4");
  const std::string whole = r.bytes();
  r.raw(std::string_view(whole).substr(16, 40));   // half a chunk
  const Trace t = read(r);
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kDropped, "missing kernels: 42; CUPTI dropped them"));
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kOther, "another profiler has CUPTI"));
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kNote, "CUPTI 12.4"));
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kTruncated, "the recording has no end"));
}

TEST_F(Recording, names_that_are_no_utf_8_are_mended_once_and_counted) {
  HandRecording r = begun();
  r.property("command", "train\x88.py");
  r.kernel("k\x81", r.thread(100, 100, "main\xff"), kDevice, kDevice + kMs, kMs);
  r.kernel("k\x81", r.thread(100, 100), kDevice + 2 * kMs, kDevice + 3 * kMs, kMs);
  const Trace t = read(r);
  EXPECT_EQ(t.name(ActivityId(0)), "k\uFFFD");
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kInvalidText, "names that are not valid UTF-8: 3"));
  for (uint32_t i = 0; i < t.strings.size(); ++i) {
    std::string text(t.strings[StringId(i)]);
    EXPECT_EQ(replace_invalid_utf8(text), 0) << text;
  }
}

TEST_F(Recording, of_ranges_alone_has_an_end_too) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.range(RangeOp::kPush, kMs, main, "decode").range(RangeOp::kPop, 2 * kMs, main);
  EXPECT_TRUE(has_issue(read(r).issues, TraceIssueKind::kTruncated, "the recording has no end"));
  EXPECT_FALSE(has_issue(read(r.end()).issues, TraceIssueKind::kTruncated));
}

TEST_F(Recording, an_empty_one_says_why) {
  HandRecording r = begun();
  r.note(wire::Severity::kWarning, "no GPU: cuInit was never called").end();
  const auto imported = import_file(r.write(path("empty.pgt")), {});
  ASSERT_FALSE(imported);
  EXPECT_NE(imported.error().message.find("cuInit was never called"), std::string::npos);
  const auto bare = import_file(HandRecording().write(path("bare.pgt")), {});
  ASSERT_FALSE(bare);
  EXPECT_NE(bare.error().message.find("killed before anything was written"), std::string::npos);
}

TEST_F(Recording, newer_versions_and_text_copies_are_refused_with_a_reason) {
  const auto newer = import_file(HandRecording(2).write(path("newer.pgt")), {});
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("format version 2"), std::string::npos);
  HandRecording r;
  std::string text = r.bytes();
  text.erase(4, 1);   // \r\n became \n
  std::FILE* f = std::fopen(path("text.pgt").c_str(), "wb");
  std::fwrite(text.data(), 1, text.size(), f);
  std::fclose(f);
  const auto converted = import_file(path("text.pgt"), {});
  ASSERT_FALSE(converted);
  EXPECT_NE(converted.error().message.find("copied as text"), std::string::npos);
}

TEST_F(Recording, times_and_numbers_beyond_reason_are_left_out_and_counted) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100);
  r.kernel("good", main, kDevice, kDevice + kMs, kMs).kernel("negative", main, kDevice, kDevice, -5);
  r.kernel("late", main, kDevice, INT64_MAX, 5).kernel("long", main, kDevice, kDevice, INT64_MAX);
  r.range(RangeOp::kPush, INT64_MIN, main, "x").add(wire::Kernel{kDevice, 10, 999999, 77, 5, 88, 0, 0});
  const Trace t = read(r.end());
  EXPECT_EQ(t.activity.size(), 2U);
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kNegativeDuration));
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kOutOfRange));
}

TEST_F(Recording, compressed_ones_are_read_and_many_chunks_on_several_threads) {
  HandRecording r = begun();
  const uint32_t main = r.thread(100, 100), q = r.queue(0, 7), name = r.string("k");
  const uint32_t call = r.string("cudaLaunchKernel_v7000");
  uint32_t correlation = 0;
  for (int64_t block = 0; block < 40; ++block) {
    std::vector<wire::Kernel> kernels;
    std::vector<wire::Call> calls;
    for (int64_t i = 0; i < 500; ++i) {
      const int64_t at = kDevice + (block * 500 + i) * 10'000;
      calls.push_back({at, 3000, call, main, ++correlation, 0, 0});
      kernels.push_back({at + 4000, 5000, name, q, correlation, 0, 0, 0});
    }
    r.add(kernels).add(calls);
  }
  r.end().write(path("big.pgt"));
  ImportOptions options;
  options.threads = 4;
  const auto imported = import_file(path("big.pgt"), options);
  ASSERT_TRUE(imported);
  const Trace& t = imported->trace;
  ASSERT_EQ(t.activity.size(), 20000U);
  EXPECT_EQ(t.events, 40000);
  for (uint32_t i = 0; i < 20000; ++i) {
    ASSERT_TRUE(t.activity.launch[i].valid());
    ASSERT_EQ(t.activity.start_ns[i] - t.host.start_ns[t.activity.launch[i].value], 4000);
  }
}

TEST(RecordingNames, calls_lose_their_version_and_default_stream) {
  EXPECT_EQ(call_name("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(call_name("cudaLaunchKernelExC_ptsz_v11060"), "cudaLaunchKernelExC");
  EXPECT_EQ(call_name("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(call_name("cudaMemcpy_ptds_v7000"), "cudaMemcpy");
}

TEST(RecordingNames, names_that_are_not_mangled_stay) {
  EXPECT_EQ(demangled("ampere_sgemm_128x64_tn"), "ampere_sgemm_128x64_tn");
  EXPECT_EQ(demangled("_Zzzz"), "_Zzzz");
  EXPECT_EQ(demangled("_ZN2at6native4fillEv"), "at::native::fill()");
}

}  // namespace
}  // namespace profgpu
