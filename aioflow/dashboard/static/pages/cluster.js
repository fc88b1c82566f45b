// Cluster: tasks and their processes, connections, and what happened to them on one time line.

import { Chart } from "../chart.js";
import { h, fill, svg } from "../dom.js";
import { bytes, clock, number, seconds, taskName } from "../format.js";

const LINES = 8;
const ROW = 26;
const NAMES = 130;

export const title = "Cluster";

export function mount(main, store) {
  const tasks = h("div", { class: "tasks" });
  const speed = new Chart("Steps per second of tasks", { names: (known) => known.group("task").slice(0, LINES).map((name) => [name, taskName(name.slice("task:".length))]), format: number });
  const staleness = new Chart("Staleness of gradients, in steps", { names: () => [["train:staleness", "staleness"]], format: number });
  const links = h("section", { class: "card" });
  const line = h("section", { class: "card wide" });
  const charts = [speed, staleness];
  main.append(tasks, h("div", { class: "grid" }, speed.element, staleness.element, links), line);

  function update() {
    const found = store.newest.Cluster;
    const events = store.events.filter((event) => event.task || event.level !== "info" || found);
    if (found) {
      fill(tasks, found.tasks.map((task) => taskCard(task, store)));
      showLinks(links, found.tasks);
    } else fill(tasks, h("p", { class: "empty" }, "No task has answered yet."));
    for (const chart of charts) chart.update(store);
    showEvents(line, events, found);
  }

  update();
  const stop = store.listen(update);
  return { recolour: () => charts.forEach((chart) => chart.recolour()), unmount: () => { stop(); charts.forEach((chart) => chart.destroy()); } };
}

function taskCard(task, store) {
  const rows = task.state === "up"
    ? [["steps/s", number(store.last(`task:${task.name}`) ?? 0)], ["steps", number(task.steps)], ["running", number(task.running)], ["memory", task.memory ? bytes(task.memory) : "not tracked"], ["answers in", seconds(task.round_trip)]]
    : [["since", clock(task.since)], ["why", task.why || "it has not answered yet"]];
  return h("section", { class: `card task ${task.state}` },
    h("h2", { title: task.name }, h("i", { class: "dot" }), taskName(task.name), h("span", { class: "muted" }, ` ${task.state}`)),
    h("p", { class: "muted" }, task.address, task.incarnation ? ` · process ${task.incarnation.slice(0, 8)} since ${clock(task.since)}` : ""),
    h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function showLinks(card, tasks) {
  const rows = tasks.flatMap((task) => task.links.map((link) => [task, link]));
  if (!rows.length) return fill(card, h("h2", {}, "Connections between tasks"), h("p", { class: "muted" }, "There are none now."));
  return fill(card, h("h2", {}, "Connections between tasks"), h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["from", "to", "sent", "received", "round trip"].map((name) => h("th", {}, name)))),
    h("tbody", {}, rows.map(([task, link]) => h("tr", { class: link.interrupted ? "bad" : "" }, h("td", {}, taskName(task.name)), h("td", {}, `${taskName(link.task)}${link.interrupted ? " (interrupted)" : ""}`), h("td", {}, bytes(link.sent)), h("td", {}, bytes(link.received)), h("td", {}, seconds(link.round_trip))))))));
}

// A row for each task with a dot for each event, and the texts below, the newest first.
function showEvents(card, events, cluster) {
  if (!events.length) return fill(card, h("h2", {}, "Events"), h("p", { class: "muted" }, "Nothing has happened since this page was opened."));
  const names = [...new Set([...(cluster?.tasks ?? []).map((task) => task.name), ...events.map((event) => event.task)])];
  const [first, last] = [events[0].time, Math.max(cluster?.time ?? 0, events.at(-1).time, events[0].time + 1)];
  const width = Math.max(240, card.clientWidth - 28 || 800);
  const x = (time) => NAMES + 10 + ((time - first) / (last - first)) * (width - NAMES - 24);
  const picture = svg("svg", { class: "events", width, height: names.length * ROW + 22, role: "img", "aria-label": "events in time" });
  names.forEach((name, place) => {
    const y = place * ROW + ROW / 2;
    picture.append(svg("text", { x: 0, y: y + 4 }, name ? taskName(name) : "all"), svg("line", { x1: NAMES, x2: width, y1: y, y2: y }));
    for (const event of events.filter((each) => each.task === name)) picture.append(svg("circle", { cx: x(event.time), cy: y, r: 6, class: event.level }, svg("title", {}, `${clock(event.time)} ${event.text}`)));
  });
  picture.append(svg("text", { x: NAMES, y: names.length * ROW + 16 }, clock(first)), svg("text", { x: width, y: names.length * ROW + 16, class: "end" }, clock(last)));
  const list = [...events].reverse().slice(0, 60).map((event) => h("li", { class: event.level }, h("time", {}, clock(event.time)), h("b", {}, event.task ? taskName(event.task) : ""), h("span", {}, event.text)));
  return fill(card, h("h2", {}, "Events"), picture, h("ul", { class: "events" }, list));
}
