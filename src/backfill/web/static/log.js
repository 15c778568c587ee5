// The output of a job, followed: what was added since is fetched and appended; only the end stays on the page.

const LOG_MOST = 256 << 10, LOG_MS = 1500; // characters that are kept; between two looks

class Log {
  constructor(pre) {
    this.pre = pre;
    this.size = Number(pre.dataset.size);
    this.ended = pre.dataset.ended.split(" "); // the states of a job that is over
    this.decoder = new TextDecoder();
    this.box = document.getElementById("follow");
    this.box.closest("label").hidden = "over" in pre.dataset;
    this.bottom();
    if (!("over" in pre.dataset)) this.next();
  }

  next() { setTimeout(() => this.look(), LOG_MS); }

  async look() {
    try {
      if (this.box.checked && !document.hidden && !LIVE.over) await this.more();
    } catch {
      LIVE.soon(); // which says that the queue does not answer
    }
    if (!this.over) this.next();
  }

  // From the last byte that is known, which the answer has again: a range behind the end would be an error.
  async more() {
    const known = Number(document.getElementById("log-note").dataset.size);
    if (!this.size && !known) {
      LIVE.soon();
      return;
    }
    const from = Math.max(this.size - 1, 0);
    const answer = await fetch(this.pre.dataset.from, { headers: { range: `bytes=${from}-` }, cache: "no-store" });
    const ended = this.ended.includes(answer.headers.get("backfill-state"));
    if (answer.status === 416) {
      if (Number(answer.headers.get("content-range")?.split("/")[1]) < this.size) this.begin(); else this.over = ended;
      return;
    }
    if (answer.status !== 206) return;
    const bytes = new Uint8Array(await answer.arrayBuffer()).subarray(this.size - from);
    this.over = ended && !bytes.length;
    if (!bytes.length) return;
    const atEnd = this.pre.scrollTop + this.pre.clientHeight > this.pre.scrollHeight - 30;
    this.size += bytes.length;
    const text = this.pre.textContent + this.decoder.decode(bytes, { stream: true });
    this.pre.textContent = text.length > LOG_MOST ? text.slice(-LOG_MOST) : text;
    if (atEnd) this.bottom();
  }

  // The job runs again, and its output began anew.
  begin() {
    this.size = 0;
    this.decoder = new TextDecoder();
    this.pre.textContent = "";
    LIVE.soon();
  }

  bottom() { this.pre.scrollTop = this.pre.scrollHeight; }
}

if (document.getElementById("log")) new Log(document.getElementById("log"));
