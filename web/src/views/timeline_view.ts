// The timeline in its tab, and what other views ask it to show.

import { element } from './dom';
import { mountTimeline, type TimelineHandle } from '../timeline/index';
import { askedOfAddress } from './finding_list';
import type { Context, Stretch, View } from './view';

let handle: TimelineHandle | undefined;
let context: Context | undefined;

function withoutTracks(damaged: boolean, log: boolean): string {
  if (damaged) return 'The data of this file are damaged: it holds no events any more.';
  return `${log ? 'A log tells' : 'The input tells'} of no events of the host or of kernels. Record a trace of the job, with profgpu run --trace or torch.profiler, and give it beside it.`;
}

export const timeline: View & { show(stretch: Stretch): void } = {
  id: 'timeline',
  title: 'Timeline',
  of_rank: false,
  absent: ({ data, analysis }) => (data.tracks.length === 0 ? withoutTracks(data.damage.length > 0, analysis.logs.length > 0)
    : analysis.ranks.every((rank) => rank.snapshot && rank.devices.length === 0 && rank.ops.length === 0)
      ? 'A memory snapshot holds no events of the host or of kernels; the view Memory shows it over its allocations. Give the trace of the same process beside it.' : null),
  mount(root, given) {
    const { data, remember } = context = given;
    const made = mountTimeline(root, data, () => remember(timeline, made.place), given.rank.rank);
    root.prepend(element('h2', { class: 'offscreen' }, 'Timeline'));
    handle = made;
    return () => {
      made.dispose();
      handle = context = undefined;
    };
  },
  follow(given) {
    context = given;
    handle?.setRank(given.rank.rank);
  },
  goTo(place) {
    const finding = place.get('finding');
    handle?.goTo(place, finding !== null && context ? askedOfAddress(finding, context) : undefined);
  },
  show(stretch) {
    handle?.show(stretch.start_ns, stretch.end_ns, stretch.target, stretch.asked);
  },
};
