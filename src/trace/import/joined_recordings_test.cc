// Recordings of several processes and beside traces: what is joined to one rank, and what is another.
#include <gtest/gtest.h>

#include <fstream>

#include "support/recording_fixture.h"
#include "trace/import/recording_file.h"

namespace profgpu {
namespace {

using wire::RangeOp;
using wire::WindowEvent;

class JoinedRecordings : public RecordingTest {};

/// A recording that made way for PyTorch's profiler from 30 to 80 ms, and traces of the same process.
class RecordingBesideTrace : public RecordingTest {
 protected:
  void SetUp() override {
    HandRecording r = begun(101);
    const uint32_t main = r.thread(101, 101, "python");
    r.window(WindowEvent::kOpen, 0).range(RangeOp::kPush, kMs, main, "epoch");
    for (const int64_t step : {0, 1, 2, 8, 9}) {
      if (step == 8) r.window(WindowEvent::kClose, 30 * kMs, "torch").window(WindowEvent::kOpen, 80 * kMs, "torch");
      r.kernel("recorded", main, kDevice + (step * 10 + 2) * kMs, kDevice + (step * 10 + 3) * kMs, 4 * kMs);
    }
    for (uint64_t step = 0; step < 10; ++step)
      r.range(RangeOp::kStep, static_cast<int64_t>(step + 1) * 10 * kMs, main, "", "profgpu", 0, step);
    r.range(RangeOp::kPop, 99 * kMs, main).window(WindowEvent::kClose, 100 * kMs, "end");
    r.sync(100 * kMs, kUnix + 100 * kMs, kDevice + 100 * kMs).end().write(path("node1-101.pgt"));
  }
  /// Step 5, from 50 to 60 ms: an operator, and with `kernel` what it launched.
  void trace(bool kernel, const std::string& pid = "101", const std::string& host = "node1") {
    std::ofstream(path("trace_101.json"))
        << R"({"host_name": ")" << host << R"(", "baseTimeNanoseconds": 1790000000000000000, "traceEvents": [
      {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": )"
        << pid << R"(, "tid": 101, "ts": 50000, "dur": 10000},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": )"
        << pid << R"(, "tid": 101, "ts": 51000, "dur": 2000},
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": )"
        << pid << R"(, "tid": 101, "ts": 51500, "dur": 10, "args": {"correlation": 3}})"
        << (kernel ? R"(, {"ph": "X", "cat": "kernel", "name": "traced", "pid": 0, "tid": 7, "ts": 53000, "dur": 4000,
                          "args": {"device": 0, "context": 1, "stream": 7, "correlation": 3}})"
                   : "")
        << "]}";
  }
  Trace joined() {
    inputs_ = read_inputs({folder_.string()}, {});
    EXPECT_TRUE(inputs_) << (inputs_ ? "" : inputs_.error().message);
    if (!inputs_) return {};
    EXPECT_EQ(inputs_->ranks.size(), 1U);
    return std::move(inputs_->ranks[0].trace);
  }
  Result<Inputs> inputs_ = Error{};
};

TEST_F(RecordingBesideTrace, goes_on_around_it) {
  trace(true);
  const Trace t = joined();
  EXPECT_TRUE(has_issue(inputs_->sources[0].issues, TraceIssueKind::kNote, "joined with the recording"));
  std::vector<std::string> device;
  for (uint32_t i = 0; i < t.activity.size(); ++i) device.emplace_back(t.name(ActivityId(i)));
  EXPECT_EQ(device, (std::vector<std::string>{"recorded", "recorded", "recorded", "traced", "recorded", "recorded"}));
  EXPECT_EQ(t.queues.size(), 1U);
  for (uint32_t i = 0; i < t.activity.size(); ++i) {
    ASSERT_TRUE(t.activity.launch[i].valid());
    EXPECT_LE(t.host.start_ns[t.activity.launch[i].value], t.activity.start_ns[i]);
  }
  const auto around_launch = [&](size_t i) {
    const HostId parent = t.host.parent[t.activity.launch[i].value];
    return parent.valid() ? t.name(parent) : "nothing";
  };
  EXPECT_EQ(around_launch(0), "epoch");
  EXPECT_EQ(around_launch(1), "ProfilerStep#1");
  EXPECT_EQ(around_launch(3), "aten::mm");
  EXPECT_EQ(around_launch(5), "ProfilerStep#9");
  std::vector<std::string> steps;
  for (const std::string& a : annotations(t))
    if (a.starts_with("Profiler")) steps.push_back(a);
  EXPECT_EQ(steps, (std::vector<std::string>{"ProfilerStep#1 10 10", "ProfilerStep#2 20 10", "ProfilerStep#5 50 10",
                                             "ProfilerStep#8 80 10", "ProfilerStep#9 90 10"}));
  ASSERT_EQ(t.windows.size(), 3U);
  for (size_t w = 1; w < t.windows.size(); ++w) EXPECT_LE(t.windows[w - 1].end, t.windows[w].start);
  const auto main = std::find_if(t.threads.begin(), t.threads.end(), [](const Thread& x) { return x.id == "101"; });
  ASSERT_NE(main, t.threads.end());
  EXPECT_EQ(main->begin.value, 0U);
  EXPECT_EQ(main->end.value, t.host.size());
  EXPECT_TRUE(std::is_sorted(t.host.start_ns.begin(), t.host.start_ns.end()));
}

