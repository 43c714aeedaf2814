// A pack of a training job that never ran: ranks, call stacks, streams, steps with phases, idle causes, collectives,
// counters and samples. Everything is drawn from a fixed seed.

import { PackWriter, type Json } from './pack_writer';

export interface SyntheticOptions {
  events: number;
  ranks?: number;
  steps?: number;
  /** Share of the run, in its middle, whose events are kept; of the rest only density is. */
  kept?: number;
}

const kCategories = [
  'gemm',
  'convolution',
  'attention',
  'normalization',
  'elementwise',
  'reduction',
  'optimizer',
  'communication',
  'memcpy',
  'op',
  'annotation',
  'python',
  'runtime',
  'data_loading',
  'forward',
  'backward',
  'other_phase',
  'idle:data_loading',
  'idle:host_bound',
  'idle:launch_latency',
  'idle:synchronization',
  'step',
  'warmup',
  'sync',
  'collective',
  'wait',
] as const;
type CategoryId = (typeof kCategories)[number];

const kKernels: [string, string, CategoryId][] = [
  [
    'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas',
    'gemm bf16 128x128x64 tn',
    'gemm',
  ],
  [
    'void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)',
    'elementwise add bf16',
    'elementwise',
  ],
  [
    'void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>, true>(pytorch_flash::Flash_fwd_params)',
    'flash attention forward',
    'attention',
  ],
  [
    'void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*)',
    'layer_norm bf16',
    'normalization',
  ],
  [
    'void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s16816fprop_optimized_bf16_128x64_32x6_nhwc_align8>(Params)',
    'conv fprop bf16 128x64',
    'convolution',
  ],
  [
    'void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float> > >(ReduceOp)',
    'reduce sum float',
    'reduction',
  ],
];
const kOps = [
  'aten::linear',
  'aten::add_',
  'aten::scaled_dot_product_attention',
  'aten::layer_norm',
  'aten::conv2d',
  'aten::sum',
];
const kModules = ['nn.Module: Transformer', 'nn.Module: Block', 'nn.Module: Attention', 'nn.Module: Mlp'];
const kNames = [
  ...kKernels.map(([name]) => name),
  ...kOps,
  ...kModules,
  'cudaLaunchKernel',
  'aten::addmm',
  'train.py(88): train_one_epoch',
  'train.py(41): forward',
  'ProfilerStep#',
  'Memcpy HtoD (Pinned -> Device)',
  'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
  'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__',
  'data_loading',
  'forward',
  'backward',
  'optimizer',
  'other',
  'all_reduce',
  'wait for rank 1',
  'data loading',
  'host bound',
  'launch latency',
  'synchronization',
  'cudaStreamSynchronize',
  'autograd::engine::evaluate_function: AddmmBackward0',
  'Optimizer.step#AdamW',
  'void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4> >(FusedAdam)',
];
const name_of = new Map(kNames.map((name, i) => [name, i]));
const category_of = new Map<string, number>(kCategories.map((id, i) => [id, i]));

class Events {
  start: number[] = [];
  duration: number[] = [];
  name: number[] = [];
  category: number[] = [];
  depth: number[] = [];
  args: number[] = [];
  /** 1 + place of the call on the host track that launched it; 0: none. */
  link: number[] = [];
  slow: number[] = [];
  first = 0;

  add(start: number, end: number, name: string, category: CategoryId, depth = 0, args = 0, link = 0): number {
    this.start.push(Math.round(start));
    this.duration.push(Math.max(0, Math.round(end) - Math.round(start)));
    this.name.push(name_of.get(name) ?? 0);
    this.category.push(category_of.get(category) ?? 0);
    this.depth.push(depth);
    this.args.push(args);
    this.link.push(link);
    this.slow.push(0);
    return this.start.length - 1;
  }
}

class Random {
  constructor(private state_: number) {}
  next(): number {
    this.state_ = (Math.imul(this.state_, 1664525) + 1013904223) >>> 0;
    return this.state_ / 2 ** 32;
  }
}

interface RankEvents {
  steps: Events;
  phases: Events;
  idle: Events;
  compute: Events;
  communication: Events;
  copies: Events;
  collectives: Events;
  main: Events;
  autograd: Events;
  loader: Events;
}

const kMicro = 1000;

