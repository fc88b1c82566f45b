// What the page knows: the newest message of each kind, series of numbers, traced steps and events, all bounded.

const LONGEST = 2400; // numbers of a series; the older half is thinned when there are more
const STEPS = 16;
const EVENTS = 200;

export class Store {
  constructor(fetchDocument) {
    this.newest = {};
    this.series = new Map();
    this.steps = [];
    this.events = [];
    this.documents = new Map();
    this.fetchDocument = fetchDocument;
    this.listeners = new Set();
  }

  // A connection begins: what was known of steps and events comes again.
  restart() {
    this.newest = {};
    this.steps = [];
    this.events = [];
    this.documents.clear();
  }

  apply(messages) {
    for (const message of messages) this.applyOne(message);
    for (const listener of [...this.listeners]) listener(this);
  }

  applyOne(message) {
    const kind = message.kind;
    if (kind === "Points") for (const [name, value] of Object.entries(message.values)) this.add(name, message.time, value);
    else if (kind === "History") this.series = new Map(Object.entries(message.series).map(([name, { times, values }]) => [name, { times: [...times], values: [...values] }]));
    else if (kind === "StepSummary") this.steps = [...this.steps, message].slice(-STEPS);
    else if (kind === "Event") this.events = [...this.events, message].slice(-EVENTS);
    else this.newest[kind] = message;
  }

  add(name, time, value) {
    let found = this.series.get(name);
    if (!found) this.series.set(name, (found = { times: [], values: [] }));
    found.times.push(time);
    found.values.push(value);
    if (found.times.length > LONGEST) thin(found);
  }

  last(name) {
    const values = this.series.get(name)?.values;
    return values?.length ? values[values.length - 1] : undefined;
  }

  group(prefix) {
    return [...this.series.keys()].filter((name) => name.startsWith(`${prefix}:`));
  }

  // A graph or a traced step: large, so it is fetched when a page shows it.
  document(path, version) {
    const known = this.documents.get(path);
    if (known && known.version === version) return known.promise;
    const promise = this.fetchDocument(path);
    promise.catch(() => this.documents.delete(path));
    this.documents.set(path, { version, promise });
    while (this.documents.size > STEPS + 2) this.documents.delete(this.documents.keys().next().value);
    return promise;
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

function thin(series) {
  const half = LONGEST / 2;
  const times = [];
  const values = [];
  for (let place = 0; place < half; place += 2) {
    times.push(series.times[place + 1]);
    values.push((series.values[place] + series.values[place + 1]) / 2);
  }
  series.times = [...times, ...series.times.slice(half)];
  series.values = [...values, ...series.values.slice(half)];
}