TEST_F(RecordingBesideTrace, that_knows_no_device_it_stays_whole) {
  trace(false);
  const Trace t = joined();
  EXPECT_EQ(t.activity.size(), 5U);
  EXPECT_EQ(t.windows.size(), 2U);
  EXPECT_TRUE(has_issue(inputs_->sources[0].issues, TraceIssueKind::kNote, "no device activity"));
}

TEST_F(RecordingBesideTrace, of_another_process_or_host_it_is_another_rank) {
  for (const auto& [pid, host] : {std::pair("102", "node1"), std::pair("101", "node2")}) {
    trace(true, pid, host);
    const auto inputs = read_inputs({folder_.string()}, {});
    ASSERT_TRUE(inputs) << inputs.error().message;
    EXPECT_EQ(inputs->ranks.size(), 2U);
  }
}

// Nothing of a device is recorded: ranges and steps go on all the time, the trace's own stand in its time.
TEST_F(JoinedRecordings, of_ranges_alone_goes_on_around_a_trace_of_its_process) {
  HandRecording r = begun(101);
  const uint32_t main = r.thread(101, 101);
  r.range(RangeOp::kPush, 0, main, "epoch");
  for (int64_t step = 0; step < 6; ++step) {
    r.range(RangeOp::kPush, (step * 10 + 1) * kMs, main, "forward", "profgpu");
    r.range(RangeOp::kPop, (step * 10 + 9) * kMs, main, "", "profgpu");
    r.range(RangeOp::kStep, (step + 1) * 10 * kMs, main, "", "profgpu", 0, static_cast<uint64_t>(step));
  }
  r.range(RangeOp::kPop, 60 * kMs, main).end().write(path("node1-101.pgt"));
  // Begins within step 1, where it does not say what step it is, and ends with step 2.
  std::ofstream(path("trace_101.json")) << R"({"baseTimeNanoseconds": 1790000000000000000, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 101, "tid": 101, "ts": 15000, "dur": 1000},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 101, "tid": 101, "ts": 20000, "dur": 10000}]})";
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->ranks.size(), 1U);
  const Trace& t = inputs->ranks[0].trace;
  EXPECT_EQ(annotations(t), (std::vector<std::string>{
      "epoch 0 15", "ProfilerStep#0 1 9", "forward 1 8", "forward 11 4", "ProfilerStep#2 20 10", "ProfilerStep#3 30 10",
      "forward 31 8", "ProfilerStep#4 40 10", "forward 41 8", "ProfilerStep#5 50 10", "forward 51 8"}));
}

TEST_F(JoinedRecordings, that_is_there_twice_is_refused_and_named_twice_is_read_once) {
  HandRecording r = begun();
  r.kernel("k", r.thread(100, 100), kDevice, kDevice + kMs, kMs).end();
  r.write(path("node1-100.pgt"));
  r.write(path("renamed.pgt"));
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_FALSE(inputs);
  EXPECT_NE(inputs.error().hint.find("a copy of the other"), std::string::npos);
  std::filesystem::remove(path("renamed.pgt"));
  const auto once = read_inputs({folder_.string(), path("node1-100.pgt")}, {});
  ASSERT_TRUE(once);
  EXPECT_EQ(once->sources.size(), 1U);
}

