// How much of the device's peak rate each step uses: a bar a step, recomputation on top of it.

import { legend } from './bars';
import { colourOf } from './colours';
import { element, shown } from './dom';
import { drawing, hatch, roundMarks } from './drawing';
import { duration, percent } from './quantity';
import { isLeftOut, type Step } from './report';
import { colour } from './theme';
import { hideTip, showTip } from './tooltip';
import type { Utilization } from '../page_data';

const kHeight = 190;
const kLeft = 64;
const kBottom = 22;
const kTop = 8;

/** A click opens the step. */
export function utilizationChart(steps: Step[], all: Utilization[], mean_pct: number | null, open: (step: number) => void): { root: HTMLElement; dispose(): void } {
  const by_step = new Map(all.map((use) => [use.step, use]));
  let hovered = -1;
  const slot = (width: number) => Math.min(110, (width - kLeft - 8) / steps.length);
  const made = drawing('Use of the device’s peak rate by step', kHeight, (painter, width, height) => {
    const base = height - kBottom;
    const most = 1.05 * Math.max(...all.map((use) => use.hfu_pct), mean_pct ?? 0, 0.1);
    const scale = (base - kTop) / most;
    painter.font = '11px system-ui, sans-serif';
    painter.textBaseline = 'middle';
    painter.textAlign = 'right';
    for (const mark of roundMarks(most, 4)) {
      const y = Math.round(base - mark * scale) + 0.5;
      painter.fillStyle = colour('line');
      painter.fillRect(kLeft, y, width - kLeft, 1);
      painter.fillStyle = colour('quiet');
      painter.fillText(`${+mark.toPrecision(3)} %`, kLeft - 8, y);
    }
    const wide = slot(width);
    const gap = wide > 4 ? Math.min(6, wide * 0.15) : 0;
    steps.forEach((step, i) => {
      const use = by_step.get(i);
      if (!use) return;
      const x = kLeft + i * wide + gap / 2;
      painter.fillStyle = colourOf('limit:recomputation');
      painter.fillRect(x, base - use.hfu_pct * scale, wide - gap, use.hfu_pct * scale);
      painter.fillStyle = colourOf('limit:necessary_work');
      painter.fillRect(x, base - use.mfu_pct * scale, wide - gap, use.mfu_pct * scale);
      if (isLeftOut(step)) hatch(painter, x, base - use.hfu_pct * scale, wide - gap, use.hfu_pct * scale, colour('back'));
      if (i !== hovered) return;
      painter.strokeStyle = colour('text');
      painter.lineWidth = 1.5;
      painter.strokeRect(x, base - use.hfu_pct * scale, wide - gap, use.hfu_pct * scale);
    });
    painter.textAlign = 'center';
    painter.fillStyle = colour('quiet');
    const every = Math.ceil(40 / wide);
    steps.forEach((step, i) => {
      if (i % every === 0) painter.fillText(String(step.index ?? i), kLeft + (i + 0.5) * wide, base + 12);
    });
    if (mean_pct === null || steps.length < 2) return;
    const end = Math.min(width, kLeft + steps.length * wide);
    const y = Math.round(base - mean_pct * scale) + 0.5;
    painter.strokeStyle = colour('text');
    painter.setLineDash([4, 3]);
    painter.beginPath();
    painter.moveTo(kLeft, y);
    painter.lineTo(end, y);
    painter.stroke();
    painter.setLineDash([]);
    painter.textAlign = 'left';
    painter.fillStyle = colour('text');
    if (end + 100 < width) painter.fillText(`all ${percent(mean_pct)}`, end + 8, y);
  });
  const { canvas } = made;
  const at = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const index = Math.floor((event.clientX - box.left - kLeft) / slot(box.width));
    return by_step.has(index) ? index : -1;
  };
  const hover = (index: number) => {
    if (index !== hovered) made.refresh();
    hovered = index;
  };
  canvas.addEventListener('pointermove', (event) => {
    const index = at(event);
    hover(index);
    if (index < 0) return hideTip();
    const [step, use] = [steps[index]!, by_step.get(index)!];
    showTip(event.clientX, event.clientY, [
      `${shown(step.name, 80)}  ${duration(step.duration_ns)}`, isLeftOut(step) && `${step.warmup ? 'warm-up' : 'incomplete'}: left out of averages`,
      `MFU ${percent(use.mfu_pct)}`, use.hfu_pct > use.mfu_pct && `with recomputation (HFU) ${percent(use.hfu_pct)}`]);
  });
  canvas.addEventListener('pointerleave', () => {
    hover(-1);
    hideTip();
  });
  canvas.addEventListener('click', (event) => {
    if (at(event) >= 0) open(at(event));
  });
  const names: [string, string][] = [['MFU: model FLOPs at the peak rate', 'limit:necessary_work']];
  if (all.some((use) => use.hfu_pct > use.mfu_pct)) names.push(['recomputation on top: HFU', 'limit:recomputation']);
  return {
    root: element('div', { class: 'chart' }, legend(names), canvas),
    dispose() {
      made.dispose();
      hideTip();
    },
  };
}
