// What the page knows: the newest message of each kind, series of numbers, traced steps and events, all bounded.

import { Series } from "./series.js";

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
    else if (kind === "History") this.series = new Map(Object.entries(message.series).map(([name, { times, values }]) => [name, new Series(times, values)]));
    else if (kind === "StepSummary") this.steps = [...this.steps, message].slice(-STEPS);
    else if (kind === "Event") this.events = [...this.events, message].slice(-EVENTS);
    else this.newest[kind] = message;
  }

  add(name, time, value) {
    if (!this.series.has(name)) this.series.set(name, new Series());
    this.series.get(name).add(time, value);
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
