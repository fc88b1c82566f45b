// The frame of all pages: the connection, the navigation, the theme, the keys.

import { connect, fetchDocument } from "./connection.js";
import { fill, h, markCurrent } from "./dom.js";
import { short } from "./format.js";
import * as cluster from "./pages/cluster.js";
import * as graph from "./pages/graph.js";
import * as run from "./pages/run.js";
import * as serving from "./pages/serving.js";
import * as timeline from "./pages/timeline.js";
import * as training from "./pages/training.js";
import * as waiting from "./pages/waiting.js";
import { Store } from "./store.js";
import { startTheme, switchTheme } from "./theme.js";

const PAGES = { run, timeline, graph, waiting, cluster, training, serving };
const STATES = { live: "live", lost: "connection lost, trying again", resting: "resting" };

const store = new Store(fetchDocument);
const main = document.getElementById("main");
const link = document.getElementById("link");
let mounted = null;
let shownPages = "";

function pages() {
  const wanted = store.newest.Subject?.pages ?? [];
  return Object.keys(PAGES).filter((name) => wanted.includes(name));
}

function go(name, wish = null) {
  if (!pages().includes(name)) return;
  if (location.hash !== `#${name}`) history.pushState(null, "", `#${name}`);
  mount(name, wish);
}

function mount(name, wish = null) {
  mounted?.page.unmount();
  main.replaceChildren();
  main.dataset.page = name;
  mounted = { name, page: PAGES[name].mount(main, store, go, wish) };
  for (const each of document.querySelectorAll("#pages a")) markCurrent(each, "page", each.hash === `#${name}`);
  document.querySelector("#pages a[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${PAGES[name].title}: aioflow`;
}

function showSubject() {
  const subject = store.newest.Subject;
  if (!subject) return;
  const element = document.getElementById("subject");
  element.textContent = short(subject.title, 70);
  element.title = subject.title;
  const names = pages();
  if (names.join() === shownPages) return;
  shownPages = names.join();
  fill(document.getElementById("pages"), names.map((name, place) => h("a", { href: `#${name}`, title: `${PAGES[name].title} (${place + 1})` }, PAGES[name].title)));
  fromAddress();
}

function fromAddress() {
  const name = location.hash.slice(1);
  const names = pages();
  if (names.length) mount(names.includes(name) ? name : names[0]);
}

function showState(state, text = STATES[state]) {
  link.textContent = text;
  link.dataset.state = state;
}

function recolour() {
  switchTheme();
  mounted?.page.recolour?.();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => mounted?.page.recolour?.());
document.getElementById("theme").addEventListener("click", recolour);
addEventListener("popstate", fromAddress);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const name = pages()[Number(event.key) - 1];
  if (name) go(name);
  else if (event.key === "d") recolour();
});

startTheme();
store.listen(showSubject);
connect(store, showState);
