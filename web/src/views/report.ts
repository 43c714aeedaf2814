// The document of `analyze --json` (profgpu.analysis.v1), as far as the views read it.

import type {
  AverageStep, Check as CheckRow, CollectiveRow, DeviceRow, DeviceUse, Distance, Finding as FindingRow, IdleRow, InputFile, Issue as IssueRow, Job, KernelRow, LogReport,
  Launch, Limits, Locator, Memory, OpRow, PhaseRow, Place, RankSections, Roofline, RooflineRow, Serving, SnapshotSection, Step, StepSaving,
} from '../report_types';

export type { AverageStep, CollectiveRow as Collective, DeviceRow as Device, DeviceUse as Use, IdleRow as Idle, KernelRow as Kernel, Memory, OpRow as Op, PhaseRow as Phase, Step };
export type { Distance, Limits, Roofline, RooflineRow, SnapshotSection };
export type Cluster = Job;
export type Log = LogReport;

// Texts of a few values.
export type Severity = 'info' | 'warning' | 'critical';
export type SeenAt = Locator & {
  at: 'steps' | 'longest_step' | 'memory_peak' | 'longest_gap' | 'longest_kernel' | 'longest_phase' | 'longest_wait';
};
export type Issue = IssueRow & { severity: Severity };
export type Input = Omit<InputFile, 'issues'> & { issues: Issue[] };
export type { Place };
export type Finding = FindingRow & { severity: Severity; seen: SeenAt };
export type Check = CheckRow & { verdict: 'pass' | 'fail' | 'unknown' };

/** What a rank has; an older report may lack what is optional here. */
export interface RankReport extends Omit<RankSections, 'average_step' | 'serving' | 'launch' | 'memory' | 'measured' | 'threads' | 'work' | 'limits' |
  'roofline' | 'counters' | 'distance' | 'model' | 'energy' | 'mpi'> {
  rank: number; world_size: number | null; host: string | null; frameworks: string[]; serving?: Serving | null;
  average_step?: AverageStep | null; launch: Launch | null; memory: Memory | null;
  limits?: Limits | null; roofline?: Roofline | null; distance?: Distance | null;
}
export interface Analysis {
  verdict: string; saving: StepSaving | null; measured_steps: number;
  /** Whether costs are of a step, and not of the whole trace. */
  has_steps: boolean;
  warmup_steps: number; incomplete_steps: number; inputs: Input[]; ranks: RankReport[];
  cluster: Cluster | null; logs: Log[]; findings: Finding[]; checklist: Check[]; next: string[];
}

// A report of samples alone has no rank; its views are those of one that did nothing.
const kNoRank: RankReport = {
  rank: 0, world_size: null, host: null, frameworks: [], devices: [], use: [], steps: [], phases: [], idle: [], kernels: [], ops: [], launch: null,
  collectives: [], memory: null, snapshot: null,
};

const kAnywhere: SeenAt = { at: 'steps', of: null, rank: null, device: null, step: null, start_ns: null, duration_ns: null };

const list = <T>(value: unknown): T[] => (Array.isArray(value) ? (value as T[]) : []);

/** A memory snapshot alone has no times: the step that it counts as is none to show. */
function withoutTimes(rank: RankReport): RankReport {
  const times = !rank.snapshot || rank.devices.length > 0 || rank.ops.length > 0;
  return times ? rank : { ...rank, steps: [], phases: [], idle: [], average_step: null, roofline: null, distance: null };
}

/** Lists that are missing are empty, so that a view need not ask. */
export function analysisOf(document: Record<string, unknown>): Analysis {
  const ranks = list<RankReport>(document.ranks).map((rank) => withoutTimes({
    ...rank,
    devices: list<DeviceRow>(rank.devices), steps: list<Step>(rank.steps), phases: list<PhaseRow>(rank.phases),
    idle: list<IdleRow>(rank.idle), kernels: list<KernelRow>(rank.kernels), ops: list<OpRow>(rank.ops),
    collectives: list<CollectiveRow>(rank.collectives), frameworks: list<string>(rank.frameworks),
  }));
  const stepped = ranks.length === 0 || ranks.some((rank) => rank.steps.length > 0 || !rank.snapshot);
  const inputs = list<Input>(document.inputs).map((input) => ({ ...input, issues: list<Issue>(input.issues) }));
  const findings = list<Finding>(document.findings).map((finding) => ({
    ...finding, steps: finding.steps ?? 0, ranks: list<number>(finding.ranks), fix: list<string>(finding.fix), evidence: list<string>(finding.evidence),
    where: list<Place>(finding.where),
    seen: { ...kAnywhere, ...finding.seen },
  }));
  return {
    verdict: typeof document.verdict === 'string' ? document.verdict : '',
    saving: (document.saving as StepSaving | null | undefined) ?? null,
    measured_steps: stepped ? Number(document.measured_steps ?? 0) : 0,
    has_steps: stepped && Number(document.measured_steps ?? 0) > 0 && !(ranks[0] && isWholeTrace(ranks[0])), warmup_steps: Number(document.warmup_steps ?? 0),
    incomplete_steps: Number(document.incomplete_steps ?? 0),
    inputs, ranks: ranks.length > 0 ? ranks : [kNoRank], findings, cluster: (document.cluster as Cluster | null | undefined) ?? null, logs: list<Log>(document.logs),
    checklist: list<Check>(document.checklist).map((check) => ({ ...check, record: check.record ?? null })), next: list<string>(document.next),
  };
}

/** Devices of a rank that findings name, those of the most expensive first. */
export function devicesOfFindings({ findings, ranks }: Analysis, { rank }: RankReport): number[] {
  const of_rank = findings.filter(({ seen, ranks: named }) => (seen.rank === null ? ranks.length === 1 || named.includes(rank) : seen.rank === rank));
  return [...new Set(of_rank.map(({ seen }) => seen.device).filter((device) => device !== null))];
}

/** The device that a step's busy and idle time are of: one of several is named. */
export function deviceOfSteps({ devices, steps }: RankReport): string {
  const device = steps.find((step) => (step.device ?? null) !== null)?.device ?? null;
  return devices.length > 1 && device !== null ? `GPU ${device}` : 'GPU';
}

/** As the timeline has it: copies and sets by the device's engines are no copy kernels. */
export function categoryOfKernel({ kind, category, name }: KernelRow): string {
  return kind !== 'memory' ? category : /memset/i.test(name) ? 'memset' : 'memcpy';
}

/** Nothing marks steps: the only one is all of it. */
export function isWholeTrace({ steps }: RankReport): boolean {
  return steps.length === 1 && steps[0]!.name === 'trace';
}

/** What the lengths of steps' ranges are, beside the time that a step takes with what it launches. */
export function ofRange({ average_step }: RankReport): string {
  return average_step?.works_between ? 'in its range' : 'on the host';
}

/** Warm-up, or cut short by the end of the recording: in no average. */
export function isLeftOut(step: Step | undefined): boolean {
  return step !== undefined && (step.warmup || step.incomplete);
}

/** Whether a phase is one of those that every report knows, not one that the program names. */
export function isPhase(name: string): boolean {
  return ['data_loading', 'forward', 'backward', 'optimizer', 'communication', 'checkpoint', 'other'].includes(name);
}

/** "data_loading" as a person writes it. */
export function words(name: string): string {
  return name.replace(/[_-]/g, ' ');
}
