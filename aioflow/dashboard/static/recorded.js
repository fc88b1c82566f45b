// Takes the place of `connection.js` in a report: the recorded run lies in the page itself, compressed.

import { date } from "./format.js";

const reading = read();
const addresses = new Map();

async function read() {
  const text = atob(document.getElementById("recording").textContent);
  const packed = new Blob([Uint8Array.from(text, (letter) => letter.charCodeAt(0))]);
  return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

export async function connect(store, onState) {
  const { messages } = await reading;
  store.apply(messages.map((message) => JSON.parse(message)));
  onState("recorded", `recorded ${date(store.newest.Subject.began)}`);
}

export async function fetchDocument(path) {
  const { documents } = await reading;
  if (!(path in documents)) throw new Error("the recording does not have it");
  return JSON.parse(documents[path]);
}

// Where a browser saves a document from.
export async function addressOf(path) {
  const { documents } = await reading;
  if (!addresses.has(path)) addresses.set(path, URL.createObjectURL(new Blob([documents[path]], { type: "application/json" })));
  return addresses.get(path);
}
