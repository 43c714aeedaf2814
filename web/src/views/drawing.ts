// A canvas that fills its place, sharp on any screen, drawn again when its size or the colours change.

import { element } from './dom';
import { onTheme } from './theme';

export interface Drawing {
  canvas: HTMLCanvasElement;
  /** Draws at the next frame. */
  refresh(): void;
  dispose(): void;
}

export type Draw = (painter: CanvasRenderingContext2D, width: number, height: number) => void;

/** `height` in CSS pixels; the width is the parent's. */
export function drawing(label: string, height: number | (() => number), draw: Draw): Drawing {
  const canvas = element('canvas', { class: 'drawing', role: 'img', 'aria-label': label });
  let frame = 0;
  const refresh = () => {
    if (!frame) frame = requestAnimationFrame(paint);
  };
  const paint = () => {
    frame = 0;
    const width = canvas.parentElement?.clientWidth ?? 0;
    const high = typeof height === 'number' ? height : height();
    if (width === 0 || high === 0) return;
    const ratio = devicePixelRatio || 1;
    const [across, down] = [Math.round(width * ratio), Math.round(high * ratio)];
    if (canvas.width !== across || canvas.height !== down) {
      canvas.width = across;
      canvas.height = down;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${high}px`;
    }
    const painter = canvas.getContext('2d');
    if (!painter) return;
    painter.setTransform(ratio, 0, 0, ratio, 0, 0);
    painter.clearRect(0, 0, width, high);
    draw(painter, width, high);
  };
  const observer = new ResizeObserver(refresh);
  queueMicrotask(() => canvas.parentElement && observer.observe(canvas.parentElement));
  const deaf = onTheme(refresh);
  return {
    canvas, refresh,
    dispose() {
      cancelAnimationFrame(frame);
      observer.disconnect();
      deaf();
    },
  };
}

/** A pattern of slanted lines over a colour, for what is not counted. */
export function hatch(painter: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, line: string): void {
  painter.save();
  painter.beginPath();
  painter.rect(x, y, width, height);
  painter.clip();
  painter.strokeStyle = line;
  painter.lineWidth = 1;
  painter.beginPath();
  for (let at = x - height; at < x + width; at += 5) {
    painter.moveTo(at, y + height);
    painter.lineTo(at + height, y);
  }
  painter.stroke();
  painter.restore();
}

/** 1, 2 or 5 of a power of ten, at least as much. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least)!;
}

/** Round numbers from 0 to `most`, at most `wanted` of them and as many as fit; of time in ns they are round in its unit. */
export function roundMarks(most: number, wanted: number): number[] {
  if (!(most > 0)) return [0];
  const step = roundStep(most / Math.max(1, wanted));
  const marks: number[] = [];
  for (let at = 0; at <= most * 1.0001; at += step) marks.push(at);
  return marks;
}
