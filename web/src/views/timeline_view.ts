// The timeline in its tab, and what other views ask it to show.

import { element } from './dom';
import { mountTimeline, type TimelineHandle } from '../timeline/index';
import type { Stretch, View } from './view';

let handle: TimelineHandle | undefined;

export const timeline: View & { show(stretch: Stretch): void } = {
  id: 'timeline',
  title: 'Timeline',
  of_rank: false,
  absent: ({ data, analysis }) => (data.tracks.length === 0 ? 'This file holds no events: it was made of samples, or its data are damaged.'
    : analysis.ranks.every((rank) => rank.snapshot && rank.devices.length === 0 && rank.ops.length === 0)
      ? 'A memory snapshot holds no events of the host or of kernels; the view Memory shows it over its allocations. Give the trace of the same process beside it.' : null),
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
