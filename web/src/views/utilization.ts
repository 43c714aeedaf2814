// How much of the device's peak rate each step uses: a bar a step, recomputation on top of it.

import { legend } from './bars';
import { percent } from './quantity';
import { StepBars } from './step_bars';
import type { Step } from './report';
import type { Utilization } from '../page_data';

const kHeight = 190;

/** A click opens the step. */
export function utilizationChart(steps: Step[], all: Utilization[], mean_pct: number | null, open: (step: number) => void): StepBars {
  const by_step = new Map(all.map((use) => [use.step, use]));
  const bars = new StepBars(steps, {
    label: 'Use of the device’s peak rate by step', height: kHeight, marks: 4, open,
    most: 1.05 * all.reduce((most, use) => Math.max(most, use.hfu_pct), Math.max(mean_pct ?? 0, 0.1)),
    text: (pct) => `${+pct.toPrecision(3)} %`,
    level: mean_pct === null || steps.length < 2 ? undefined : { amount: mean_pct, text: `all ${percent(mean_pct)}` },
    parts: (step) => {
      const use = by_step.get(step);
      return use ? [{ amount: use.mfu_pct, category: 'limit:necessary_work' }, { amount: Math.max(0, use.hfu_pct - use.mfu_pct), category: 'limit:recomputation' }] : [];
    },
    lines: (step) => {
      const use = by_step.get(step)!;
      return [`MFU ${percent(use.mfu_pct)}`, use.hfu_pct > use.mfu_pct && `with recomputation (HFU) ${percent(use.hfu_pct)}`];
    },
  });
  const names: [string, string][] = [['MFU: model FLOPs at the peak rate', 'limit:necessary_work']];
  if (all.some((use) => use.hfu_pct > use.mfu_pct)) names.push(['recomputation on top: HFU', 'limit:recomputation']);
  bars.root.prepend(legend(names));
  return bars;
}
