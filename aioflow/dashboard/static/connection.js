// The websocket: it comes back by itself, and rests while the page is hidden.

const FIRST = 500;
const LONGEST = 10000;

export function connect(store, onState) {
  let pause = FIRST;
  let socket = null;
  let timer = null;

  function open() {
    timer = null;
    if (document.hidden || socket) return;
    const address = new URL("updates", document.baseURI);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(address);
    socket.onopen = () => { pause = FIRST; store.restart(); onState("live"); };
    socket.onmessage = (event) => store.apply(JSON.parse(event.data));
    socket.onclose = () => {
      socket = null;
      onState(document.hidden ? "resting" : "lost");
      timer ??= setTimeout(open, pause);
      pause = Math.min(pause * 2, LONGEST);
    };
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) socket?.close();
    else { pause = FIRST; open(); }
  });
  open();
}

// Where a browser saves a document from.
export async function addressOf(path) {
  return path;
}

export async function fetchDocument(path) {
  const response = await fetch(new URL(path, document.baseURI));
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}
