// The timeline's keys, for its own list and for any other that names them.

export const kTimelineKeys: [string, string][] = [
  ['W S', 'zoom in and out'],
  ['A D, ← →', 'pan'],
  ['↑ ↓, page up and down', 'scroll through the tracks'],
  ['0, Home', 'the whole run'],
  ['F', 'fit what is selected'],
  ['[ ]', 'previous and next step'],
  ['G, shift + G', 'next shorter and longer gap, with its cause'],
  ['/, Ctrl + F', 'search names and arguments'],
  ['N, shift + N', 'next and previous match'],
  ['Enter', 'select the event in the middle'],
  ['shift + ← →', 'select the event before or after on the row'],
  ['shift + ↑ ↓', 'select the caller, or the first call inside'],
  ['M', 'measure what is selected, or what is in view'],
  ['P', 'hide or show the panel'],
  ['Esc', 'clear selection, then search'],
  ['wheel', 'zoom at the pointer; with shift: pan'],
  ['drag', 'select a span of time; with shift, the middle button or a finger: pan'],
  ['double click', 'fit the event'],
];
