// A page that follows the queue: whatever happens there, the parts marked data-live are fetched again and changed in
// place, so that focus, scrolling and selection stay. The server renders them; nothing is rendered twice.

const SOON_MS = 1000, SHARE = 5, MOST_MS = 15000; // after an event; between two fetches as a multiple of one, and at most
const ANYWAY_MS = 30000; // elapsed times and estimates change although nothing happens
const AGAIN_MS = [1000, 2000, 5000]; // after a failure

class Live {
  constructor() {
    this.box = document.getElementById("state");
    this.failures = 0;
    this.took = 0;
    this.over = false; // the session has ended
    if (!document.querySelector("[data-live]")) return;
    this.listen();
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.stream?.close(); else this.listen(true); });
    setInterval(() => this.soon(), ANYWAY_MS);
  }

  // The stream of events: each means that something may have changed. A hidden page has none, since a browser has only
  // six connections to a server for all its tabs. returned: the page was hidden, and may have missed something.
  listen(returned = false) {
    this.stream?.close();
    if (this.over || document.hidden) return;
    this.stream = new EventSource(`/v1/events`);
    this.stream.onopen = () => {
      if (returned) document.dispatchEvent(new Event("queue"));
      if (returned || this.failures) this.soon(0);
      returned = false;
    };
    this.stream.onerror = () => {
      if (this.stream.readyState === EventSource.CLOSED) this.again(() => this.listen());
      this.soon();
    };
    const happened = () => { document.dispatchEvent(new Event("queue")); this.soon(); };
    this.stream.onmessage = happened;
    for (const kind of document.body.dataset.kinds?.split(" ") ?? []) this.stream.addEventListener(kind, happened);
  }

  again(act) {
    clearTimeout(this.retry);
    this.retry = setTimeout(act, AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)]);
  }

  // Fetches the page again, not too often; one without such parts does not change.
  soon(wait = Math.min(Math.max(SOON_MS, SHARE * this.took), MOST_MS)) {
    if (this.waiting || this.over || document.hidden) return;
    this.waiting = true;
    setTimeout(() => this.refresh(), wait);
  }

  async refresh() {
    const begun = performance.now();
    try {
      const answer = await fetch(this.address(), { headers: { accept: "text/html" }, redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 401) return this.ended();
      if (answer.status === 503) throw new Error("away");
      if (answer.ok) this.show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      this.back();
    } catch {
      this.away();
    } finally {
      this.took = performance.now() - begun;
      this.waiting = false;
    }
    return undefined;
  }

  // Without what was asked for once: a change that was tried, and the verb that led here.
  address() {
    const url = new URL(location.href);
    for (const name of ["try", "done"]) url.searchParams.delete(name);
    return url;
  }

  show(page) {
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = page.getElementById(part.id);
      if (next) morph(part, next);
    }
    document.getElementById("main").dataset.now = page.getElementById("main").dataset.now;
  }

  back() {
    const was = this.failures;
    this.failures = 0;
    if (!was) return;
    this.say("The queue answers again.");
    document.dispatchEvent(new Event("queue"));
    clearTimeout(this.cleared);
    this.cleared = setTimeout(() => this.say(""), 4000);
    if (this.stream?.readyState === EventSource.CLOSED) this.listen();
  }

  away() {
    if (!this.failures++) {
      const at = new Date().toLocaleTimeString("en-GB");
      clearTimeout(this.cleared);
      this.say(`The queue has not answered since ${at}. This page shows the last known state and keeps retrying.`);
    }
    this.again(() => this.soon(0));
  }

  ended() {
    this.over = true;
    this.stream?.close();
    this.say("Your session has ended. ");
    const link = document.createElement("a");
    link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
    link.textContent = "Log in again";
    this.box.append(link);
  }

  say(text) { this.box.textContent = text; }
}

// Changes one element into another, keeping what is equal, what is marked data-kept, what was typed, and elements with
// an id wherever they move to.
function morph(from, to) {
  if (from.isEqualNode(to) || from.dataset?.kept !== undefined) return;
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
    from.replaceWith(to);
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    from.data = to.data;
    return;
  }
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  const named = new Map([...from.children].filter((child) => child.id).map((child) => [child.id, child]));
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const same = next.id ? named.get(next.id) : at && !at.id ? at : null;
    if (!same) {
      from.insertBefore(next, at);
    } else {
      if (same === at) at = at.nextSibling; else from.insertBefore(same, at);
      morph(same, next);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

const LIVE = new Live();
