// Graph: operations in collapsing name scopes, coloured by device, time, memory or type, with the critical path.

import { h, fill } from "../dom.js";
import { bytes, deviceName, number, seconds, short } from "../format.js";
import { GraphModel } from "../graph_model.js";
import { GraphView } from "../graph_view.js";
import { textColour } from "../theme.js";

const HITS = 30;
const SMALL = 30; // operations of a graph that is shown whole

export const title = "Graph";

export function mount(main, store) {
  return new GraphPage(main, store);
}

class GraphPage {
  constructor(main, store) {
    this.store = store;
    this.open = new Set();
    this.selected = null;
    this.model = null;
    this.step = null;
    this.view = new GraphView({ onSelect: (box) => this.select(box), onToggle: (path) => this.toggle(path) });
    this.panel = h("aside", { class: "card panel", "aria-live": "polite" });
    this.colours = h("select", { "aria-label": "colour by", onchange: () => this.paint() }, ["device", "time", "memory", "type"].map((name) => h("option", { value: name }, `colour by ${name}`)));
    this.search = h("input", { type: "search", placeholder: "find an operation", "aria-label": "find an operation", oninput: () => this.find(), onkeydown: (event) => { if (event.key === "Enter") this.hits.querySelector("button")?.click(); } });
    this.hits = h("div", { class: "hits", hidden: true });
    this.key = h("div", { class: "legend" });
    this.note = h("span", { class: "muted" }, "loading the graph…");
    const bar = h("div", { class: "bar" }, h("div", { class: "finder" }, this.search, this.hits), this.colours,
      h("button", { type: "button", onclick: () => this.view.fit() }, "fit"),
      h("button", { type: "button", onclick: () => this.closeAll() }, "collapse all"), this.note, this.key);
    main.append(bar, h("div", { class: "split" }, h("div", { class: "card canvas" }, this.view.element), this.panel));
    this.describe();
    this.stop = store.listen(() => this.update());
    this.update();
  }

  unmount() {
    this.stop();
    this.view.destroy();
  }

  update() {
    const known = this.store.newest.GraphSummary;
    if (known && known.version !== this.version) {
      this.version = known.version;
      this.store.document("graph.json", known.version).then((graph) => this.load(graph), (error) => { this.note.textContent = error.message; });
    }
    const last = this.store.steps.at(-1);
    if (last && last.number !== this.stepNumber) {
      this.stepNumber = last.number;
      this.store.document(`steps/${last.number}.json`, 1).then((step) => this.measure(step), () => {});
    }
    if (this.store.newest.PlacedCall !== this.placed) this.place(this.store.newest.PlacedCall);
  }

  load(graph) {
    this.model = new GraphModel(graph);
    if (graph.nodes.length <= SMALL) for (const node of graph.nodes) for (const path of this.model.scopesOf(node.name)) this.open.add(path);
    const more = graph.left_out ? `, ${number(graph.left_out)} more are not shown` : "";
    this.note.textContent = `${number(graph.nodes.length)} operations${more}`;
    this.draw();
    this.view.begin();
  }

  // Times and bytes of operations in the last traced step.
  measure(step) {
    this.step = step;
    this.times = new Map();
    for (const bar of step.bars) {
      const sum = this.times.get(bar.name) ?? { seconds: 0, waited: 0, bytes: 0, runs: 0, device: step.lanes[bar.lane].device };
      if (bar.waits) sum.waited += bar.end - bar.start; else sum.seconds += bar.end - bar.start;
      sum.bytes += bar.bytes;
      sum.runs += 1;
      this.times.set(bar.name, sum);
    }
    this.critical = new Set(step.critical);
    this.values = new Map(step.values.map((value) => [value.name, value]));
    this.paint();
    this.describe();
  }

  place(placed) {
    this.placed = placed;
    this.devices = new Map((placed?.nodes ?? []).map((node) => [node.name, node]));
    this.paint();
    this.describe();
  }

  draw() {
    this.view.draw(this.model.visible(this.open));
    this.paint();
  }

  toggle(path) {
    if (!this.open.delete(path)) this.open.add(path);
    this.draw();
    this.view.fitOrShow(path);
    this.describe();
  }

  closeAll() {
    this.open.clear();
    this.draw();
    this.view.fit();
  }

  select(box) {
    this.selected = box;
    this.paint();
    this.describe();
  }

  sum(box, field) {
    return box.numbers.reduce((sum, at) => sum + (this.times?.get(this.model.nodes[at].name)?.[field] ?? 0), 0);
  }

  deviceOf(name) {
    const device = this.devices?.get(name)?.device ?? this.times?.get(name)?.device ?? this.model.nodes[this.model.byName.get(name)].device;
    return device && deviceName(device);
  }

