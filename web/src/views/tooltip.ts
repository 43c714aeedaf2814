// One box that follows the pointer, for everything that is drawn.

import { append, element, type Child } from './dom';

const kDistance = 14;  // pixels from the pointer

let box: HTMLElement | undefined;

/** Shows `lines` beside the point; the first is the heading. */
export function showTip(x: number, y: number, lines: Child[]): void {
  if (!box) document.body.append((box = element('div', { class: 'tip', 'aria-hidden': 'true' })));
  box.replaceChildren();
  append(box, lines.filter(Boolean).map((line) => element('div', {}, line)));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const right = x + kDistance + width > innerWidth ? x - kDistance - width : x + kDistance;
  const below = y + kDistance + height > innerHeight ? y - kDistance - height : y + kDistance;
  box.style.left = `${Math.max(4, right)}px`;
  box.style.top = `${Math.max(4, below)}px`;
}

export function hideTip(): void {
  if (box) box.hidden = true;
}
