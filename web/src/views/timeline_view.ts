// The timeline in its tab, and what other views ask it to show.

import { element } from './dom';
import { mountTimeline, type TimelineHandle } from '../timeline/index';
import type { Stretch, View } from './view';

let handle: TimelineHandle | undefined;

export const timeline: View & { show(stretch: Stretch): void } = {
  id: 'timeline',
  title: 'Timeline',
  of_rank: false,
  absent: ({ data }) => (data.tracks.length > 0 ? null : 'This file holds no events: it was made of samples, or its data are damaged.'),
  mount(root, { data, remember }) {
    const made = mountTimeline(root, data, () => remember(timeline, made.place));
    root.prepend(element('h2', { class: 'offscreen' }, 'Timeline'));
    handle = made;
    return () => {
      made.dispose();
      handle = undefined;
    };
  },
  goTo(place) {
    handle?.goTo(place);
  },
  show(stretch) {
    handle?.show(stretch.start_ns, stretch.end_ns, stretch.target, stretch.asked);
  },
};
