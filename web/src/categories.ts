// A title and a colour for every category of events and kind of time: one colour, one meaning, in every view. Hues of
// kernels start from Okabe and Ito's set, which people who do not see red and green apart tell by lightness and blueness;
// the other families have hues between those. What means the same has the same colour: waiting for data, say, whether as
// a phase or as the cause of idle time.

export interface Category {
  title: string;
  light: string;
  dark: string;
}

const kUnknown: Category = { title: 'other', light: '#9aa0a6', dark: '#868d95' };

const kCategories: Readonly<Record<string, Category>> = {
  'gemm': { title: 'matrix multiplication', light: '#0072b2', dark: '#2f8fd0' },
  'convolution': { title: 'convolution', light: '#56b4e9', dark: '#7cc8f2' },
  'attention': { title: 'attention', light: '#cc79a7', dark: '#d98cb8' },
  'normalization': { title: 'normalization', light: '#009e73', dark: '#22b38a' },
  'elementwise': { title: 'elementwise', light: '#e69f00', dark: '#edae2a' },
  'reduction': { title: 'reduction', light: '#d9c400', dark: '#f0e442' },
  'embedding': { title: 'embedding', light: '#7d6bb5', dark: '#9d8ed6' },
  'optimizer': { title: 'optimizer', light: '#a6683c', dark: '#bd8052' },
  'copy': { title: 'copy kernel', light: '#76818c', dark: '#8b97a3' },
  'communication': { title: 'communication', light: '#d55e00', dark: '#ee7a20' },
  'other': kUnknown,
  'memcpy': { title: 'memory copy', light: '#5b6b80', dark: '#7b8da6' },
  'memset': { title: 'memory set', light: '#8fa0b5', dark: '#a3b4c9' },

  'op': { title: 'operator', light: '#4f8fc0', dark: '#5a9bd0' },
  'annotation': { title: 'annotation', light: '#4aa890', dark: '#4fb399' },
  'python': { title: 'Python', light: '#d3bd4e', dark: '#c9b348' },
  'runtime': { title: 'runtime call', light: '#e3a15a', dark: '#d9974f' },
  'driver': { title: 'driver call', light: '#b47a45', dark: '#b88250' },
  'overhead': { title: 'profiler overhead', light: '#a05a86', dark: '#b5709b' },
  'library': { title: 'library call', light: '#7a9a3c', dark: '#93b552' },
  'system': { title: 'C library call', light: '#8a8f98', dark: '#7d848e' },

  'data_loading': { title: 'data loading', light: '#b0185c', dark: '#e0568f' },
  'forward': { title: 'forward', light: '#7fb2a5', dark: '#8cc4b6' },
  'backward': { title: 'backward', light: '#3f6b8c', dark: '#5f93ba' },
  'checkpoint': { title: 'checkpoint', light: '#4d8a2f', dark: '#79b558' },
  'own_phase': { title: 'named by the program', light: '#9a6fc4', dark: '#b08ad6' },
  'other_phase': { title: 'other', light: '#b4bac1', dark: '#6b727a' },

  'idle:data_loading': { title: 'idle: data loading', light: '#b0185c', dark: '#e0568f' },
  'idle:host_bound': { title: 'idle: host bound', light: '#e58a8a', dark: '#f0a3a3' },
  'idle:launch_latency': { title: 'idle: launch latency', light: '#f4c9b4', dark: '#d9a58c' },
  'idle:synchronization': { title: 'idle: synchronization', light: '#8b5a9b', dark: '#a873b8' },
  'idle:dependency': { title: 'idle: dependency', light: '#74c3c9', dark: '#58a9b0' },
  'idle:memory_allocation': { title: 'idle: memory allocation', light: '#5a478c', dark: '#7f6cc0' },
  'idle:checkpoint': { title: 'idle: checkpoint', light: '#4d8a2f', dark: '#79b558' },
  'idle:first_use': { title: 'idle: first use', light: '#7c5f16', dark: '#b0923f' },
  'idle:untraced_work': { title: 'idle: untraced work', light: '#c9ced4', dark: '#56606c' },
  'idle:no_requests': { title: 'idle: no requests', light: '#9fb6a8', dark: '#5f7a6b' },
  'idle:unknown': { title: 'idle: unknown', light: '#a4abb3', dark: '#767d86' },

  'limit:necessary_work': { title: 'the least time for its work', light: '#1a7f4b', dark: '#46b87f' },
  'limit:products': { title: 'GEMMs below peak', light: '#3d5fc4', dark: '#7f9bf0' },
  'limit:memory_bound': { title: 'kernels below memory bandwidth', light: '#b58900', dark: '#d6ad2f' },
  'limit:small_kernels': { title: 'kernels too small for the GPU', light: '#a84848', dark: '#d48282' },
  'limit:recomputation': { title: 'recomputation', light: '#7a4fa0', dark: '#a982cf' },
  'limit:unknown_work': { title: 'kernels of unknown work', light: '#8d8d7a', dark: '#9a9a88' },

  'memory:parameter': { title: 'parameters', light: '#2f6db5', dark: '#5d9be0' },
  'memory:gradient': { title: 'gradients', light: '#c8503c', dark: '#e8826f' },
  'memory:optimizer_state': { title: 'optimizer states', light: '#8a5a2b', dark: '#b98a58' },
  'memory:activation': { title: 'activations', light: '#2b9348', dark: '#57bd74' },
  'memory:temporary': { title: 'temporary tensors', light: '#e0a526', dark: '#e9b84d' },
  'memory:communication': { title: 'communication buffers', light: '#d55e00', dark: '#ee7a20' },
  'memory:kv_cache': { title: 'key-value cache', light: '#0f8b8d', dark: '#3fb9bb' },
  'memory:graph_pool': { title: 'CUDA graph pools', light: '#6b4fbb', dark: '#9a82e0' },
  'memory:memory_pool': { title: 'memory pools', light: '#4b6a88', dark: '#86a6c6' },
  'memory:workspace': { title: 'workspaces', light: '#b03a8c', dark: '#d673b8' },
  'memory:input': { title: 'inputs', light: '#7f9c1d', dark: '#a8c452' },
  'memory:autograd': { title: 'autograd’s own', light: '#d48fb0', dark: '#c97fa3' },
  'memory:unknown': { title: 'unattributed', light: '#98a1ab', dark: '#7a838c' },

  'compute': { title: 'compute', light: '#274690', dark: '#5b7bd0' },
  'idle': { title: 'idle', light: '#d5dae0', dark: '#3a434c' },

  'step': { title: 'step', light: '#8796a8', dark: '#64748a' },
  'warmup': { title: 'warm-up step', light: '#c3ccd6', dark: '#46515f' },
  'sync': { title: 'synchronization', light: '#8b5a9b', dark: '#a873b8' },
  'collective': { title: 'collective', light: '#d55e00', dark: '#ee7a20' },
  'wait': { title: 'wait for other ranks', light: '#f3c9a0', dark: '#8a5a30' },
  'blocked': { title: 'thread blocked', light: '#c9ced4', dark: '#56606c' },
};

/** What to show of a category; names it does not know keep their own text and are grey. */
export function categoryOf(id: string): Category {
  const known = Object.hasOwn(kCategories, id) ? kCategories[id] : undefined;
  return known ?? { ...kUnknown, title: id.replaceAll('_', ' ').replace(':', ': ') || kUnknown.title };
}

export function categoryTitle(id: string): string {
  return categoryOf(id).title;
}

/** A cause of idle time, where the words around it say that it is one: "untraced work". */
export function causeTitle(cause: string): string {
  return categoryTitle(`idle:${cause}`).replace(/^idle: /, '');
}

/** The page's styles may set `--cat-<category>` (a colon of the name is written as a dash); else our own colour. */
export function categoryColour(id: string, dark: boolean, styles?: CSSStyleDeclaration): string {
  const own = categoryOf(id);
  return styles?.getPropertyValue(`--cat-${id.replaceAll(':', '-')}`).trim() || (dark ? own.dark : own.light);
}