TEST_F(JoinedRecordings, processes_of_a_rank_become_one_trace) {
  HandRecording trainer = begun(100, 0), worker = begun(101, 0, 100);
  trainer.kernel("a", trainer.thread(100, 100), kDevice, kDevice + kMs, kMs).end();
  const uint32_t thread = worker.thread(101, 101);
  // The same correlation and stream as the trainer's.
  worker.kernel("b", thread, kDevice + 2 * kMs, kDevice + 3 * kMs, kMs);
  worker.range(RangeOp::kPush, 4 * kMs, thread, "decode").range(RangeOp::kPop, 5 * kMs, thread);
  trainer.write(path("node1-rank0-100.pgt"));
  worker.write(path("node1-rank0-101.pgt"));
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->ranks.size(), 1U);
  EXPECT_EQ(inputs->sources.size(), 2U);
  const Trace& t = inputs->ranks[0].trace;
  ASSERT_EQ(t.activity.size(), 2U);
  for (uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(t.activity.launch[i].valid());
  EXPECT_EQ(t.threads[t.host.thread[t.activity.launch[0].value].value].process, "100");
  EXPECT_EQ(t.threads[t.host.thread[t.activity.launch[1].value].value].process, "101");
  EXPECT_EQ(t.queues.size(), 2U);
  EXPECT_EQ(annotations(t), (std::vector<std::string>{"decode 4 1"}));
  EXPECT_FALSE(has_issue(t.issues, TraceIssueKind::kDuplicateCorrelation));
}

TEST_F(JoinedRecordings, a_folder_of_a_whole_job) {
  for (int rank = 0; rank < 2; ++rank) {
    const auto pid = static_cast<uint32_t>(100 + rank);
    HandRecording r = begun(pid, rank, 50);
    const uint32_t thread = rank == 0 ? r.thread(pid, 7, "main") : r.thread(pid, pid);
    r.kernel("k", thread, kDevice, kDevice + kMs, kMs).end();
    r.write(path("node1-rank" + std::to_string(rank) + "-" + std::to_string(pid) + ".pgt"));
  }
  begun(50).end().write(path("node1-50.pgt"));   // torchrun
  HandRecording host;
  host.property("mode", "host").property("host", "node1").sync(0, kUnix, 0);
  for (int i = 0; i < 2; ++i)
    host.add(wire::ThreadSample{5 * kMs, host.thread(static_cast<uint32_t>(100 + i), 7, "before exec"), 'S', 232, 100,
                                200})
        .add(wire::ThreadWait{4 * kMs, (i + 2) * kMs, host.thread(static_cast<uint32_t>(100 + i), 7)});
  host.end().write(path("node1-host.pgt"));
  for (const char* name : {"session.json", "session-node2.json", "summary.json"}) {
    std::FILE* f = std::fopen(path(name).c_str(), "wb");
    std::fputs(
        name == std::string_view("session.json")
            ? R"({"host": "node1", "clock": {"start": {"synchronised": true, "max_error_ns": 900000}, "end": null}})"
            : "{\"schema\": \"x\"}",
        f);
    std::fclose(f);
  }
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->ranks.size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(inputs->ranks[static_cast<size_t>(rank)].rank, rank);
    const Trace& t = inputs->ranks[static_cast<size_t>(rank)].trace;
    ASSERT_EQ(t.thread_samples.size(), 1U);
    EXPECT_EQ(t.thread_samples[0].blocked_ns, -1);
    ASSERT_EQ(t.thread_waits.size(), 1U);
    EXPECT_EQ(t.thread_waits[0].duration_ns, (rank + 2) * kMs);
    EXPECT_EQ(t.thread_samples[0].time_ns - t.thread_waits[0].start_ns, 1 * kMs);
    EXPECT_EQ(t.thread_waits[0].thread, t.thread_samples[0].thread);
    ASSERT_TRUE(t.clock);
    EXPECT_TRUE(t.clock->synchronised);
    EXPECT_EQ(t.clock->error_ns, 900'000);
    const Thread& sampled = t.threads[t.thread_samples[0].thread.value];
    EXPECT_EQ(sampled.process, std::to_string(100 + rank));
    EXPECT_EQ(sampled.name, rank == 0 ? "main" : "before exec");   // its own name, where the process says one
  }
  for (const InputSource& s : inputs->sources)
    EXPECT_TRUE(s.issues.empty()) << s.path << ": " << s.issues.front().text;
}