  paint() {
    if (!this.model) return;
    const by = this.colours.value;
    const field = { time: "seconds", memory: "bytes" }[by];
    const most = field ? Math.max(1e-12, ...[...this.view.boxes.values()].map(({ box }) => this.sum(box, field))) : 0;
    const texts = new Set();
    this.view.paint((box) => {
      const critical = box.numbers.some((at) => this.critical?.has(this.model.nodes[at].name));
      const selected = this.selected?.path === box.path;
      if (field) return { fill: heat(this.sum(box, field) / most), critical, selected };
      const found = new Set(box.numbers.map((at) => (by === "device" ? this.deviceOf(this.model.nodes[at].name) : this.model.nodes[at].op_type)).filter(Boolean));
      if (found.size !== 1) return { fill: null, critical, selected };
      const [text] = found;
      texts.add(text);
      return { fill: `color-mix(in srgb, ${textColour(text)} 38%, var(--card))`, critical, selected };
    });
    this.showKey(field, by, most, [...texts].sort());
  }

  showKey(field, by, most, texts) {
    const keys = field ? [[heat(0), "0"], [heat(1), by === "time" ? seconds(most) : bytes(most)]] : texts.slice(0, 10).map((text) => [`color-mix(in srgb, ${textColour(text)} 60%, var(--card))`, text]);
    const items = keys.map(([colour, text]) => {
      const mark = h("i", {});
      mark.style.background = colour;
      return h("span", { class: "key", title: text }, mark, h("span", { class: "label" }, short(text, 40)));
    });
    if (this.critical?.size) items.push(h("span", { class: "key" }, h("i", { class: "critical" }), h("span", {}, "critical path")));
    fill(this.key, items);
  }

  describe() {
    const box = this.selected;
    if (!box || !this.model) {
      fill(this.panel, h("h2", {}, "Nothing is selected"), h("p", { class: "muted" }, "Click an operation or a scope. A double click, or Enter, opens and closes a scope. Enter in the field above shows the first operation that is found."));
      return;
    }
    const rows = box.isScope ? this.scopeRows(box) : this.nodeRows(this.model.nodes[box.numbers[0]]);
    const toggle = box.isScope ? h("button", { type: "button", onclick: () => this.toggle(box.path) }, this.open.has(box.path) ? "close" : "open") : null;
    fill(this.panel, h("h2", {}, box.isScope ? box.path : this.model.nodes[box.numbers[0]].name), toggle, h("dl", {}, rows.filter(([, value]) => value !== "" && value !== undefined).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }

  scopeRows(box) {
    const types = new Map();
    for (const at of box.numbers) types.set(this.model.nodes[at].op_type, (types.get(this.model.nodes[at].op_type) ?? 0) + 1);
    const common = [...types].sort((first, second) => second[1] - first[1]).slice(0, 6).map(([type, count]) => `${type} ×${count}`).join(", ");
    return [["operations", number(box.count)], ["types", common], ...(this.times ? [["computing", seconds(this.sum(box, "seconds"))], ["results", bytes(this.sum(box, "bytes"))]] : [])];
  }

  nodeRows(node) {
    const time = this.times?.get(node.name);
    const placed = this.devices?.get(node.name);
    return [
      ["type", node.op_type],
      ["results", node.outputs.join("\n")],
      ["inputs", node.inputs.map((at) => this.model.nodes[at].name).join("\n")],
      ["runs after", node.controls.map((at) => this.model.nodes[at].name).join("\n")],
      ["device", this.deviceOf(node.name)],
      ["placed there", placed?.reason ?? ""],
      ["built at", node.line],
      ["last time", time ? `${seconds(time.seconds)}${time.runs > 1 ? ` in ${time.runs} runs` : ""}${time.waited ? `, waited ${seconds(time.waited)}` : ""}` : ""],
      ["last size", time ? bytes(time.bytes) : ""],
      ["last values", valueText(this.values?.get(node.name))],
      ["critical path", this.critical?.has(node.name) ? "yes" : ""],
    ];
  }

  find() {
    const text = this.search.value.trim().toLowerCase();
    const found = text && this.model ? this.model.nodes.filter((node) => node.name.toLowerCase().includes(text)).slice(0, HITS) : [];
    this.hits.hidden = !found.length;
    fill(this.hits, found.map((node) => h("button", { type: "button", title: node.name, onclick: () => this.reveal(node.name) }, short(node.name, 50))));
  }

  reveal(name) {
    this.hits.hidden = true;
    for (const path of this.model.scopesOf(name)) this.open.add(path);
    this.draw();
    const path = `op:${this.model.byName.get(name)}`;
    this.view.show(path);
    const found = this.view.boxes.get(path);
    if (!found) return;
    this.view.focus(path);
    this.select(found.box);
  }

  recolour() {
    this.paint();
  }
}

function heat(share) {
  return `color-mix(in srgb, var(--hot) ${Math.round(Math.sqrt(share) * 85)}%, var(--card))`;
}

function valueText(value) {
  if (!value) return "";
  const strange = value.strange ? `, ${number(value.strange)} not finite` : "";
  return `${number(value.count)} from ${number(value.least)} to ${number(value.most)}, mean ${number(value.mean)}${strange}`;
}
