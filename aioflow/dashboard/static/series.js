// A series of numbers in bounded memory: the older a number, the coarser it is kept, as `history.py` does it.
//
// The arrays have the numbers in order. Their end is the first level. When a level has too many, its two oldest become
// one, their mean, in the next level, which lies before it.

const LEVELS = 8;
export const LENGTH = 300; // numbers of a level

export class Series {
  // Given numbers are divided among the levels, the newest in the first.
  constructor(times = [], values = []) {
    this.times = [...times];
    this.values = [...values];
    this.counts = new Array(LEVELS).fill(0);
    let left = times.length;
    for (let level = 0; level < LEVELS; level += 1) {
      this.counts[level] = level < LEVELS - 1 ? Math.min(left, LENGTH) : left;
      left -= this.counts[level];
    }
  }

  add(time, value) {
    this.times.push(time);
    this.values.push(value);
    this.counts[0] += 1;
    for (let level = 0; level < LEVELS && this.counts[level] > LENGTH; level += 1) this.coarsen(level);
  }

  coarsen(level) {
    if (level === LEVELS - 1) {
      this.times.shift();
      this.values.shift();
      this.counts[level] -= 1;
      return;
    }
    const place = this.counts.slice(level + 1).reduce((sum, count) => sum + count, 0);
    const mean = ((this.values[place] ?? 0) + (this.values[place + 1] ?? 0)) / 2;
    this.times.splice(place, 2, this.times[place + 1]);
    this.values.splice(place, 2, mean);
    this.counts[level] -= 2;
    this.counts[level + 1] += 1;
  }
}