TEST_F(JoinedRecordings, a_command_that_ended_before_it_was_looked_at) {
  HandRecording host;
  host.property("mode", "host").property("host", "node1").sync(0, kUnix, 0).end().write(path("node1-host.pgt"));
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_FALSE(inputs);
  EXPECT_NE(inputs.error().message.find("no process was recorded"), std::string::npos) << inputs.error().message;
}

TEST_F(JoinedRecordings, waits_of_threads_that_cannot_be) {
  HandRecording r = begun(100);
  const uint32_t thread = r.thread(100, 100);
  r.add(wire::ThreadSample{kMs, thread, 'S', 0, 1, 2, 3, 4, 5, 6});
  r.add(std::vector<wire::ThreadWait>{{9 * kMs, kMs, thread},
                                      {2 * kMs, kMs, thread},
                                      {kMs, -1, thread},
                                      {kMs, INT64_MAX, thread},
                                      {INT64_MAX, kMs, thread},
                                      {INT64_MIN, kMs, thread},
                                      {3 * kMs, kMs, 99}});
  r.add(wire::Drop{5 * kMs, 29, wire::DropReason::kRingFull, 7}).end();
  const Trace t = read(r);
  ASSERT_EQ(t.thread_waits.size(), 3U) << "one is of a thread without a name";
  EXPECT_TRUE(
      std::is_sorted(t.thread_waits.begin(), t.thread_waits.end(), [](const ThreadWait& a, const ThreadWait& b) {
        return a.thread != b.thread ? a.thread < b.thread : a.start_ns < b.start_ns;
      }));
  EXPECT_EQ(t.thread_samples[0].blocked_ns, 4);
  EXPECT_EQ(t.thread_samples[0].waits, 6);
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kNegativeDuration));
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kOutOfRange));
  EXPECT_TRUE(has_issue(t.issues, TraceIssueKind::kDropped));
}

TEST_F(JoinedRecordings, processes_without_a_rank) {
  HandRecording shell = begun(10), one = begun(20, -1, 10), two = begun(30, -1, 10), child = begun(31, -1, 30);
  const auto thread = [](HandRecording& r, uint32_t pid) { return r.thread(pid, pid); };
  one.kernel("k", thread(one, 20), kDevice, kDevice + kMs, kMs).end();
  two.kernel("k", thread(two, 30), kDevice, kDevice + kMs, kMs).end();
  child.range(RangeOp::kMark, kMs, thread(child, 31), "loaded");
  shell.range(RangeOp::kMark, kMs, thread(shell, 10), "started").end();
  RecordingFiles files;
  for (const HandRecording* r : {&shell, &one, &two, &child}) {
    auto file = open_recording(r->write(path(std::to_string(files.size()) + ".pgt")));
    ASSERT_TRUE(file);
    files.push_back(std::make_shared<const RecordingFile>(*std::move(file)));
  }
  const auto groups = grouped(files);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].processes, (std::vector<size_t>{1}));
  EXPECT_EQ(groups[1].processes, (std::vector<size_t>{2, 3}));
}

TEST_F(JoinedRecordings, beside_a_pytorch_trace_of_the_rank_the_trace_is_taken) {
  begun(100, 0).kernel("k", 0, kDevice, kDevice + kMs, kMs).end().write(path("node1-rank0-100.pgt"));
  std::FILE* f = std::fopen(path("torch-rank0.json").c_str(), "wb");
  std::fputs(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "from torch", "pid": 0, "tid": 7, "ts": 1,)"
             R"( "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 1}}]})", f);
  std::fclose(f);
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->ranks.size(), 1U);
  EXPECT_EQ(inputs->ranks[0].trace.name(ActivityId(size_t{0})), "from torch");
  bool said = false;
  for (const InputSource& s : inputs->sources) said |= has_issue(s.issues, TraceIssueKind::kNote, "replaces the recording");
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace profgpu
