// Least and most of a counter's values over any stretch, by blocks.

import type { Numbers } from '../page_data';

const kBlock = 64;

export class CounterLevels {
  readonly count: number;
  /** Of the values and 0, which the area stands on. */
  readonly least: number = 0;
  readonly most: number = 0;
  /** All values are the same. */
  readonly constant: boolean;
  private readonly block_least_: Float64Array;
  private readonly block_most_: Float64Array;

  constructor(
    readonly time: Numbers,
    readonly value: Numbers,
  ) {
    this.count = Math.min(time.length, value.length);
    const blocks = Math.ceil(this.count / kBlock);
    this.block_least_ = new Float64Array(blocks).fill(Infinity);
    this.block_most_ = new Float64Array(blocks).fill(-Infinity);
    for (let i = 0; i < this.count; i++) {
      const block = Math.floor(i / kBlock);
      if (value[i] < this.block_least_[block]) this.block_least_[block] = value[i];
      if (value[i] > this.block_most_[block]) this.block_most_[block] = value[i];
    }
    const [low, high] = this.range(0, this.count);
    this.constant = low === high;
    for (let block = 0; block < blocks; block++) {
      this.least = Math.min(this.least, this.block_least_[block]);
      this.most = Math.max(this.most, this.block_most_[block]);
    }
  }

  /** Least and most of the values [from, to). */
  range(from: number, to: number): [number, number] {
    let least = Infinity;
    let most = -Infinity;
    for (let i = from; i < to;) {
      if (i % kBlock === 0 && i + kBlock <= to) {
        least = Math.min(least, this.block_least_[i / kBlock]);
        most = Math.max(most, this.block_most_[i / kBlock]);
        i += kBlock;
      } else {
        least = Math.min(least, this.value[i]);
        most = Math.max(most, this.value[i]);
        i++;
      }
    }
    return [least, most];
  }

  /** Number of values at or before `time`. */
  before(time: number, from: number): number {
    let low = from;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
