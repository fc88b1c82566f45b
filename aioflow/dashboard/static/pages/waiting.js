// Waiting: what `session.explain()` reports, as a picture: operations under way, what they wait for, and deadlocks.

import { h, fill, svg } from "../dom.js";
import { clock, seconds, short, taskName } from "../format.js";

const WIDTH = 230;
const HEIGHT = 62;
const GAP = 90;

export const title = "Waiting";

export function mount(main, store) {
  const head = h("p", { class: "state", role: "status" });
  const cycles = h("div", {});
  const rows = h("div", { class: "waits" });
  const notes = h("ul", { class: "notes" });
  main.append(head, cycles, rows, notes);
  let shown = null;

  function update() {
    const waits = store.newest.Waits;
    if (waits === shown) return;
    shown = waits;
    if (!waits) return;
    const calm = !waits.waiters.length && !waits.callers.length;
    head.textContent = calm ? `Nothing was under way at ${clock(waits.time)}.` : summary(waits);
    head.className = `state ${waits.stuck ? "bad" : "good"}`;
    fill(cycles, waits.cycles.map(cyclePicture));
    fill(rows, waits.waiters.map((waiter) => waiterRow(waiter, waits)), waits.callers.map(callerRow));
    fill(notes, waits.notes.map((note) => h("li", {}, note)));
  }

  head.textContent = "Nothing is known yet.";
  update();
  return { unmount: store.listen(update) };
}

function summary(waits) {
  const count = waits.waiters.length + waits.left_out;
  const verdict = waits.cycles.length ? "Deadlock." : waits.stuck ? "Stuck." : "Going on.";
  const callers = waits.callers.length ? `, ${waits.callers.length} of the application` : "";
  return `${verdict} ${count} operation${count === 1 ? "" : "s"} under way${callers}, at ${clock(waits.time)}.`;
}

// The one that waits on the left, an arrow with the time, the thing it waits for on the right.
function waiterRow(waiter, waits) {
  const inCycle = waits.cycles.some((cycle) => cycle.edges.some((edge) => edge.operation === waiter.operation && edge.step === waiter.step));
  const bad = inCycle || (waits.stuck && !waiter.computes);
  const target = waiter.what || (waiter.computes ? "computes" : "has not ended");
  return h("div", { class: `wait${bad ? " bad" : ""}` },
    box(waiter.operation, `${waiter.op_type} · step ${waiter.step}${waiter.task ? ` · ${taskName(waiter.task)}` : ""}${waiter.iteration ? ` · ${waiter.iteration}` : ""}`, waiter.line),
    h("div", { class: "arrow" }, h("span", {}, seconds(waiter.seconds)), h("i", {})),
    h("div", { class: "box target" }, h("b", {}, waiter.what ? `waits to ${waiter.what}` : target), waiter.holder ? h("small", {}, waiter.holder) : null),
  );
}

function callerRow(caller) {
  return h("div", { class: "wait" },
    box(caller.task || "application", "asyncio task", caller.line),
    h("div", { class: "arrow" }, h("span", {}, seconds(caller.seconds)), h("i", {})),
    h("div", { class: "box target" }, h("b", {}, `waits to ${caller.what}`)),
  );
}

function box(name, about, line) {
  return h("div", { class: "box" }, h("b", { title: name }, short(name, 60)), h("span", {}, about), line ? h("small", { title: line }, line) : null);
}

// A ring of boxes: each operation waits for the next one.
function cyclePicture(cycle) {
  const edges = cycle.edges;
  const columns = Math.min(edges.length, 3);
  const places = edges.map((_, place) => [(place % columns) * (WIDTH + GAP), Math.floor(place / columns) * (HEIGHT + GAP)]);
  const width = columns * WIDTH + (columns - 1) * GAP + 2;
  const height = Math.ceil(edges.length / columns) * (HEIGHT + GAP) - GAP + 50;
  const picture = svg("svg", { viewBox: `-1 -1 ${width} ${height}`, width, class: "cycle", role: "img", "aria-label": "cycle of waiting operations" });
  picture.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: "tip" }))));
  edges.forEach((edge, place) => {
    const [x, y] = places[place];
    picture.append(link(places[place], places[(place + 1) % edges.length], edges.length));
    picture.append(svg("g", { transform: `translate(${x} ${y})` },
      svg("title", {}, `${edge.operation} waits to ${edge.what}, which needs ${edge.awaited}\n${edge.line}`),
      svg("rect", { width: WIDTH, height: HEIGHT, rx: 7 }),
      svg("text", { x: 10, y: 20, class: "name" }, short(edge.operation, 28)),
      svg("text", { x: 10, y: 37 }, short(`waits to ${edge.what}`, 34)),
      svg("text", { x: 10, y: 53 }, short(`needs ${edge.awaited}`, 34))));
  });
  const head = edges.length === 1 ? "Deadlock: an operation waits for itself" : `Deadlock: a cycle of ${edges.length} operations`;
  return h("section", { class: "card bad" }, h("h2", {}, head), h("div", { class: "scroll" }, picture));
}

function link([fromX, fromY], [toX, toY], count) {
  const middle = HEIGHT / 2;
  const d = toX > fromX && toY === fromY
    ? `M${fromX + WIDTH} ${fromY + middle}L${toX - 3} ${toY + middle}`
    : `M${fromX + WIDTH / 2} ${fromY + HEIGHT}C${fromX + WIDTH / 2} ${fromY + HEIGHT + 46} ${toX + WIDTH / 2} ${(count <= 3 ? toY + HEIGHT + 46 : toY - 46)} ${toX + WIDTH / 2} ${count <= 3 ? toY + HEIGHT + 3 : toY - 3}`;
  return svg("path", { d, class: "link", "marker-end": "url(#tip)" });
}
