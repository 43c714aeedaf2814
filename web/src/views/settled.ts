// What is done once the user pauses: keys and wheels ask for it many times in a row.

const kPause_ms = 250;

export interface Settled {
  /** Does it after a pause. */
  soon(): void;
  /** Does it now, and not again for what was asked before. */
  now(): void;
  cancel(): void;
}

export function settled(act: () => void): Settled {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = () => clearTimeout(timer);
  return {
    soon() {
      cancel();
      timer = setTimeout(act, kPause_ms);
    },
    now() {
      cancel();
      act();
    },
    cancel,
  };
}
