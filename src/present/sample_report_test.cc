#include "present/sample_report_test.h"

namespace profgpu {
namespace {

constexpr int64_t kEpoch = 1'718'000'000'000'000'123;  // ns: a real trace's clock

Table devices_table() {
  return {{"id", "name", "span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "memory_ns",
           "exposed_communication_ns", "exposed_memory_ns", "overlap_pct", "utilization_pct"},
          {{0, "Tesla V100-DGXS-32GB", 1'050'000'000, 636'000'000, 414'000'000, 633'000'000, 0, 3'200'000, 0, 2'900'000,
            Value(), 60.571}}};
}

Table steps_table() {
  Table t{{"name", "index", "start_ns", "duration_ns", "device", "device_busy_ns", "device_idle_ns", "warmup"}, {}};
  int64_t start = kEpoch;
  for (int i = 0; i < 6; ++i) {
    const int64_t duration = i == 0 ? 402'000'000 : 175'000'000 + i * 500'000;
    t.rows.push_back({"ProfilerStep#" + std::to_string(i), i, start, duration, 0, 106'600'000, duration - 106'600'000,
                      i == 0});
    start += duration;
  }
  return t;
}

Table phases_table() {
  return {{"name", "wall_ns", "wall_pct", "device_busy_ns"},
          {{"data_loading", 418'900'000, 39.7, 0},
           {"forward", 168'800'000, 16.0, 201'000'000},
           {"backward", 389'300'000, 36.9, 390'000'000},
           {"optimizer", 70'700'000, 6.7, 45'000'000},
           {"communication", 0, 0.0, 0},
           {"other", 8'400'000, 0.8, 0}}};
}

Table gaps_table() {
  return {{"start_ns", "duration_ns", "after", "before", "host"},
          {{kEpoch + 1'000'000, 71'400'000, "Memcpy HtoD", "cudnn_relu",
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
           {kEpoch + 600'123'456, 69'800'000, "Memcpy HtoD", "cudnn_relu", Value()}}};
}

Table idle_table() {
  return {{"device", "cause", "total_ns", "span_pct", "count", "longest"},
          {{0, "launch_latency", 11'500'000, 1.1, 1234, Table{gaps_table().columns, {}}},
           {0, "data_loading", 379'000'000, 36.1, 6, gaps_table()},
           {0, "host_bound", 23'500'000, 2.2, 412, Table{gaps_table().columns, {}}}}};
}

std::vector<Value> kernel(const char* name, const char* short_name, const char* category, int64_t calls, int64_t total,
                          double pct, Value tensor_cores) {
  const double mean = static_cast<double>(total) / static_cast<double>(calls);
  return {0,    name,        short_name,  "compute", category, calls, total,
          mean, mean * 0.25, mean * 0.97, mean * 2,  mean * 3, 12.5,  pct, std::move(tensor_cores)};
}

Table kernels_table() {
  Table t{{"device", "name", "short_name", "kind", "category", "count", "total_ns", "mean_ns", "min_ns", "median_ns",
           "p95_ns", "max_ns", "stddev_ns", "kernel_pct", "tensor_cores"},
          {}};
  t.rows = {kernel("volta_scudnn_128x128_relu_small_nn_v1", "volta_scudnn_128x128_relu_small_nn_v1", "convolution", 180,
                   152'300'000, 23.9, false),
            kernel("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float)",
                   "cudnn::bn_bw_1C11_kernel_new", "normalization", 318, 88'100'000, 13.8, Value()),
            kernel("void at::native::vectorized_elementwise_kernel<4, at::native::threshold_kernel_impl<float>(…)>",
                   "vectorized_elementwise: threshold", "elementwise", 1'960, 61'000'000, 9.6, Value()),
            kernel("volta_sgemm_128x64_nt", "volta_sgemm_128x64_nt", "gemm", 12, 8'400'000, 1.3, false),
            kernel("Memset (Device)", "Memset (Device)", "other", 3'204, 1'900'000, 0.3, Value())};
  return t;
}

Table ops_table() {
  return {{"name", "calls", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns", "flops"},
          {{"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 6, 418'900'000, 401'000'000, 0, 0, Value()},
           {"aten::cudnn_convolution", 318, 41'200'000, 38'700'000, 152'300'000, 152'300'000, 24'600'000'000},
           {"aten::add_", 5'796, 30'100'000, 22'900'000, 61'000'000, 61'000'000, Value()}}};
}

Record launch_record() {
  Record r;
  r.add("launches", 15'204).add("median_latency_ns", 12'345.5).add("p95_latency_ns", Value());
  r.add("short_kernels", 483).add("short_kernel_pct", 3.2).add("median_queue_depth", 41.0);
  return r;
}

Record memory_record() {
  Record r;
  r.add("peak_allocated_bytes", int64_t{17'200'000'000}).add("peak_reserved_bytes", int64_t{18'500'000'000});
  r.add("capacity_bytes", int64_t{34'000'000'000}).add("growth_bytes_per_step", 0.0);
  Table timeline{{"time_ns", "allocated_bytes"}, {}};
  for (int64_t i = 0; i < 60; ++i) timeline.rows.push_back({kEpoch + i * 5'000, (i % 20 + 1) * 860'000'000});
  r.add("timeline", timeline);
  return r;
}

RankReport sample_rank() {
  RankReport rank;
  rank.device_names = {"Tesla V100-DGXS-32GB"};
  rank.sections = {{"devices", "Devices", devices_table()},   {"steps", "Steps", steps_table()},
                   {"phases", "Phases", phases_table()},      {"idle", "Idle time by cause", idle_table()},
                   {"kernels", "Kernels", kernels_table()},   {"ops", "Operators", ops_table()},
                   {"launch", "Launches", launch_record()},   {"collectives", "Collectives", Table{{"name"}, {}}},
                   {"memory", "Memory", memory_record()}};
  return rank;
}

std::vector<Finding> sample_findings() {
  Finding loading{"data-loading-bound", Severity::kCritical, {0}, 39.7, 10, "%", {}, {}, {}, 340'000'000, 38.6, {}};
  loading.what = "one process decodes every batch while the GPU idles";
  loading.why = "The loader has no workers, so each batch is made by the thread that trains.";
  loading.fix = {"DataLoader(…, num_workers=4, pin_memory=True, persistent_workers=True)", "decode on the GPU"};
  loading.evidence = {"seen in 6 of 6 steps; longest wait 71.4 ms in "
                      "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"};
  Finding precision{"full-precision-gemm", Severity::kWarning, {0}, 84, 50, "%", {}, {}, {}, {}, {}, {}};
  precision.what = "84 % of convolution and matrix time runs without tensor cores";
  precision.fix = {"with torch.autocast(\"cuda\", dtype=torch.float16): …"};
  Finding optimizer{"unfused-optimizer", Severity::kInfo, {0}, 6.7, 5, "%", {}, {}, {}, {}, {}, {}};
  optimizer.what = "483 small kernels a step in Optimizer.step#SGD";
  optimizer.fix = {"torch.optim.SGD(…, fused=True)"};
  optimizer.evidence = {"mean kernel 4.1 µs"};
  return {loading, precision, optimizer};
}

std::vector<Check> sample_checks() {
  return {{"gpu-utilization", "Is the GPU busy?", Verdict::kFail, 60.6, 80, "GPU busy 60.6 % (over 80)"},
          {"data-loading", "Does loading keep up?", Verdict::kFail, 39.7, 10, "data loading 39.7 % (under 10)"},
          {"memory-headroom", "Is memory left?", Verdict::kPass, 41, 10, "memory headroom 41 % (over 10)"},
          {"communication", "Is it hidden?", Verdict::kUnknown, {}, 20, "communication (one GPU)"},
          {"mixed-precision", "Are tensor cores used?", Verdict::kFail, {}, {}, "mixed precision"},
          {"compiled", "Is the model compiled?", Verdict::kFail, {}, {}, "torch.compile"},
          {"fused-optimizer", "Is the optimizer fused?", Verdict::kFail, {}, {}, "fused optimizer"},
          {"gradient-accumulation", "Is it used?", Verdict::kUnknown, {}, {}, ""}};
}

Table stragglers_table(const char* host) {
  const Table metrics{{"metric", "late", "others_median"},
                      {{"data_loading_ns", 15'600'000.0, 3'300'000.0}, {"kernels", 160.0, 160.0}, {"sm_clock_mhz", Value(), 1'980.0}}};
  return {{"rank", "excess_ns_per_step", "excess_pct", "kind", "host", "together", "steps_measured", "steps_late",
           "late_steps", "worst_step", "worst_step_excess_ns", "evidence", "side_by_side"},
          {{2, 12'300'000, 7.0, "slow_input", host, List{}, 5, 4, List{1, 2, 4, 5}, 4, 14'000'000,
            List{"data loading 15.6 ms a step, others 3.30 ms"}, metrics}}};
}

Table ways_table(const char* words) {
  Record detail;
  detail.add("told_by", "pattern").add("hosts_per_group", 2).add("buckets_per_step", 5.0);
  detail.add("median_bucket_bytes", 25'200'000).add("last_bucket_tail_ns", 568'775);
  return {{"kind", "words", "group_size", "groups", "calls_per_step", "bytes_per_step", "communication_ns_per_step",
           "exposed_ns_per_step", "overlap_pct", "detail"},
          {{"ddp", words, 4, 1, 5.0, 203'600'000, 20'000'000, 9'000'000, 55.0, detail}}};
}

Record path_record(const char* call) {
  Record path, longest;
  const Table segments{{"rank", "kind", "start_ns", "duration_ns", "call"},
                       {{2, "data_loading", kEpoch, 30'000'000, Value()},
                        {2, "compute", kEpoch + 30'000'000, 140'000'000, Value()},
                        {0, "communication", kEpoch + 170'000'000, 9'000'000, call}}};
  longest.add("step", 4).add("start_ns", kEpoch).add("duration_ns", 179'000'000).add("segments", segments).add("segments_left_out", 0);
  path.add("steps", 5).add("duration_ns", 880'000'000);
  path.add("by_kind", Table{{"kind", "total_ns", "pct"},
                            {{"compute", 700'000'000, 79.5}, {"communication", 180'000'000, 20.5}}});
  path.add("by_rank", Table{{"rank", "total_ns", "pct"}, {{2, 836'000'000, 95.0}, {0, 44'000'000, 5.0}}});
  return path.add("longest_step", longest).add("ranks_without", List{3});
}

// All names in it are `name`, where it is not null.
Record cluster_record(const Record& means, const char* name) {
  const auto text = [&](const char* otherwise) { return name ? name : otherwise; };
  Record cluster;
  cluster.add("ranks", 4).add("step_mean_ns_by_rank", means).add("step_spread_pct", 0.2);
  cluster.add("stragglers", stragglers_table(text("node-b")));
  cluster.add("clocks", Table{{"rank", "offset_ns", "error_ns", "method", "drift_ppm"},
                              {{0, 0, 0, "reference", 0.0},
                               {1, 0, 200, "same host", 0.0},
                               {2, -3'001'153, 1'586, "collectives", 20.0},
                               {3, 0, Value(), text("none"), 0.0}}});
  cluster.add("critical_path", path_record(text("all_reduce")));
  cluster.add("what_if", Table{{"change", "ranks", "step_ns", "saved_ns_per_step", "saved_pct", "lower_bound"},
                               {{"communication_free", List{}, 167'000'000, 9'000'000, 5.1, true},
                                {"host_bound_free", List{}, 175'900'000, 100'000, 0.1, false},
                                {"straggler_median", List{2}, 163'900'000, 12'100'000, 6.9, false}}});
  cluster.add("parallelism", ways_table(text("data parallel (DDP): gradients all-reduced in buckets")));
  cluster.add("collectives", Table{{"name", "group_size", "spans_hosts", "calls", "message_bytes", "wait_ns", "median_wait_ns",
                                    "wait_is_lower_bound", "transfer_ns", "busbw_gbps", "link_pct"},
                                   {{text("all_reduce"), 4, true, 25, 25'200'000, 300'000'000, 1'769'650, true,
                                     127'600, 345.9, Value()}}});
  cluster.add("pairs", Table{{"from", "to", "spans_hosts", "calls", "message_bytes", "receiver_wait_ns", "sender_wait_ns",
                              "transfer_ns", "bandwidth_gbps"},
                             {{0, 2, Value(), 20, 16'777'216, 13'200'000, 0, 1'080'000, 311.0}}});
  const Table missing{{"rank", "kind", "name", "process_group", "number", "step", "calls", "first_ns", "others"},
                      {{1, "never_arrived", text("all_reduce"), text("0"), 1'234, 5, 1, kEpoch, 2},
                       {3, "never_arrived", text("all_reduce"), text("0"), 1'234, 5, 1, kEpoch, 2},
                       {0, "missing", text("all_gather"), text("1"), 3, Value(), 2, kEpoch + 1, 1}}};
  return cluster.add("missing", missing).add("notes", List{text("rank 3: nothing ties its clock to rank 0's")});
}

}  // namespace

Report sample_report() {
  Report r;
  r.inputs = {{"worker0.pt.trace.json.gz", "kineto", "PyTorch trace", 7'400'000, 75'718, 0, {}}};
  r.ranks = {sample_rank()};
  r.findings = sample_findings();
  r.checklist = sample_checks();
  r.verdict =
      "The GPU waits for data: loading takes 40 % of each step. Without the wait a step would take about 108 ms "
      "instead of 176 (1.6 times as fast).";
  r.measured_steps = 5;
  r.warmup_steps = 1;
  r.next = {"profgpu explain data-loading-bound", "profgpu analyze worker0.pt.trace.json.gz --section idle"};
  return r;
}

Report cpu_only_report() {
  Report r = sample_report();
  RankReport& rank = r.ranks.front();
  rank.device_names.clear();
  for (Section& section : rank.sections) {
    if (section.name == "devices") section.content = Table{devices_table().columns, {}};
    if (section.name == "idle") section.content = Table{idle_table().columns, {}};
    if (section.name == "kernels") section.content = Table{kernels_table().columns, {}};
    if (section.name == "ops")
      section.content = Table{{"name", "calls", "cpu_total_ns", "cpu_self_ns", "device_total_ns"},
                              {{"aten::addmm", 12, 5'000'000, 4'000'000, Value()}}};
  }
  r.inputs.front().issues = {{"no_device_activity", 1, Severity::kWarning, "no GPU activity in this trace"}};
  r.findings.clear();
  for (Check& check : r.checklist) check.verdict = Verdict::kUnknown;
  r.verdict = "No GPU work was recorded.";
  return r;
}

Report cluster_report() {
  Report r = sample_report();
  Table devices = devices_table();
  devices.rows.push_back(devices.rows.front());
  devices.rows.back()[0] = 1;
  devices.rows.back()[11] = 71.2;
  Record means;
  r.ranks.clear();
  r.inputs.clear();
  for (int i = 0; i < 4; ++i) {
    RankReport rank = sample_rank();
    rank.rank = i;
    rank.world_size = 4;
    rank.host = i < 2 ? "node-a" : "node-b";
    rank.sections.front().content = devices;
    r.ranks.push_back(std::move(rank));
    means.add(std::to_string(i), 176'000'000 + i * 100'000);
    const std::string path = "run7/rank" + std::to_string(i) + ".json.gz";
    r.inputs.push_back({path, "kineto", "PyTorch trace", 7'400'000, 75'718, i, {}});
  }
  r.inputs[1].issues = {{"truncated", 1, Severity::kCritical,
                         "run7/rank1.json.gz ends in the middle of its compressed data, after 41.2 MB of text\n"
                         "what was read is reported; steps 14 to 20 are missing"}};
  r.cluster = cluster_record(means, nullptr);
  r.findings[0].ranks = {2};
  r.findings[1].ranks = {0, 1, 2, 3};
  return r;
}

Report hostile_report() {
  const std::string bad = std::string("\x1b[31mred\x1b]0;title\x07</script><b>|`*_\xff\xfe\xc2\x9b" "2J\r\n\x7f") +
                          "\u202Eecnalubma\u200B\u2028" + std::string(40, 'x') + "日本語🙂";
  const std::string huge = bad + std::string(10'000, 'k');
  std::string marks = "e";
  for (int i = 0; i < 500; ++i) marks += "\u0301";
  Report r = cluster_report();
  r.cluster = cluster_record({}, bad.c_str());
  for (InputFile& input : r.inputs) input.path = bad + "/" + huge, input.summary = bad;
  r.inputs[0].issues = {{bad, 3, Severity::kInfo, huge}};
  for (RankReport& rank : r.ranks) {
    rank.host = bad;
    rank.device_names = {bad, marks};
    for (Section& section : rank.sections) {
      if (!section.content.table()) continue;
      Table table = *section.content.table();
      for (size_t i = 0; i < table.rows.size(); ++i)
        for (Value& v : table.rows[i])
          if (v.text()) v = i % 3 == 0 ? huge : i % 3 == 1 ? bad : marks;
      section.content = table;
    }
  }
  for (Finding& f : r.findings) {
    f.rule = f.why = bad;
    f.what = huge;
    f.fix = {bad, huge};
    f.evidence = {huge, marks};
  }
  for (Check& c : r.checklist) c.brief = bad, c.question = bad;
  r.verdict = bad + " " + huge;
  r.next = {huge, bad};
  return r;
}

}  // namespace profgpu