/** One rank. `ops` leaf calls a step, half of them in the backward pass. */
function simulate(random: Random, steps: number, ops: number): { events: RankEvents; gaps: Json[]; span: number } {
  const e: RankEvents = {
    steps: new Events(),
    phases: new Events(),
    idle: new Events(),
    compute: new Events(),
    communication: new Events(),
    copies: new Events(),
    collectives: new Events(),
    main: new Events(),
    autograd: new Events(),
    loader: new Events(),
  };
  const gaps: Json[] = [];
  let now = 40 * kMicro;
  let device = now;
  const idle = (
    until: number,
    cause: 'data_loading' | 'host_bound' | 'launch_latency' | 'synchronization',
    name: string,
  ) => {
    if (until <= device) return;
    e.idle.add(device, until, name, `idle:${cause}`);
    gaps.push({
      device: 0,
      start: Math.round(device),
      duration: Math.round(until) - Math.round(device),
      cause,
      after: kNames[0],
      before: kNames[1],
      host: 'aten::linear',
    });
  };
  const launch = (
    host: Events,
    at: number,
    end: number,
    depth: number,
    kernel: number,
    link_base: 'main' | 'autograd',
  ): void => {
    const call = host.add(at, end, 'cudaLaunchKernel', 'runtime', depth, 2);
    const length = [48, 6, 36, 9, 30, 8][kernel] * kMicro * (0.6 + random.next());
    const start = Math.max(device, at + 4 * kMicro);
    idle(
      start,
      start - device > 12 * kMicro ? 'host_bound' : 'launch_latency',
      start - device > 12 * kMicro ? 'host bound' : 'launch latency',
    );
    const [name, , category] = kKernels[kernel];
    const made = e.compute.add(start, start + length, name, category, 0, 1 + (kernel % 2) * 2, 1 + call);
    (e.compute as Events & { of?: string[] }).of ??= [];
    (e.compute as Events & { of?: string[] }).of![made] = link_base;
    if (random.next() < 0.02) e.compute.slow[made] = Math.round(20 + 80 * random.next());
    device = start + length;
  };
  for (let step = 0; step < steps; step++) {
    const begin = now;
    const load = (step % 5 === 0 ? 9 : 3) * ops * kMicro * (0.8 + 0.4 * random.next());
    const step_event = e.main.add(begin, begin, 'ProfilerStep#', 'annotation', 0, 4);
    const frame = e.main.add(begin, begin, 'train.py(88): train_one_epoch', 'python', 1);
    e.main.add(begin, begin + load, 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__', 'data_loading', 2);
    for (let i = 0; i < 8; i++)
      e.loader.add(begin + (load * i) / 8, begin + (load * (i + 0.8)) / 8, 'data_loading', 'python');
    now += load;
    e.copies.add(now, now + 80 * kMicro, 'Memcpy HtoD (Pinned -> Device)', 'memcpy', 0, 0);
    idle(now, 'data_loading', 'data loading');
    device = Math.max(device, now);
    e.phases.add(begin, now, 'data_loading', 'data_loading');
    const forward = now;
    const outer = e.main.add(now, now, 'nn.Module: Transformer', 'python', 2);
    for (let op = 0; op < ops / 2;) {
      const block_start = now;
      const block = e.main.add(now, now, kModules[1 + (op % 3)], 'python', 3);
      for (let k = 0; k < 12 && op < ops / 2; k++, op++) {
        const kernel = [0, 1, 2, 1, 0, 3, 0, 1, 4, 5, 1, 0][k];
        const length = (9 + 14 * random.next()) * kMicro;
        e.main.add(now, now + length, kOps[kernel], 'op', 4, 3);
        e.main.add(now + 1.5 * kMicro, now + length - kMicro, 'aten::addmm', 'op', 5);
        launch(e.main, now + length * 0.4, now + length * 0.4 + 4 * kMicro, 6, kernel, 'main');
        now += length + 2 * kMicro * random.next();
      }
      e.main.duration[block] = Math.round(now) - e.main.start[block];
      if (block_start === now) break;
    }
    e.main.duration[outer] = Math.round(now) - e.main.start[outer];
    e.phases.add(forward, now, 'forward', 'forward');
    const backward = now;
    for (let op = 0; op < ops / 2; op++) {
      const kernel = [0, 1, 0, 2, 5, 3][op % 6];
      const length = (8 + 9 * random.next()) * kMicro;
      e.autograd.add(now, now + length, 'autograd::engine::evaluate_function: AddmmBackward0', 'op', 0);
      e.autograd.add(now + kMicro, now + length - kMicro, 'aten::addmm', 'op', 1, 3);
      launch(e.autograd, now + length * 0.4, now + length * 0.4 + 4 * kMicro, 2, kernel, 'autograd');
      if (op % 40 === 20) {
        const start = device;
        const length_ns = 420 * kMicro * (0.5 + random.next());
        const wait = length_ns * random.next() * 0.5;
        e.communication.add(
          start,
          start + length_ns,
          kNames[name_of.get('ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)')!],
          'communication',
        );
        e.collectives.add(start, start + wait, 'wait for rank 1', 'wait');
        e.collectives.add(start + wait, start + length_ns, 'all_reduce', 'collective', 0, 5);
      }
      now += length + kMicro * random.next();
    }
    e.phases.add(backward, now, 'backward', 'backward');
    const optimizer = now;
    e.main.add(now, now + 200 * kMicro, 'Optimizer.step#AdamW', 'annotation', 2);
    now += 200 * kMicro;
    const tail = Math.max(now, device) + 20 * kMicro;
    e.main.add(now, tail, 'cudaStreamSynchronize', 'runtime', 2);
    e.compute.add(device, device + 10 * kMicro, kNames[kNames.length - 1], 'optimizer');
    device += 10 * kMicro;
    e.phases.add(optimizer, tail, 'optimizer', 'optimizer');
    now = tail;
    e.main.duration[step_event] = Math.round(now) - e.main.start[step_event];
    e.main.duration[frame] = e.main.duration[step_event];
    e.steps.add(begin, now, 'ProfilerStep#', step === 0 ? 'warmup' : 'step');
  }
  return {
    events: e,
    gaps: gaps.sort((a, b) => (b.duration as number) - (a.duration as number)).slice(0, 200),
    span: Math.max(now, device),
  };
}

/** About 3.7 events a leaf call. */
function opsFor(events: number, ranks: number, steps: number): number {
  return Math.max(12, Math.round(events / ranks / steps / 3.86));
}

export function syntheticPack(options: SyntheticOptions): Uint8Array {
  const ranks = options.ranks ?? 2;
  const steps = options.steps ?? 12;
  const writer = new PackWriter();
  const simulated = Array.from({ length: ranks }, (_, rank) =>
    simulate(new Random(17 + rank), steps, opsFor(options.events, ranks, steps)),
  );
  const span = Math.max(...simulated.map((s) => s.span)) + 1000;
  const kept: [number, number] =
    options.kept === undefined
      ? [0, span]
      : [Math.round(span * (0.5 - options.kept / 2)), Math.round(span * (0.5 + options.kept / 2))];
  const tracks: Json[] = [];
  let number = 0;
  let all = 0;
  simulated.forEach(({ events }, rank) => {
    const plan: [keyof RankEvents, string, string, string, boolean][] = [
      ['steps', '', 'steps', 'step', false],
      ['phases', '', 'phases', 'phase', false],
      ['idle', 'GPU 0', 'idle, by cause', 'idle', false],
      ['compute', 'GPU 0', 'stream 7', 'stream', false],
      ['communication', 'GPU 0', 'stream 20', 'stream', false],
      ['copies', 'GPU 0', 'stream 13', 'stream', false],
      ['collectives', 'GPU 0', 'collectives', 'collective', false],
      ['main', 'python (4711)', 'thread 4711 (main)', 'thread', true],
      ['autograd', 'python (4711)', 'thread 4790 (autograd)', 'thread', true],
      ['loader', 'python (4711)', 'thread 4812 (pt_data_worker)', 'thread', false],
    ];
    const numbers = new Map<string, { first: number; place: Map<number, number> }>();
    const built = plan.map(([key, group, title, kind, deep]) => {
      const of = events[key];
      const keep = of.start
        .map((start, i) => ({ start, i }))
        .filter(({ start }) => start >= kept[0] && start < kept[1])
        .map(({ i }) => i);
      // Parents were begun before what is in them, so the order of creation is that of the starts within a thread.
      keep.sort((a, b) => of.start[a] - of.start[b] || of.depth[a] - of.depth[b]);
      numbers.set(key, { first: number, place: new Map(keep.map((i, k) => [i, k])) });
      const track = { key, of, keep, group, title, kind, deep, first: number };
      number += keep.length;
      all += of.start.length;
      return track;
    });
    for (const { key, of, keep, group, title, kind, deep, first } of built) {
      const pick = (values: number[]) => keep.map((i) => values[i]);
      const launchers = (events.compute as Events & { of?: string[] }).of ?? [];
      const links = keep.map((i) => {
        if (of.link[i] === 0) return 0;
        const host = numbers.get(launchers[i] ?? 'main');
        const place = host?.place.get(of.link[i] - 1);
        return host && place !== undefined ? 1 + host.first + place : 0;
      });
      tracks.push({
        rank,
        group,
        title,
        kind,
        first,
        events: keep.length,
        start: writer.delta(pick(of.start)),
        duration: writer.plain(pick(of.duration)),
        name: writer.plain(pick(of.name)),
        category: writer.plain(pick(of.category)),
        ...(deep ? { depth: writer.plain(pick(of.depth)) } : {}),
        ...(of.args.some((a) => a > 0) ? { args: writer.plain(pick(of.args)) } : {}),
        ...(key === 'compute' ? { link: writer.plain(links), slow: writer.plain(pick(of.slow)) } : {}),
        density: density(writer, of, span),
      });
    }
    tracks.splice(tracks.length - 3, 0, memoryTrack(writer, rank, events.compute));
  });
  return writer.finish({
    report: {
      schema: 'profgpu.analysis.v1',
      verdict: 'synthetic',
      ranks: simulated.map((_, rank) => ({
        rank,
        kernels: kKernels.map(([name, short_name, category]) => ({ name, short_name, category })),
      })),
    },
    origin_ns: '1718000000000000123',
    span_ns: span,
    kept: [kept],
    events: all,
    events_kept: number,
    strings: kNames,
    categories: kCategories,
    args: [
      {},
      { 'grid': '[132, 1, 1]', 'block': '[384, 1, 1]', 'registers per thread': '168', 'occupancy': '38 %' },
      { correlation: '4321' },
      { 'input shapes': '[[8, 1024, 4096], [4096, 4096], [4096]]', 'input types': 'bfloat16, bfloat16, bfloat16' },
      { step: '12' },
      { 'size': '128 MiB', 'group': 'default, 2 ranks', 'bus bandwidth': '212 GB/s' },
    ],
    tracks,
    ranks: simulated.map(({ gaps }, rank) => ({ rank, flame: [], kernels: [], gaps })),
    samples: samples(writer, span),
  });
}

function density(writer: PackWriter, events: Events, span: number): Json {
  const bins = 4096;
  const bin_ns = Math.ceil(span / bins);
  const sums = Array.from({ length: bins }, () => new Map<number, number>());
  let reached = 0;
  const order = events.start.map((_, i) => i).sort((a, b) => events.start[a] - events.start[b]);
  for (const i of order) {
    if (events.depth[i] > 0) continue;
    let from = Math.max(reached, events.start[i]);
    const to = events.start[i] + events.duration[i];
    reached = Math.max(reached, to);
    while (from < to) {
      const bin = Math.min(bins - 1, Math.floor(from / bin_ns));
      const stop = Math.min(to, (bin + 1) * bin_ns);
      sums[bin].set(events.category[i], (sums[bin].get(events.category[i]) ?? 0) + stop - from);
      if (bin === bins - 1) break;
      from = stop;
    }
  }
  const winner = sums.map((of) => [...of].reduce((a, b) => (b[1] > a[1] ? b : a), [0, 0])[0]);
  const busy = sums.map((of) =>
    Math.min(255, Math.round((255 * [...of.values()].reduce((a, b) => a + b, 0)) / bin_ns)),
  );
  return { bin_ns, category: writer.plain(winner), busy: writer.plain(busy) };
}

function memoryTrack(writer: PackWriter, rank: number, kernels: Events): Json {
  const time: number[] = [];
  const value: number[] = [];
  let held = 20e9;
  for (let i = 0; i < kernels.start.length; i += 4) {
    time.push(kernels.start[i]);
    held = Math.max(18e9, held + (i % 600 < 300 ? 1 : -1) * 4e7);
    value.push(Math.round(held));
  }
  return {
    rank,
    group: 'GPU 0',
    title: 'memory allocated',
    kind: 'counter',
    unit: 'B',
    time: writer.delta(time),
    value: writer.zigzag(value),
    scale: 1,
  };
}

function samples(writer: PackWriter, span: number): Json[] {
  const random = new Random(5);
  const time = Array.from({ length: 400 }, (_, i) => Math.round((span * i) / 400));
  const wave = (low: number, high: number) =>
    time.map((_, i) => Math.round(1000 * (low + (high - low) * (0.5 + 0.4 * Math.sin(i / 9) + 0.1 * random.next()))));
  return [
    ['power_w', 'power', 'W', 300, 690],
    ['sm_clock_mhz', 'SM clock', 'MHz', 1400, 1980],
    ['temperature_c', 'temperature', '°C', 55, 71],
  ].map(([metric, title, unit, low, high]) => ({
    device: '0',
    rank: 0,
    metric,
    title,
    unit,
    time: writer.delta(time),
    value: writer.zigzag(wave(low as number, high as number)),
    scale: 0.001,
  }));
}
