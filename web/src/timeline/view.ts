import { element } from '../views/dom';

/** The elements that the timeline is made of. */
export interface View {
  plot: HTMLElement;
  plot_canvas: HTMLCanvasElement;
  overlay_canvas: HTMLCanvasElement;
  axis_canvas: HTMLCanvasElement;
  minimap_canvas: HTMLCanvasElement;
  titles: HTMLElement;
  panel: HTMLElement;
  scroller: HTMLElement;
  spacer: HTMLElement;
  status: HTMLElement;
  span_text: HTMLElement;
}

export function buildView(root: HTMLElement, tools: HTMLElement): View {
  const canvas = (label: string) => element('canvas', { 'role': 'img', 'aria-label': label });
  const plot_canvas = canvas('Timeline of the run: tracks over time. Enter selects the event in the middle.');
  const overlay_canvas = element('canvas', { 'class': 'tl-overlay', 'aria-hidden': 'true' });
  const axis_canvas = canvas('Time axis');
  const minimap_canvas = canvas('The whole run; drag the window to choose what is in view');
  const plot = element(
    'div',
    {
      'class': 'tl-plot',
      'tabindex': 0,
      'role': 'application',
      'aria-label': 'Timeline; question mark lists the keys',
    },
    plot_canvas,
    overlay_canvas,
  );
  const titles = element('div', { class: 'tl-titles' });
  const spacer = element('div', {});
  const scroller = element('div', { 'class': 'tl-scroller', 'tabindex': -1, 'aria-hidden': 'true' }, spacer);
  const panel = element('aside', { 'class': 'tl-panel', 'aria-label': 'What is selected', 'tabindex': 0 });
  const status = element('div', { 'class': 'tl-status', 'role': 'status', 'aria-live': 'polite' });
  const span_text = element('div', { class: 'tl-corner' });
  root.replaceChildren(
    element(
      'div',
      { class: 'tl' },
      tools,
      element(
        'div',
        { class: 'tl-body' },
        span_text,
        element('div', { class: 'tl-top' }, minimap_canvas, axis_canvas),
        titles,
        plot,
        scroller,
        panel,
      ),
      status,
    ),
  );
  return {
    plot,
    plot_canvas,
    overlay_canvas,
    axis_canvas,
    minimap_canvas,
    titles,
    panel,
    scroller,
    spacer,
    status,
    span_text,
  };
}
