import { button, element } from '../views/dom';
import { kTimelineKeys } from './keys';

/** A box with the timeline's keys. */
export function showTimelineKeys(): void {
  const box: HTMLDialogElement = element(
    'dialog',
    { 'class': 'keys', 'aria-labelledby': 'tl-keys-title' },
    element('h2', { id: 'tl-keys-title' }, 'Keys of the timeline'),
    element('dl', {}, ...kTimelineKeys.flatMap(([key, does]) => [element('dt', {}, key), element('dd', {}, does)])),
    button('Close', {}, () => box.close()),
  );
  box.addEventListener('close', () => box.remove());
  document.body.append(box);
  box.showModal();
}
