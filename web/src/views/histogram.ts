// How a kernel's durations are spread: bars over a logarithmic axis, with median and 95th percentile.

import { colourOf } from './colours';
import { drawing, roundMarks, type Drawing } from './drawing';
import { brief, count, duration } from './quantity';
import { colour } from './theme';
import { hideTip, showTip } from './tooltip';
import type { KernelHistogram } from '../page_data';

export interface Marked {
  name: string;
  ns: number;
}

const kHeight = 190;
const kLeft = 44;
const kRight = 8;
const kTop = 26;
const kBottom = 22;

/** Bins are evenly spaced in the logarithm of the duration. */
export function histogram(spread: KernelHistogram['histogram'], category: string, marks: Marked[]): Drawing {
  const { counts } = spread;
  const from = Math.log(Math.max(1, spread.from_ns));
  const to = Math.max(from + 1e-6, Math.log(Math.max(1, spread.to_ns)));
  const edge = (i: number) => Math.exp(from + ((to - from) * i) / counts.length);
  const most = Math.max(...counts, 1);
  const made = drawing(`Distribution of durations, ${duration(edge(0))} to ${duration(edge(counts.length))}`, kHeight, (painter, width, height) => {
    const base = height - kBottom;
    const wide = width - kLeft - kRight;
    const x_of = (ns: number) => kLeft + (wide * (Math.log(Math.max(1, ns)) - from)) / (to - from);
    painter.font = '11px system-ui, sans-serif';
    painter.textBaseline = 'middle';
    painter.textAlign = 'right';
    for (const mark of roundMarks(most, 4).filter(Number.isInteger)) {
      const y = Math.round(base - ((base - kTop) * mark) / most) + 0.5;
      painter.fillStyle = colour('line');
      painter.fillRect(kLeft, y, wide, 1);
      painter.fillStyle = colour('quiet');
      painter.fillText(count(mark), kLeft - 6, y);
    }
    painter.fillStyle = colourOf(category);
    counts.forEach((n, i) => {
      const tall = n > 0 ? Math.max(1, ((base - kTop) * n) / most) : 0;
      painter.fillRect(kLeft + (wide * i) / counts.length, base - tall, Math.max(1, wide / counts.length - 1), tall);
    });
    durationMarks(painter, from, to, x_of, base, width);
    named(painter, marks, x_of, base, width);
  });
  made.canvas.addEventListener('pointermove', (event) => {
    const box = made.canvas.getBoundingClientRect();
    const bin = Math.floor(((event.clientX - box.left - kLeft) / (box.width - kLeft - kRight)) * counts.length);
    if (bin < 0 || bin >= counts.length) return hideTip();
    showTip(event.clientX, event.clientY, [`${count(counts[bin]!)} calls`, `${duration(edge(bin))} to ${duration(edge(bin + 1))}`]);
  });
  made.canvas.addEventListener('pointerleave', hideTip);
  return made;
}

// 1, 2 and 5 of every power of ten where there is room; round numbers where the durations are all alike.
function durationMarks(
  painter: CanvasRenderingContext2D, from: number, to: number, x_of: (ns: number) => number, base: number, width: number,
): void {
  const ticks: number[] = [];
  for (let power = 10 ** Math.floor(from / Math.LN10); Math.log(power) <= to; power *= 10) {
    for (const n of [1, 2, 5]) if (Math.log(n * power) >= from && Math.log(n * power) <= to) ticks.push(n * power);
  }
  if (ticks.length < 3) {
    const [least, most] = [Math.exp(from), Math.exp(to)];
    const step = roundMarks(most - least, 4)[1] ?? 1;
    ticks.length = 0;
    for (let at = Math.ceil(least / step) * step; at <= most; at += step) ticks.push(at);
  }
  painter.textAlign = 'center';
  painter.fillStyle = colour('quiet');
  let used = -Infinity;
  for (const tick of ticks) {
    const x = Math.min(width - 26, Math.max(kLeft + 14, x_of(tick)));
    if (x - used < 56) continue;
    used = x;
    painter.fillText(brief(duration(tick)), x, base + 12);
  }
}

function named(painter: CanvasRenderingContext2D, marks: Marked[], x_of: (ns: number) => number, base: number, width: number): void {
  let used = -Infinity;
  for (const mark of marks) {
    const x = Math.round(x_of(mark.ns)) + 0.5;
    painter.strokeStyle = colour('text');
    painter.setLineDash([3, 3]);
    painter.beginPath();
    painter.moveTo(x, kTop - 6);
    painter.lineTo(x, base);
    painter.stroke();
    painter.setLineDash([]);
    const text = `${mark.name} ${duration(mark.ns)}`;
    const wide = painter.measureText(text).width;
    const left = Math.min(width - wide - 2, Math.max(kLeft, x - wide / 2, used + 10));
    if (left < used + 4) continue;
    used = left + wide;
    painter.textAlign = 'left';
    painter.fillStyle = colour('text');
    painter.fillText(text, left, kTop - 14);
  }
}
