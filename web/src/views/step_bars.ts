// A bar for each step over an axis, with a level across all of them; what the bars are made of is the caller's.

import { colourOf } from './colours';
import { element, shown, type Child } from './dom';
import { drawing, hatch, roundMarks } from './drawing';
import { duration } from './quantity';
import { isLeftOut, type Step } from './report';
import { colour } from './theme';
import { hideTip, showTip } from './tooltip';

const kLeft = 64;
const kBottom = 22;
const kTop = 8;
const kWidest = 110;

/** A part of a bar, from the bottom up. */
export interface BarPart {
  amount: number;
  category: string;
}

export interface StepBarsOptions {
  label: string;
  height: number;
  /** What the axis reaches at least. */
  most: number;
  marks: number;
  /** A mark of the axis. */
  text(amount: number): string;
  /** Across all bars. */
  level?: { amount: number; text: string };
  /** By step; a step without parts has no bar. */
  parts(step: number): BarPart[];
  /** What the box beside the pointer says of a step, below its name and length. */
  lines(step: number): Child[];
  /** Absent where a click shows nothing. */
  open?(step: number): void;
}

export class StepBars {
  readonly root = element('div', { class: 'chart' });
  private readonly drawing_;
  private hovered_ = -1;

  constructor(private readonly steps_: Step[], private readonly options_: StepBarsOptions) {
    this.drawing_ = drawing(options_.label, options_.height, (p, w, h) => this.draw(p, w, h));
    const { canvas } = this.drawing_;
    this.root.append(canvas);
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', () => this.hoverOver(-1));
    canvas.addEventListener('click', (event) => {
      const at = this.at(event);
      if (at >= 0) options_.open?.(at);
    });
  }

  refresh(): void {
    this.drawing_.refresh();
  }

  dispose(): void {
    this.drawing_.dispose();
    hideTip();
  }

  private slot(width: number): number {
    return Math.min(kWidest, (width - kLeft - 8) / this.steps_.length);
  }

  private at(event: MouseEvent): number {
    const box = this.drawing_.canvas.getBoundingClientRect();
    const index = Math.floor((event.clientX - box.left - kLeft) / this.slot(box.width));
    return index >= 0 && index < this.steps_.length && this.options_.parts(index).length > 0 ? index : -1;
  }

  private hoverOver(at: number): void {
    if (at < 0) hideTip();
    if (at === this.hovered_) return;
    this.hovered_ = at;
    this.refresh();
  }

  private hover(event: PointerEvent): void {
    const at = this.at(event);
    this.hoverOver(at);
    if (at < 0) return;
    const step = this.steps_[at]!;
    showTip(event.clientX, event.clientY, [
      `${shown(step.name, 80)}  ${duration(step.duration_ns)}`,
      isLeftOut(step) && `${step.warmup ? 'warm-up' : 'incomplete'}: left out of averages`, ...this.options_.lines(at)]);
  }

  private draw(painter: CanvasRenderingContext2D, width: number, height: number): void {
    const base = height - kBottom;
    const bars = this.steps_.map((_, i) => this.options_.parts(i));
    const tall = (parts: BarPart[]) => parts.reduce((sum, part) => sum + part.amount, 0);
    const most = bars.reduce((highest, parts) => Math.max(highest, tall(parts)), this.options_.most);
    const scale = (base - kTop) / most;
    painter.font = '11px system-ui, sans-serif';
    painter.textBaseline = 'middle';
    this.axis(painter, width, base, most, scale);
    const slot = this.slot(width);
    const gap = slot > 4 ? Math.min(6, slot * 0.15) : 0;
    bars.forEach((parts, i) => {
      const x = kLeft + i * slot + gap / 2;
      let top = base;
      for (const { amount, category } of parts) {
        painter.fillStyle = colourOf(category);
        painter.fillRect(x, top - amount * scale, slot - gap, amount * scale);
        top -= amount * scale;
      }
      if (isLeftOut(this.steps_[i])) hatch(painter, x, top, slot - gap, base - top, colour('back'));
      if (i !== this.hovered_) return;
      painter.strokeStyle = colour('text');
      painter.lineWidth = 1.5;
      painter.strokeRect(x, top, slot - gap, base - top);
    });
    this.numbers(painter, slot, base);
    this.level(painter, width, base, scale);
  }

  private axis(painter: CanvasRenderingContext2D, width: number, base: number, most: number, scale: number): void {
    painter.textAlign = 'right';
    for (const mark of roundMarks(most, this.options_.marks)) {
      const y = Math.round(base - mark * scale) + 0.5;
      painter.fillStyle = colour('line');
      painter.fillRect(kLeft, y - 0.5, width - kLeft, 1);
      painter.fillStyle = colour('quiet');
      painter.fillText(this.options_.text(mark), kLeft - 8, y);
    }
  }

  private numbers(painter: CanvasRenderingContext2D, slot: number, base: number): void {
    painter.textAlign = 'center';
    painter.fillStyle = colour('quiet');
    const number = (i: number) => String(this.steps_[i]!.index ?? i);
    const widest = painter.measureText('0'.repeat(number(this.steps_.length - 1).length)).width;
    const every = Math.ceil(Math.max(40, widest + 12) / slot);
    for (let i = 0; i < this.steps_.length; i += every) painter.fillText(number(i), kLeft + (i + 0.5) * slot, base + 12);
  }

  private level(painter: CanvasRenderingContext2D, width: number, base: number, scale: number): void {
    const { level } = this.options_;
    if (!level) return;
    const y = Math.round(base - level.amount * scale) + 0.5;
    const end = Math.min(width, kLeft + this.steps_.length * this.slot(width));
    painter.strokeStyle = colour('text');
    painter.lineWidth = 1;
    painter.setLineDash([4, 3]);
    painter.beginPath();
    painter.moveTo(kLeft, y);
    painter.lineTo(end, y);
    painter.stroke();
    painter.setLineDash([]);
    painter.textAlign = 'left';
    painter.fillStyle = colour('text');
    if (end + 16 + painter.measureText(level.text).width < width) painter.fillText(level.text, end + 8, y);
  }
}
