// What the keyboard does, as a box over the page.

import { kTimelineKeys } from '../timeline/keys';
import { button, element } from './dom';

const kKeys: [string, [string, string][]][] = [
  ['Everywhere', [['1 … 9, 0, i', 'go to a view'], ['← →', 'next view, with a tab in focus'], ['?', 'this list'], ['Esc', 'close this list']]],
  ['Timeline', kTimelineKeys],
  ['Tables', [['↑ ↓, page up and down', 'pick a row, with the table in focus'], ['Home, End', 'first and last row']]],
  ['Roofline', [['← →', 'go to the next operator or kernel, by intensity'], ['Enter', 'show it in the timeline']]],
  ['Memory snapshot', [['← →', 'move the cursor; with shift by one event'], ['↑ ↓', 'pick what is held there, one by one'], ['+ -', 'zoom in and out'], ['Home, End, P', 'first and last event, the peak'], ['Esc', 'all of it']]],
  ['Flame graph', [['← → ↑ ↓', 'go to a neighbor, caller or callee'], ['Enter', 'zoom in'], ['Backspace', 'zoom out'], ['Esc', 'all of it']]],
];

let box: HTMLDialogElement | undefined;

export function showKeys(): void {
  if (!box) {
    const made = element('dialog', { class: 'keys', 'aria-labelledby': 'keys-title' },
      element('h2', { id: 'keys-title' }, 'Keyboard'),
      ...kKeys.map(([where, keys]) => element('section', {}, element('h3', {}, where),
        element('dl', {}, ...keys.flatMap(([key, does]) => [element('dt', {}, key), element('dd', {}, does)])))),
      button('Close', {}, () => made.close()));
    document.body.append((box = made));
  }
  if (!box.open) box.showModal();
}
