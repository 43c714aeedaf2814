// Made from the C++ types by src/view/page_types_test.cc: PROFGPU_WRITE_TYPES=1 writes it again.
export interface Issue {
  kind: string;
  count: number;
  severity: string;
  text: string;
}
export interface InputFile {
  path: string;
  format: string;
  file_bytes: number;
  events: number;
  rank: number | null;
  issues: Issue[];
}
export interface Place {
  name: string;
  file: string | null;
  line: number | null;
  module: string | null;
  ns: number;
  count: number;
}
export interface Locator {
  at: string;
  of: string | null;
  rank: number | null;
  device: number | null;
  step: number | null;
  start_ns: number | null;
  duration_ns: number | null;
}
export interface Finding {
  rule: string;
  severity: string;
  ranks: number[];
  value: number | null;
  threshold: number | null;
  unit: string;
  what: string;
  why: string;
  fix: string[];
  paste: (string | null)[];
  cost_ns: number | null;
  cost_pct: number | null;
  steps: number;
  evidence: string[];
  where: Place[];
  seen: Locator;
}
export interface StepSaving {
  rule: string;
  step_ns: number;
  without_ns: number;
}
export interface Check {
  id: string;
  question: string;
  verdict: string;
  value: number | null;
  threshold: number | null;
  record: string | null;
  applies: boolean;
}
export interface PhaseShare {
  name: string;
  wall_ns: number;
  wall_pct: number;
}
export interface AverageStep {
  steps: number;
  duration_ns: number;
  elapsed_ns: number;
  works_between: boolean;
  phases: PhaseShare[];
  includes_hang?: boolean;
}
export interface OtherRun {
  rank: number;
  why: string;
}
export interface SideBySide {
  metric: string;
  late: number | null;
  others_median: number | null;
}
export interface Straggler {
  rank: number;
  excess_ns_per_step: number;
  excess_pct: number;
  kind: string;
  host: string | null;
  together: number[];
  steps_measured: number;
  steps_late: number;
  late_steps: number[];
  worst_step: number | null;
  worst_step_excess_ns: number | null;
  evidence: string[];
  side_by_side: SideBySide[];
}
export interface LateByTurnsTurns {
  rank: number;
  steps_latest: number;
}
export interface LateByTurns {
  wait_ns_per_step: number;
  wait_pct: number;
  kind: string;
  steps_measured: number;
  ranks: LateByTurnsTurns[];
  evidence: string[];
}
export interface RankClock {
  rank: number;
  offset_ns: number;
  error_ns: number | null;
  method: string;
  drift_ppm: number;
  stated_error_ns: number | null;
  agrees: boolean | null;
}
export interface CriticalPathKind {
  kind: string;
  total_ns: number;
  pct: number;
}
export interface CriticalPathShare {
  rank: number;
  total_ns: number;
  pct: number;
}
export interface PathSegment {
  rank: number;
  kind: string;
  start_ns: number;
  duration_ns: number;
  call: string | null;
}
export interface StepPath {
  step: number;
  start_ns: number;
  duration_ns: number;
  segments: PathSegment[];
  segments_left_out: number;
}
export interface CriticalPath {
  steps: number;
  duration_ns: number;
  by_kind: CriticalPathKind[];
  by_rank: CriticalPathShare[];
  longest_step: StepPath;
  ranks_without: number[];
}
export interface WhatIf {
  change: string;
  ranks: number[];
  step_ns: number;
  saved_ns_per_step: number;
  saved_pct: number;
  lower_bound: boolean;
}
export interface Parallelism {
  kind: string;
  words: string;
  group_size: number | null;
  groups: number;
  calls_per_step: number;
  bytes_per_step: number | null;
  communication_ns_per_step: number;
  exposed_ns_per_step: number;
  overlap_pct: number | null;
  detail: Record<string, unknown>;
}
export interface Traffic {
  name: string;
  group_size: number | null;
  spans_hosts: boolean | null;
  size_from_bytes: number | null;
  calls: number;
  whole_calls: number;
  message_bytes: number | null;
  wait_ns: number;
  median_wait_ns: number;
  wait_is_lower_bound: boolean;
  transfer_ns: number | null;
  algbw_gbps: number | null;
  busbw_gbps: number | null;
  link_gbps: number | null;
  link_pct: number | null;
}
export interface Pair {
  from: number;
  to: number;
  process_group: string;
  spans_hosts: boolean | null;
  calls: number;
  total_bytes: number | null;
  message_bytes: number | null;
  receiver_wait_ns: number;
  sender_wait_ns: number;
  transfer_ns: number;
  bandwidth_gbps: number | null;
}
export interface MissingCalls {
  rank: number;
  kind: string;
  name: string;
  process_group: string;
  number: number;
  step: number | null;
  calls: number;
  first_ns: number;
  others: number;
}
export interface Job {
  ranks: number;
  world_size: number | null;
  missing_ranks: number[] | null;
  other_runs: OtherRun[];
  step_mean_ns_by_rank: Record<string, number>;
  step_spread_pct: number;
  stragglers: Straggler[];
  late_by_turns: LateByTurns | null;
  clocks: RankClock[];
  critical_path: CriticalPath | null;
  what_if: WhatIf[];
  parallelism: Parallelism[];
  collectives: Traffic[];
  pairs: Pair[];
  missing: MissingCalls[];
  notes: string[];
}
export interface LogSetting {
  name: string;
  value: string;
}
export interface LogThroughput {
  lines: number;
  warmup_lines: number;
  iterations: number;
  mean_ns: number | null;
  median_ns: number | null;
  p95_ns: number | null;
  min_ns: number | null;
  max_ns: number | null;
  samples_per_s: number | null;
  tokens_per_s: number | null;
  device_tokens_per_s: number | null;
  tflops: number | null;
  mfu_pct: number | null;
}
export interface LogUntimed {
  lines: number;
  last_step: number;
  samples_per_s: number | null;
  tokens_per_s: number | null;
  device_tokens_per_s: number | null;
  tflops: number | null;
  mfu_pct: number | null;
}
export interface LogPhaseRow {
  name: string;
  mean_ns: number;
  step_pct: number;
}
export interface LogTimerRow {
  name: string;
  phase: string | null;
  count: number;
  mean_ns: number;
  min_ns: number;
  max_ns: number;
  step_pct: number | null;
}
export interface LogMemoryRow {
  rank: number | null;
  peak_allocated_bytes: number | null;
  peak_reserved_bytes: number | null;
  capacity_bytes: number | null;
  lines: number;
}
export interface LogWarmup {
  lines: number;
  extra_ns: number;
}
export interface LogLoss {
  first: number | null;
  last: number | null;
  lowest: number | null;
  lowest_step: number | null;
  skipped: number;
  not_finite: number;
  not_finite_since: number | null;
}
export interface LogStall {
  kind: string;
  step: number | null;
  line: number;
  duration_ns: number | null;
  text: string | null;
}
export interface LogWall {
  wall_ns: number | null;
  in_steps_ns: number;
  outside_ns: number | null;
}
export interface LogRunRow {
  line: number;
  first_step: number;
  last_step: number;
  lines: number;
  median_ns: number;
  told: boolean;
  end: string;
  end_line: number | null;
}
export interface LogRestart {
  line: number;
  step: number | null;
  after_step: number | null;
  cause: string;
  cause_line: number | null;
  text: string | null;
  file: string | null;
}
export interface LogEnd {
  kind: string;
  line: number | null;
  after_step: number | null;
  rank: number | null;
  node: string | null;
  text: string | null;
  bytes: number | null;
  peer: string | null;
  collective: string | null;
  behind: number[];
  behind_in: string | null;
  mismatch: string | null;
  mismatched: number[];
  waits: string | null;
  earlier_error: string | null;
  earlier_error_line: number | null;
  earlier_error_text: string | null;
}
export interface LogProcess {
  rank: number | null;
  node: string | null;
  pid: number | null;
  lines: number;
  mean_ns: number;
  p95_ns: number;
}
export interface LogModuleRow {
  depth: number;
  name: string;
  type: string | null;
  parameters: number | null;
  macs: number | null;
  flops_per_s: number | null;
  latency_ns: number | null;
  latency_pct: number | null;
}
export interface LinkSummary {
  op: string;
  ranks: number | null;
  latency_ns: number | null;
  peak_busbw_gbps: number | null;
  half_bytes: number | null;
  mean_busbw_gbps: number | null;
  wrong: number;
}
export interface LinkRow {
  op: string;
  dtype: string;
  ranks: number | null;
  in_place: boolean;
  bytes: number;
  time_ns: number;
  algbw_gbps: number | null;
  busbw_gbps: number | null;
  wrong: number | null;
  measurements: number;
}
export interface CopyRow {
  test: string;
  description: string;
  unit: string;
  rows: number;
  columns: number;
  pairs: number;
  sum: number | null;
  min: number | null;
  median: number | null;
  max: number | null;
}
export interface SlowPair {
  test: string;
  from: string;
  to: string;
  value: number;
  usual: number;
  line: number;
}
export interface CopyCell {
  test: string;
  row: number;
  column: number;
  value: number;
}
export interface NcclTransport {
  transport: string;
  connections: number;
}
export interface NcclRemark {
  kind: string;
  text: string;
  line: number;
  count: number;
}
export interface NcclReport {
  version: string | null;
  network: string | null;
  network_devices: string | null;
  ranks: number | null;
  hosts: number | null;
  channels: number | null;
  transports: NcclTransport[];
  remarks: NcclRemark[];
  environment: LogSetting[];
  lines: number;
}
export interface LogSpeculation {
  drafted_tokens: number | null;
  accepted_tokens: number | null;
  accepted_pct: number | null;
  length: number | null;
  position_pct: number[];
}
export interface LogServing {
  program: string;
  engines: number;
  lines: number;
  busy_lines: number;
  prompt_tokens_per_s: number | null;
  generated_tokens_per_s: number | null;
  most_generated_tokens_per_s: number | null;
  running: number | null;
  most_running: number | null;
  waiting: number | null;
  most_waiting: number | null;
  cache_pct: number | null;
  most_cache_pct: number | null;
  prefix_hit_pct: number | null;
  waiting_lines: number;
  full_lines: number;
  preempted: number | null;
  preempted_at_least: boolean;
  speculation: LogSpeculation | null;
}
export interface LogServingRow {
  line: number;
  rank: number | null;
  start_ns: number | null;
  prompt_tokens_per_s: number | null;
  generated_tokens_per_s: number | null;
  running: number | null;
  waiting: number | null;
  cache_pct: number | null;
  prefix_hit_pct: number | null;
}
export interface LogReport {
  path: string;
  families: string[];
  lines: number;
  settings: LogSetting[];
  throughput: LogThroughput | null;
  untimed: LogUntimed | null;
  breakdown: LogPhaseRow[];
  timers: LogTimerRow[];
  memory: LogMemoryRow[];
  host_memory_bytes: number | null;
  warmup: LogWarmup | null;
  loss: LogLoss | null;
  stalls: LogStall[];
  wall: LogWall | null;
  runs: LogRunRow[];
  restarts: LogRestart[];
  end: LogEnd;
  processes: LogProcess[];
  modules: LogModuleRow[];
  links: LinkSummary[];
  link_rates: LinkRow[];
  copies: CopyRow[];
  slow_pairs: SlowPair[];
  copy_rates: CopyCell[];
  nccl: NcclReport | null;
  serving: LogServing | null;
  serving_lines: LogServingRow[];
}
export interface DeviceRow {
  id: number;
  name: string | null;
  span_ns: number;
  busy_ns: number;
  idle_ns: number;
  compute_ns: number;
  communication_ns: number;
  memory_ns: number;
  exposed_communication_ns: number;
  exposed_memory_ns: number;
  overlap_pct: number | null;
  utilization_pct: number | null;
  window_ns: number;
  window_idle_ns: number;
  window_utilization_pct: number | null;
}
export interface IdleShare {
  cause: string;
  total_ns: number;
  window_pct: number;
}
export interface DeviceUse {
  device: number;
  of_steps: boolean;
  window_ns: number;
  busy_ns: number;
  busy_pct: number | null;
  compute_ns: number;
  communication_ns: number;
  memory_ns: number;
  exposed_communication_ns: number;
  exposed_memory_ns: number;
  idle: IdleShare[];
}
export interface Step {
  name: string;
  index: number;
  start_ns: number;
  duration_ns: number;
  elapsed_ns: number;
  device: number | null;
  device_busy_ns: number | null;
  device_idle_ns: number | null;
  warmup: boolean;
  incomplete: boolean;
  kind: string | null;
  sequences: number | null;
  tokens: number | null;
  context_tokens: number | null;
  iterations: number;
  loss: number | null;
  learning_rate: number | null;
  grad_norm: number | null;
  samples_per_s: number | null;
  tokens_per_s: number | null;
  device_tokens_per_s: number | null;
  tflops: number | null;
  mfu_pct: number | null;
  skipped: number | null;
}
export interface PhaseRow {
  name: string;
  wall_ns: number;
  wall_pct: number;
  device_busy_ns: number | null;
}
export interface ServingKind {
  kind: string;
  count: number;
  median_ns: number;
  p95_ns: number;
  sequences: number | null;
  tokens: number | null;
  tokens_per_s: number | null;
  graph_pct: number;
  flops_per_token: number | null;
  bytes_per_token: number | null;
  flops_is_lower_bound: boolean | null;
  bytes_is_lower_bound: boolean | null;
}
export interface Serving {
  kinds: ServingKind[];
  speculative: boolean;
  token_interval_ns: number | null;
  tokens_per_s: number | null;
  between_ns: number;
  between_pct: number;
  no_requests_ns: number;
  between: Place[];
}
export interface NamedGap {
  start_ns: number;
  duration_ns: number;
  after: string | null;
  before: string | null;
  host: string | null;
  place: string | null;
}
export interface IdleRow {
  device: number;
  cause: string;
  total_ns: number;
  span_pct: number;
  count: number;
  edge_ns: number;
  window_pct: number;
  longest: NamedGap[];
  edges: NamedGap[];
}
export interface KernelRow {
  device: number;
  name: string;
  short_name: string;
  kind: string;
  category: string;
  count: number;
  total_ns: number;
  mean_ns: number;
  min_ns: number;
  median_ns: number;
  p95_ns: number;
  max_ns: number;
  stddev_ns: number;
  kernel_pct: number;
  tensor_cores: boolean;
}
export interface OpRow {
  name: string;
  calls: number;
  cpu_total_ns: number;
  cpu_self_ns: number;
  device_total_ns: number;
  device_self_ns: number;
  flops: number | null;
  flops_is_lower_bound: boolean | null;
  bytes: number | null;
}
export interface FamilyWorkRow {
  family: string;
  calls: number;
  flops: number;
  needed_flops: number;
  bytes: number;
  device_ns: number;
  flops_is_lower_bound: boolean;
}
export interface WorkPerStep {
  flops_known_pct: number;
  bytes_known_pct: number;
  flops: number | null;
  flops_is_lower_bound: boolean | null;
  bytes: number | null;
  bytes_is_lower_bound: boolean | null;
  flops_per_token: number | null;
  bytes_per_token: number | null;
  flops_per_sample: number | null;
  bytes_per_sample: number | null;
}
export interface TileBoundRow {
  name: string;
  precision: string | null;
  kernels: number;
  device_ns: number;
  executed_flops_at_least: number;
}
export interface UnknownWorkRow {
  name: string;
  reason: string;
  kernels: number;
  device_ns: number;
}
export interface WorkSection {
  shapes_recorded: boolean;
  values_recorded: boolean;
  kernel_ns: number;
  flops_known_pct: number;
  bytes_known_pct: number;
  families: FamilyWorkRow[];
  per_step: WorkPerStep;
  at_least: TileBoundRow[];
  unknown: UnknownWorkRow[];
  advice: string | null;
}
export interface PeakRow {
  precision: string;
  tflops: number;
  clock_tflops: number | null;
}
export interface Limits {
  device: string | null;
  source: string | null;
  reason: string | null;
  memory_gbps: number | null;
  cache_bytes: number | null;
  link_gbps: number | null;
  host_link_gbps: number | null;
  peak_clock_mhz: number | null;
  clock_mhz: number | null;
  peaks: PeakRow[];
}
export interface RooflineRow {
  name: string;
  shapes: string | null;
  kernel: string | null;
  precision: string | null;
  count: number;
  total_ns: number;
  flops: number | null;
  flops_is_lower_bound: boolean | null;
  bytes: number | null;
  intensity: number | null;
  tflops: number | null;
  memory_gbps: number | null;
  limit_ns: number | null;
  limit_pct: number | null;
  clock_limit_pct: number | null;
  bound: string;
  recomputed: boolean;
}
export interface Roofline {
  known_pct: number | null;
  mfu_pct: number | null;
  hfu_pct: number | null;
  mbu_pct: number | null;
  mbu_is_lower_bound: boolean | null;
  clock_mfu_pct: number | null;
  mfu_is_lower_bound: boolean | null;
  missing: string[];
  ops: RooflineRow[];
  kernels: RooflineRow[];
}
export interface CountersRow {
  name: string;
  grid: string | null;
  block: string | null;
  launches: number;
  duration_ns: number | null;
  sm_pct: number | null;
  memory_pct: number | null;
  dram_pct: number | null;
  occupancy_pct: number | null;
  theoretical_occupancy_pct: number | null;
  dram_bytes: number | null;
  bound: string;
  stalls: string | null;
  matched: string | null;
  trace_launches: number;
  trace_ns: number | null;
  limit_pct: number | null;
  estimated_bound: string;
  bytes: number | null;
  limit_error_pct: number | null;
  bytes_error_pct: number | null;
}
export interface Counters {
  launches: number;
  matched: number;
  limit_error_pct: number | null;
  bytes_error_pct: number | null;
  rows: CountersRow[];
}
export interface DistancePart {
  part: string;
  total_ns: number;
  wall_pct: number;
}
export interface Distance {
  steps: number;
  wall_ns: number;
  left_out_ns: number;
  limit_ns: number | null;
  times_limit: number | null;
  times_limit_is_lower_bound: boolean | null;
  known_pct: number | null;
  parts: DistancePart[];
}
export interface ModelSection {
  type: string;
  parameters: number | null;
  active_parameters: number | null;
  training: boolean;
  flops_per_token: number | null;
  attention_flops_per_token: number | null;
  tokens_per_step: number | null;
  tokens_source: string | null;
  flops_per_step: number | null;
  precision: string | null;
  tflops: number | null;
  mfu_pct: number | null;
  op_flops_per_step: number | null;
  op_flops_pct: number | null;
  mfu_is_lower_bound: boolean | null;
  op_flops_is_lower_bound: boolean | null;
  notes: string[];
}
export interface EnergyTotal {
  steps: number;
  wall_ns: number;
  known_pct: number;
  energy_j: number;
  error_j: number;
  energy_per_step_j: number | null;
  energy_per_token_j: number | null;
  energy_per_sample_j: number | null;
  energy_delay_product_js: number | null;
  idle_j: number | null;
  waiting_j: number | null;
  cost: number | null;
  co2_g: number | null;
}
export interface EnergyPart {
  name: string;
  total_ns: number;
  energy_j: number | null;
  error_j: number | null;
  mean_power_w: number | null;
}
export interface StepEnergy {
  index: number;
  duration_ns: number;
  energy_j: number | null;
  error_j: number | null;
}
export interface EnergySection {
  device: string | null;
  method: string | null;
  resolution_ns: number | null;
  integrated_j: number | null;
  total: EnergyTotal | null;
  phases: EnergyPart[];
  parts: EnergyPart[];
  by_step: StepEnergy[];
  notes: string[];
  missing: string | null;
}
export interface Launch {
  launches: number;
  median_latency_ns: number | null;
  p95_latency_ns: number | null;
  short_kernels: number;
  short_kernel_pct: number | null;
  median_queue_depth: number | null;
}
export interface CollectiveRow {
  name: string;
  dtype: string | null;
  group_size: number | null;
  process_group: string | null;
  calls: number;
  message_bytes: number | null;
  total_ns: number;
  exposed_ns: number;
  algbw_gbps: number | null;
  busbw_gbps: number | null;
  wait_ns: number | null;
  wait_is_lower_bound: boolean | null;
}
export interface MpiFunction {
  name: string;
  calls: number;
  total_ns: number;
  wall_pct: number;
  bytes: number | null;
  median_bytes: number | null;
  where: string | null;
}
export interface MpiTime {
  total_ns: number;
  wall_pct: number;
  outside_ns: number;
  functions: MpiFunction[];
}
export interface MemoryPoint {
  time_ns: number;
  allocated_bytes: number | null;
  reserved_bytes: number | null;
}
export interface Memory {
  peak_allocated_bytes: number | null;
  peak_reserved_bytes: number | null;
  capacity_bytes: number | null;
  growth_bytes_per_step: number | null;
  fragmentation_pct: number | null;
  allocator_calls: number;
  timeline: MemoryPoint[];
}
export interface CategoryRow {
  category: string;
  held_bytes: number;
  blocks: number | null;
  peak_pct: number;
  certain_bytes: number;
  inferred_bytes: number;
  attention_bytes: number | null;
}
export interface HolderRow {
  function: string;
  file: string | null;
  line: number | null;
  module: string | null;
  category: string;
  op: string | null;
  held_bytes: number;
  blocks: number;
  peak_pct: number;
}
export interface SnapshotPeak {
  device: number | null;
  event: number | null;
  time_ns: number | null;
  step: number | null;
  phase: string;
  allocated_bytes: number;
  reserved_bytes: number | null;
  unused_bytes: number | null;
  categories: CategoryRow[];
  holders: HolderRow[];
}
export interface SnapshotDevice {
  device: number;
  segments: number;
  blocks: number;
  events: number;
  reserved_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  requested_bytes: number;
  largest_free_block_bytes: number;
  peak_allocated_bytes: number | null;
  peak_event: number | null;
  peak_reserved_bytes: number | null;
  history_recorded: boolean;
  peak: SnapshotPeak | null;
}
export interface BlockStateRow {
  device: number;
  state: string;
  pool: string;
  total_bytes: number;
  requested_bytes: number;
  blocks: number;
}
export interface GrowingLine {
  function: string;
  file: string | null;
  line: number | null;
  category: string;
  cause: string;
  per: string;
  growth_bytes: number;
  low_bytes: number;
  high_bytes: number;
  held_bytes: number;
  blocks: number;
  device: number | null;
}
export interface KeptOfSteps {
  function: string;
  file: string | null;
  line: number | null;
  held_bytes: number;
  steps: number;
}
export interface CycleRow {
  function: string;
  file: string | null;
  line: number | null;
  category: string;
  held_bytes: number;
  collected_bytes: number;
  blocks: number;
  collector_runs: number;
}
export interface PinnedMemory {
  events: number;
  reserved_bytes: number | null;
  allocated_bytes: number;
  peak_allocated_bytes: number;
  growth: GrowingLine[];
}
export interface OutOfMemory {
  device: number;
  event: number;
  time_ns: number | null;
  requested_bytes: number;
  device_free_bytes: number;
  allocated_bytes: number;
  reserved_bytes: number | null;
  unused_bytes: number | null;
  largest_free_block_bytes: number | null;
  usable_bytes: number | null;
  outside_bytes: number | null;
  new_state_bytes: number | null;
  steps_after: number;
  in_optimizer: boolean;
  grown_bytes: number | null;
  cause: string;
  function: string;
  file: string | null;
  line: number | null;
}
export interface PeakSpike {
  function: string;
  file: string | null;
  line: number | null;
  held_bytes: number;
  peak_without_bytes: number;
  lifetime_events: number;
}
export interface EarlyFreeRow {
  category: string;
  function: string | null;
  file: string | null;
  line: number | null;
  held_bytes: number;
  peak_bytes: number;
  saved_bytes: number;
  collected: boolean;
  graph_lines: number | null;
  graph_blocks: number | null;
}
export interface SavingRow {
  change: string;
  assumes: string;
  peak_bytes: number;
  saved_bytes: number;
}
export interface BatchFit {
  outcome: string;
  fixed_bytes: number;
  scaling_bytes: number;
  full_peak_bytes: number | null;
  double_peak_bytes: number | null;
  double_high_bytes: number | null;
  capacity_bytes: number | null;
  largest: number | null;
  largest_low: number | null;
  largest_high: number | null;
}
export interface OutsideMemory {
  capacity_bytes: number | null;
  used_bytes: number | null;
  process_bytes: number | null;
  own_bytes: number | null;
  other_bytes: number | null;
}
export interface SettingRow {
  settings: string;
  peak_reserved_bytes: number;
  saved_bytes: number;
}
export interface SnapshotReplay {
  exact: boolean;
  departs_event: number | null;
  departure: string | null;
  peak_reserved_bytes: number | null;
  settings: SettingRow[];
}
export interface SnapshotPoint {
  event: number;
  time_ns: number | null;
  allocated_bytes: number;
  reserved_bytes: number | null;
}
export interface CategoryPoint {
  event: number;
  time_ns: number | null;
  reserved_bytes: number | null;
  pending_free_bytes: number | null;
  parameter_bytes: number;
  gradient_bytes: number;
  optimizer_state_bytes: number;
  activation_bytes: number;
  temporary_bytes: number;
  other_bytes: number;
}
export interface SnapshotSection {
  segments: number | null;
  blocks: number | null;
  events: number;
  reserved_bytes: number | null;
  allocated_bytes: number;
  active_bytes: number | null;
  requested_bytes: number | null;
  history_recorded: boolean;
  stacks_recorded: boolean;
  peak_allocated_bytes: number | null;
  peak_event: number | null;
  truncated: boolean;
  left_out: string[];
  steps: number | null;
  duplicate_parameter_bytes: number | null;
  allocator_settings: string | null;
  devices: SnapshotDevice[];
  states: BlockStateRow[];
  peak: SnapshotPeak;
  growth: GrowingLine[];
  kept_of_steps: KeptOfSteps | null;
  cycles: CycleRow[];
  pinned: PinnedMemory | null;
  oom: OutOfMemory | null;
  spike: PeakSpike | null;
  early_frees: EarlyFreeRow[];
  savings: SavingRow[];
  batch: BatchFit | null;
  outside: OutsideMemory | null;
  replay: SnapshotReplay | null;
  timeline: SnapshotPoint[];
  category_timeline: CategoryPoint[];
}
export interface Makeup {
  phase: string;
  state: string;
  total_ns: number;
}
export interface NamedTime {
  name: string;
  total_ns: number;
  step_stddev_ns: number;
}
export interface MeasuredWork {
  name: string;
  short_name: string;
  kind: string;
  category: string;
  op: string | null;
  shapes: string | null;
  count: number;
  total_ns: number;
  step_stddev_ns: number;
  within: string[];
}
export interface MeasuredOp {
  name: string;
  calls: number;
  cpu_self_ns: number;
  step_stddev_ns: number;
}
export interface MeasuredCollective {
  name: string;
  dtype: string;
  message_bytes: number | null;
  calls: number;
  total_ns: number;
}
export interface MeasuredFunction {
  name: string;
  file: string;
  total_ns: number;
}
export interface MeasuredSteps {
  steps: number;
  wall_ns: number;
  makeup: Makeup[];
  phases: NamedTime[];
  states: NamedTime[];
  work: MeasuredWork[];
  ops: MeasuredOp[];
  collectives: MeasuredCollective[];
  functions: MeasuredFunction[];
}
export interface ThreadTimeCall {
  call: string;
  samples_pct: number;
  long_waits: number;
  in_long_waits_ns: number;
}
export interface ThreadTime {
  process: string;
  thread: string;
  name: string | null;
  samples: number;
  observed_ns: number;
  cpu_ns: number;
  cpu_pct: number;
  waited_ns: number;
  blocked_ns: number;
  blocked_pct: number;
  blocked_source: string;
  waits: number | null;
  longest_wait_ns: number | null;
  blocked_in: ThreadTimeCall[];
}
export interface RankSections {
  devices: DeviceRow[];
  use: DeviceUse[];
  steps: Step[];
  phases: PhaseRow[];
  average_step: AverageStep | null;
  serving: Serving | null;
  idle: IdleRow[];
  kernels: KernelRow[];
  ops: OpRow[];
  work: WorkSection | null;
  limits: Limits;
  roofline: Roofline;
  counters: Counters | null;
  distance: Distance;
  model: ModelSection | null;
  energy: EnergySection | null;
  launch: Launch;
  collectives: CollectiveRow[];
  mpi: MpiTime | null;
  memory: Memory;
  snapshot: SnapshotSection | null;
  measured: MeasuredSteps;
  threads: ThreadTime[];
}
