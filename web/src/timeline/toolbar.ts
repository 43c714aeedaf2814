// Above the plot: search with its count, and the jumps and zooms that the keys do too.

import { button, element } from '../views/dom';
import { count, duration } from '../views/quantity';
import type { Search } from './search';

export interface ToolbarActions {
  search(text: string): void;
  match(backward: boolean): void;
  gap(step: number): void;
  step(by: number): void;
  zoom(factor: number): void;
  whole(): void;
  fit(): void;
  measure(): void;
  panel(): void;
  keys(): void;
  /** Focus goes back to the plot. */
  leave(): void;
}

const kDelay_ms = 150;

export class Toolbar {
  readonly root: HTMLElement;
  private readonly input_: HTMLInputElement;
  private readonly count_: HTMLElement;
  private readonly gap_text_: HTMLElement;
  private timer_: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly actions_: ToolbarActions,
    has: { gaps: boolean; steps: boolean },
  ) {
    this.input_ = element('input', {
      'type': 'search',
      'placeholder': 'Search events ( / )',
      'aria-label': 'Search names and arguments of events',
      'spellcheck': 'false',
      'autocomplete': 'off',
    });
    this.count_ = element('span', { class: 'tl-count', role: 'status' });
    this.gap_text_ = element('span', { class: 'tl-count' });
    this.input_.addEventListener('input', () => {
      clearTimeout(this.timer_);
      this.timer_ = setTimeout(() => actions_.search(this.input_.value), kDelay_ms);
    });
    this.input_.addEventListener('keydown', (event) => this.key(event));
    const group = (label: string, ...children: (Node | null)[]) =>
      element('span', { 'class': 'tl-group', 'role': 'group', 'aria-label': label }, ...children);
    const tool = (text: string, title: string, pressed: () => void) =>
      button(text, { title, 'aria-label': title }, pressed);
    this.root = element(
      'div',
      { 'class': 'tl-tools', 'role': 'toolbar', 'aria-label': 'Timeline' },
      group(
        'Search',
        this.input_,
        tool('‹', 'Previous match (shift + N)', () => actions_.match(true)),
        tool('›', 'Next match (N)', () => actions_.match(false)),
        this.count_,
      ),
      has.gaps
        ? group(
            'Gaps',
            element('span', { class: 'tl-label' }, 'Gaps'),
            tool('‹', 'Next longer gap (shift + G)', () => actions_.gap(-1)),
            tool('›', 'Next shorter gap (G)', () => actions_.gap(1)),
            this.gap_text_,
          )
        : null,
      has.steps
        ? group(
            'Steps',
            element('span', { class: 'tl-label' }, 'Steps'),
            tool('‹', 'Previous step ([)', () => actions_.step(-1)),
            tool('›', 'Next step (])', () => actions_.step(1)),
          )
        : null,
      element('span', { class: 'tl-push' }),
      group(
        'Zoom',
        tool('−', 'Zoom out (S)', () => actions_.zoom(1.6)),
        tool('+', 'Zoom in (W)', () => actions_.zoom(1 / 1.6)),
        tool('Fit', 'Fit what is selected (F)', actions_.fit),
        tool('Whole', 'The whole run (Home)', actions_.whole),
        tool(
          'Measure',
          'Measure: what ran in what is selected, or in view (M); drag over the plot for any span',
          actions_.measure,
        ),
        tool('Panel', 'Hide or show the panel (P)', actions_.panel),
        tool('?', 'Keys of the timeline', actions_.keys),
      ),
    );
  }

  focus(): void {
    this.input_.focus();
    this.input_.select();
  }

  setText(text: string): void {
    this.input_.value = text;
  }

  showGap(text: string): void {
    this.gap_text_.textContent = text;
  }

  /** `position`: number of the match that is selected, from 0. */
  showMatches({ state, active }: Search, position: number | undefined): void {
    let text = '';
    if (active && state.count === 0) text = state.finished ? 'no match' : 'searching …';
    else if (active) {
      const place = position === undefined ? '' : `${count(position + 1)} of `;
      text = `${place}${count(state.count)}${state.finished ? '' : '…'}, ${duration(state.total_ns)}`;
    }
    this.count_.textContent = text;
  }

  private key(event: KeyboardEvent): void {
    if (event.key === 'Enter') {
      clearTimeout(this.timer_);
      this.actions_.search(this.input_.value);
      this.actions_.match(event.shiftKey);
    } else if (event.key === 'Escape') {
      this.input_.value = '';
      clearTimeout(this.timer_);
      this.actions_.search('');
      this.actions_.leave();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
