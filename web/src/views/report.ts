// The document of `analyze --json` (profgpu.analysis.v1), as far as the views read it.

export type Severity = 'info' | 'warning' | 'critical';
type Maybe = number | null;

export interface Issue { kind: string; count: number; severity: Severity; text: string }
export interface Input { path: string; format: string; file_bytes: number; events: number; rank: Maybe; issues: Issue[] }

export interface Device {
  id: number; name: string | null; span_ns: number; busy_ns: number; idle_ns: number; compute_ns: number;
  communication_ns: number; memory_ns: number; exposed_communication_ns: number; exposed_memory_ns: number;
  overlap_pct: Maybe; utilization_pct: number;
}
export interface Step {
  name: string; index: Maybe; start_ns: number; duration_ns: number; device: Maybe; device_busy_ns: Maybe;
  device_idle_ns: Maybe; warmup: boolean;
}
export interface Phase { name: string; wall_ns: number; wall_pct: number; device_busy_ns: number }
export interface Idle {
  device: number; cause: string; total_ns: number; span_pct: number; count: number;
  longest: { start_ns: number; duration_ns: number; after: string; before: string; host: string }[];
}
export interface Kernel {
  device: number; name: string; short_name: string; kind: string; category: string; count: number; total_ns: number;
  mean_ns: number; min_ns: number; median_ns: number; p95_ns: number; max_ns: number; stddev_ns: Maybe;
  kernel_pct: Maybe; tensor_cores: boolean | null;
}
export interface Op {
  name: string; calls: number; cpu_total_ns: number; cpu_self_ns: number; device_total_ns: number;
  device_self_ns: number; flops: Maybe;
}
export interface Collective {
  name: string; dtype: string | null; group_size: Maybe; process_group: string | null; calls: number;
  message_bytes: Maybe; total_ns: number; exposed_ns: number; algbw_gbps: Maybe; busbw_gbps: Maybe; wait_ns: Maybe;
  wait_is_lower_bound?: boolean;
}
export interface Memory {
  peak_allocated_bytes: Maybe; peak_reserved_bytes: Maybe; capacity_bytes: Maybe; growth_bytes_per_step: Maybe;
  fragmentation_pct: Maybe; allocator_calls: Maybe;
}
export interface RankReport {
  rank: number; world_size: Maybe; host: string | null; devices: Device[]; steps: Step[]; phases: Phase[];
  average_step?: { steps: number; duration_ns: number; phases: { name: string; wall_ns: number; wall_pct: number }[] };
  idle: Idle[]; kernels: Kernel[]; ops: Op[]; launch: Record<string, Maybe> | null; collectives: Collective[];
  memory: Memory | null; [section: string]: unknown;
}
export interface Cluster {
  ranks: number; step_mean_ns_by_rank: Record<string, number>; step_spread_pct: Maybe;
  stragglers: { rank: number; excess_ns_per_step: number; excess_pct: number; kind: string }[];
  clocks: { rank: number; offset_ns: number; error_ns: Maybe; method: string }[];
  parallelism?: { words: string; overlap_pct: Maybe }[];
  missing?: { rank: number; kind: string; name: string; process_group: string; number: number; step: Maybe; calls: number }[];
  what_if?: { change: string; ranks: number[]; step_ns: number; saved_pct: number; lower_bound: boolean }[];
  late_by_turns?: {
    wait_ns_per_step: number; wait_pct: number; kind: string; steps_measured: number;
    ranks: { rank: number; steps_latest: number }[]; evidence: string[];
  } | null;
  notes?: string[];
}
export type SeenAt = 'steps' | 'longest_step' | 'memory_peak' | 'longest_gap' | 'longest_kernel' | 'longest_phase' | 'longest_wait';
export interface Finding {
  rule: string; severity: Severity; ranks: number[]; value: Maybe; threshold: Maybe; unit: string; what: string;
  why: string; fix: string[]; cost_ns: Maybe; cost_pct: Maybe; evidence: string[]; seen: { at: SeenAt; of: string | null };
}
export interface Check { id: string; question: string; verdict: 'pass' | 'fail' | 'unknown'; value: Maybe; threshold: Maybe }
export interface Analysis {
  verdict: string; measured_steps: number; warmup_steps: number; inputs: Input[]; ranks: RankReport[];
  cluster: Cluster | null; findings: Finding[]; checklist: Check[]; next: string[];
}

// A report of samples alone has no rank; its views are those of one that did nothing.
const kNoRank: RankReport = {
  rank: 0, world_size: null, host: null, devices: [], steps: [], phases: [], idle: [], kernels: [], ops: [], launch: null,
  collectives: [], memory: null,
};

const list = <T>(value: unknown): T[] => (Array.isArray(value) ? (value as T[]) : []);

/** Lists that are missing are empty, so that a view need not ask. */
export function analysisOf(document: Record<string, unknown>): Analysis {
  const ranks = list<RankReport>(document.ranks).map((rank) => ({
    ...rank,
    devices: list<Device>(rank.devices), steps: list<Step>(rank.steps), phases: list<Phase>(rank.phases),
    idle: list<Idle>(rank.idle), kernels: list<Kernel>(rank.kernels), ops: list<Op>(rank.ops),
    collectives: list<Collective>(rank.collectives),
  }));
  const inputs = list<Input>(document.inputs).map((input) => ({ ...input, issues: list<Issue>(input.issues) }));
  const findings = list<Finding>(document.findings).map((finding) => ({
    ...finding, ranks: list<number>(finding.ranks), fix: list<string>(finding.fix), evidence: list<string>(finding.evidence),
    seen: finding.seen ?? { at: 'steps', of: null },
  }));
  return {
    verdict: typeof document.verdict === 'string' ? document.verdict : '',
    measured_steps: Number(document.measured_steps ?? 0), warmup_steps: Number(document.warmup_steps ?? 0),
    inputs, ranks: ranks.length > 0 ? ranks : [kNoRank], findings, cluster: (document.cluster as Cluster | null | undefined) ?? null,
    checklist: list<Check>(document.checklist), next: list<string>(document.next),
  };
}

/** Whether the rank's mean step has one in which the job hangs: the means of a job's ranks leave it out. */
export function hasHangingStep(cluster: Cluster | null, rank: RankReport): boolean {
  const usual = cluster?.step_mean_ns_by_rank?.[String(rank.rank)];
  const hangs = cluster?.missing?.some((m) => m.kind === 'never_arrived') ?? false;
  return hangs && usual !== undefined && (rank.average_step?.duration_ns ?? 0) > 1.01 * usual;
}

/** "data_loading" as a person writes it. */
export function words(name: string): string {
  return name.replace(/[_-]/g, ' ');
}
