#include "view/sample_report_test.h"

namespace profgpu {
namespace {

constexpr int64_t kEpoch = 1'718'000'000'000'000'123;  // ns: a real trace's clock

DeviceRow sample_device(int id) {
  DeviceRow d;
  d.id = id, d.name = "Tesla V100-DGXS-32GB";
  d.span_ns = 1'050'000'000, d.busy_ns = 636'000'000, d.idle_ns = 414'000'000;
  d.compute_ns = 633'000'000, d.memory_ns = 3'200'000, d.exposed_memory_ns = 2'900'000;
  d.window_ns = d.span_ns;
  return d;
}

DeviceUse sample_use(const DeviceRow& d) {
  DeviceUse use{d.id,        false, d.window_ns, d.busy_ns, d.compute_ns, d.communication_ns,
                d.memory_ns, d.exposed_communication_ns, d.exposed_memory_ns, {}};
  if (d.id == 0)
    use.idle = {{IdleCause::kDataLoading, 379'000'000, 36.1},
                {IdleCause::kHostBound, 23'500'000, 2.2},
                {IdleCause::kLaunchLatency, 11'500'000, 1.1}};
  return use;
}

Steps sample_steps() {
  Steps all;
  all.annotated = true;
  int64_t start = kEpoch;
  for (int i = 0; i < 6; ++i) {
    const int64_t duration = i == 0 ? 402'000'000 : 175'000'000 + i * 500'000;
    Step& s = all.steps.emplace_back();
    s.name = "ProfilerStep#" + std::to_string(i), s.index = i, s.start_ns = start, s.duration_ns = duration;
    s.elapsed = s.interval();
    s.device = 0, s.device_busy_ns = 106'600'000, s.device_idle_ns = duration - 106'600'000;
    s.warmup = i == 0, s.measured = i > 0;
    start += duration;
  }
  return all;
}

std::vector<PhaseRow> sample_phases() {
  return {{{"data_loading", 418'900'000, 39.7}, 0},       {{"forward", 168'800'000, 16.0}, 201'000'000},
          {{"backward", 389'300'000, 36.9}, 390'000'000}, {{"optimizer", 70'700'000, 6.7}, 45'000'000},
          {{"communication", 0, 0.0}, 0},                 {{"other", 8'400'000, 0.8}, 0}};
}

AverageStep sample_average() {
  AverageStep mean{5, 176'500'000, 176'500'000, false, {}, false};
  for (const PhaseRow& phase : sample_phases()) mean.phases.push_back(phase.share);
  return mean;
}

std::vector<IdleRow> sample_idle() {
  const std::vector<NamedGap> gaps{{kEpoch + 1'000'000, 71'400'000, "Memcpy HtoD", "cudnn_relu",
                                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                    {}},
                                   {kEpoch + 600'123'456, 69'800'000, "Memcpy HtoD", "cudnn_relu", {}, {}}};
  return {{0, IdleCause::kLaunchLatency, 11'500'000, 1.1, 1234, 0, 1.1, {}, {}},
          {0, IdleCause::kDataLoading, 379'000'000, 36.1, 6, 0, 36.1, gaps, {}},
          {0, IdleCause::kHostBound, 23'500'000, 2.2, 412, 0, 2.2, {}, {}}};
}

KernelRow kernel(const char* name, const char* short_name, KernelCategory category, int64_t count, int64_t total_ns,
                 double pct) {
  KernelRow k;
  k.text = name, k.short_name = short_name, k.category = category, k.count = count, k.total_ns = total_ns,
  k.kernel_pct = pct;
  k.mean_ns = static_cast<double>(total_ns) / static_cast<double>(count);
  k.min_ns = whole_ns(k.mean_ns * 0.25), k.max_ns = whole_ns(k.mean_ns * 3);
  k.median_ns = k.mean_ns * 0.97, k.p95_ns = k.mean_ns * 2, k.stddev_ns = 12.5;
  return k;
}

std::vector<KernelRow> sample_kernels() {
  return {kernel("volta_scudnn_128x128_relu_small_nn_v1", "volta_scudnn_128x128_relu_small_nn_v1",
                 KernelCategory::kConvolution, 180, 152'300'000, 23.9),
          kernel("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float)",
                 "cudnn::bn_bw_1C11_kernel_new", KernelCategory::kNormalization, 318, 88'100'000, 13.8),
          kernel("void at::native::vectorized_elementwise_kernel<4, at::native::threshold_kernel_impl<float>(…)>",
                 "vectorized_elementwise: threshold", KernelCategory::kElementwise, 1'960, 61'000'000, 9.6),
          kernel("volta_sgemm_128x64_nt", "volta_sgemm_128x64_nt", KernelCategory::kGemm, 12, 8'400'000, 1.3),
          kernel("Memset (Device)", "Memset (Device)", KernelCategory::kOther, 3'204, 1'900'000, 0.3)};
}

OpRow op(const char* name, int64_t calls, int64_t total_ns, int64_t self_ns, int64_t device_ns, int64_t flops = 0) {
  return {{}, name, false, calls, total_ns, self_ns, device_ns, device_ns, only_if(flops > 0, flops),
          {}};
}

std::vector<OpRow> sample_ops() {
  return {op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 6, 418'900'000, 401'000'000, 0),
          op("aten::cudnn_convolution", 318, 41'200'000, 38'700'000, 152'300'000, 24'600'000'000),
          op("aten::add_", 5'796, 30'100'000, 22'900'000, 61'000'000)};
}

Memory sample_memory() {
  Memory m;
  m.peak_allocated_bytes = 17'200'000'000, m.peak_reserved_bytes = 18'500'000'000, m.capacity_bytes = 34'000'000'000;
  m.growth_bytes_per_step = 0.0;
  for (int64_t i = 0; i < 60; ++i) m.timeline.push_back({kEpoch + i * 5'000, (i % 20 + 1) * 860'000'000, {}});
  return m;
}

RankReport sample_rank() {
  RankReport rank;
  rank.device_names = {"Tesla V100-DGXS-32GB"};
  rank.devices = {sample_device(0)};
  rank.use = {sample_use(rank.devices.front())};
  rank.steps = sample_steps();
  rank.phases = sample_phases();
  rank.average_step = sample_average();
  rank.idle = sample_idle();
  rank.kernels = sample_kernels();
  rank.ops = sample_ops();
  rank.launch.launches = 15'204, rank.launch.median_latency_ns = 12'345.5;
  rank.launch.short_kernels = 483, rank.launch.short_kernel_pct = 3.2, rank.launch.median_queue_depth = 41.0;
  rank.memory = sample_memory();
  return rank;
}

std::vector<Finding> sample_findings() {
  Finding loading{
      "data-loading-bound", Severity::kCritical, {0}, 39.7, 10, "%", {}, {}, {}, 340'000'000, 38.6, {}, {}, false};
  loading.what = "one process decodes every batch while the GPU idles";
  loading.why = "The loader has no workers, so each batch is made by the thread that trains.";
  loading.fix = {"DataLoader(…, num_workers=4, pin_memory=True, persistent_workers=True)", "decode on the GPU"};
  loading.evidence = {"seen in 6 of 6 steps; longest wait 71.4 ms in "
                      "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"};
  Finding precision{"full-precision-gemm", Severity::kWarning, {0}, 84, 50, "%", {}, {}, {}, {}, {}, {}, {}, false};
  precision.what = "84 % of convolution and matrix time runs without tensor cores";
  precision.fix = {"with torch.autocast(\"cuda\", dtype=torch.float16): …"};
  Finding optimizer{"unfused-optimizer", Severity::kInfo, {0}, 6.7, 5, "%", {}, {}, {}, {}, {}, {}, {}, false};
  optimizer.what = "483 small kernels a step in Optimizer.step#SGD";
  optimizer.fix = {"torch.optim.SGD(…, fused=True)"};
  optimizer.evidence = {"mean kernel 4.1 µs"};
  return {loading, precision, optimizer};
}

std::vector<Check> sample_checks() {
  return {{"gpu-utilization", "Is the GPU busy?", Verdict::kFail, 60.6, 80, "GPU busy 60.6 % (over 80)"},
          {"data-loading", "Does loading keep up?", Verdict::kFail, 39.7, 10, "data loading 39.7 % (under 10)"},
          {"memory-headroom", "Is memory left?", Verdict::kPass, 41, 10, "memory headroom 41 % (over 10)"},
          {"communication", "Is it hidden?", Verdict::kUnknown, {}, 20, "communication (one GPU)", {}, false},
          {"mixed-precision", "Are tensor cores used?", Verdict::kFail, {}, {}, "mixed precision"},
          {"compiled", "Is the model compiled?", Verdict::kFail, {}, {}, "torch.compile"},
          {"fused-optimizer", "Is the optimizer fused?", Verdict::kFail, {}, {}, "fused optimizer"},
          {"gradient-accumulation", "Is it used?", Verdict::kUnknown, {}, {}, ""}};
}

Straggler late_rank(const std::string& host) {
  Straggler late;
  late.rank = 2, late.excess_ns_per_step = 12'300'000, late.excess_pct = 7.0, late.kind = "slow_input",
  late.host = host;
  late.steps_measured = 5, late.late_steps = {1, 2, 4, 5}, late.worst_step = 4, late.worst_step_excess_ns = 14'000'000;
  late.side_by_side = {
      {"data_loading_ns", 15'600'000.0, 3'300'000.0}, {"kernels", 160.0, 160.0}, {"sm_clock_mhz", {}, 1'980.0}};
  late.evidence = {"data loading 15.6 ms a step, others 3.30 ms"};
  return late;
}

Parallelism data_parallel() {
  Parallelism way;
  way.kind = ParallelKind::kDdp, way.group_size = 4, way.groups = 1, way.ranks = {0, 1, 2, 3}, way.hosts_per_group = 2;
  way.calls_per_step = 5, way.bytes_per_step = 203'600'000;
  way.communication_ns_per_step = 20'000'000, way.exposed_ns_per_step = 9'000'000;
  GradientUse& gradients = way.gradients.emplace();
  gradients.per_step = gradients.backward_per_step = 5, gradients.median_bytes = 25'200'000,
  gradients.tail_ns = 568'775;
  return way;
}

CriticalPath sample_path(const std::string& call) {
  CriticalPath path;
  path.steps = 5, path.duration_ns = 880'000'000;
  path.by_kind = {{LaneTime::kCompute, 700'000'000, 79.5}, {LaneTime::kCommunication, 180'000'000, 20.5}};
  path.by_rank = {{2, 836'000'000, 95.0}, {0, 44'000'000, 5.0}};
  const auto at = [](int64_t ms) { return kEpoch + ms * 1'000'000; };
  path.longest = {4, kEpoch, 179'000'000,
                  {{2, lane_time(IdleCause::kDataLoading), at(0), at(30), ""},
                   {2, LaneTime::kCompute, at(30), at(170), ""},
                   {0, LaneTime::kCommunication, at(170), at(179), call}}};
  path.ranks_without = {3};
  return path;
}

Traffic all_reduces(const std::string& name) {
  Traffic t;
  t.name = name, t.group_size = 4, t.spans_hosts = true, t.calls = 25, t.whole_calls = 20, t.message_bytes = 25'200'000;
  t.wait_ns = 300'000'000, t.median_wait_ns = 1'769'650, t.transfer_ns = 127'600, t.busbw_gbps = 345.9;
  return t;
}

// All names in it are `name`, where there is one.
Job sample_job(const std::string& name) {
  const auto text = [&](const char* otherwise) { return name.empty() ? otherwise : name; };
  Job job;
  job.ranks = {0, 1, 2, 3};
  job.step_spread_pct = 0.2;
  for (int i = 0; i < 4; ++i) job.step_mean_ns[i] = 176'000'000 + i * 100'000;
  job.stragglers = {late_rank(text("node-b"))};
  job.clocks = {{.rank = 0, .error_ns = 0, .method = "reference"},
                {.rank = 1, .error_ns = 200, .method = "same host"},
                {.rank = 2, .offset_ns = -3'001'153, .error_ns = 1'586, .method = "collectives", .drift_ppm = 20.0},
                {.rank = 3, .error_ns = {}, .method = text("none")}};
  job.critical_path = sample_path(text("all_reduce"));
  job.what_if = {{"communication_free", {}, 167'000'000, 9'000'000, 5.1, true},
                 {"host_bound_free", {}, 175'900'000, 100'000, 0.1, false},
                 {"straggler_median", {2}, 163'900'000, 12'100'000, 6.9, false}};
  job.parallelism = {data_parallel()};
  job.traffic = {all_reduces(text("all_reduce"))};
  job.pairs = {{0, 2, "", {}, 20, 0, 16'777'216, 13'200'000, 0, 1'080'000, 311.0}};
  job.missing = {{1, text("all_reduce"), text("0"), 1'234, 5, 1, kEpoch, 2, "never_arrived"},
                 {3, text("all_reduce"), text("0"), 1'234, 5, 1, kEpoch, 2, "never_arrived"},
                 {0, text("all_gather"), text("1"), 3, -1, 2, kEpoch + 1, 1, "missing"}};
  job.notes = {text("rank 3: nothing ties its clock to rank 0's")};
  return job;
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
  compare_ranks(r);
  return r;
}

Report cpu_only_report() {
  Report r = sample_report();
  RankReport& rank = r.ranks.front();
  rank.device_names.clear();
  rank.devices.clear(), rank.use.clear(), rank.idle.clear(), rank.kernels.clear();
  rank.ops = {op("aten::addmm", 12, 5'000'000, 4'000'000, 0)};
  r.inputs.front().issues = {{"no_device_activity", 1, Severity::kWarning, "no GPU activity in this trace"}};
  r.findings.clear();
  for (Check& check : r.checklist) check.verdict = Verdict::kUnknown;
  r.verdict = "No GPU work was recorded.";
  return r;
}

Report cluster_report() {
  Report r = sample_report();
  r.ranks.clear();
  r.inputs.clear();
  for (int i = 0; i < 4; ++i) {
    RankReport rank = sample_rank();
    rank.rank = i;
    rank.world_size = 4;
    rank.host = i < 2 ? "node-a" : "node-b";
    rank.devices.push_back(sample_device(1));
    rank.devices.back().busy_ns = 747'600'000;
    rank.use.push_back(sample_use(rank.devices.back()));
    r.ranks.push_back(std::move(rank));
    const std::string path = "run7/rank" + std::to_string(i) + ".json.gz";
    r.inputs.push_back({path, "kineto", "PyTorch trace", 7'400'000, 75'718, i, {}});
  }
  r.inputs[1].issues = {{"truncated", 1, Severity::kCritical,
                         "run7/rank1.json.gz ends in the middle of its compressed data, after 41.2 MB of text\n"
                         "what was read is reported; steps 14 to 20 are missing"}};
  r.findings[0].ranks = {2};
  r.findings[1].ranks = {0, 1, 2, 3};
  return with_job(std::move(r), sample_job(""));
}

Report with_job(Report report, Job job) {
  report.job = std::make_shared<const Job>(std::move(job));
  compare_ranks(report);
  return report;
}

Report hostile_report() {
  const std::string bad = std::string("\x1b[31mred\x1b]0;title\x07</script><b>|`*_\xff\xfe\xc2\x9b" "2J\r\n\x7f") +
                          "\u202Eecnalubma\u200B\u2028" + std::string(40, 'x') + "日本語🙂";
  const std::string huge = bad + std::string(10'000, 'k');
  std::string marks = "e";
  for (int i = 0; i < 500; ++i) marks += "\u0301";
  Report r = with_job(cluster_report(), sample_job(bad));
  for (InputFile& input : r.inputs) input.path = bad + "/" + huge, input.summary = bad;
  r.inputs[0].issues = {{bad, 3, Severity::kInfo, huge}};
  for (RankReport& rank : r.ranks) {
    rank.host = bad;
    rank.device_names = {bad, marks};
    for (DeviceRow& d : rank.devices) d.name = huge;
    for (Step& step : rank.steps.steps) step.name = bad;
    for (IdleRow& idle : rank.idle)
      for (NamedGap& gap : idle.longest) gap.after = huge, gap.before = marks, gap.host = bad;
    for (size_t i = 0; i < rank.kernels.size(); ++i)
      rank.kernels[i].text = rank.kernels[i].short_name = i % 3 == 0 ? huge : i % 3 == 1 ? bad : marks;
    for (size_t i = 0; i < rank.ops.size(); ++i) rank.ops[i].text = i % 3 == 0 ? huge : i % 3 == 1 ? bad : marks;
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
  compare_ranks(r);
  return r;
}

}  // namespace profgpu
