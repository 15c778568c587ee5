// Values under the pointer, or under a mark that the arrow keys move, for the figures that the page holds as lines.
// They are read back from the places of the points, which are exact to a thousandth of the axis.

const SIDE = 1000;

class Plot {
  constructor(root) {
    this.root = root;
    [this.kind, ...this.numbers] = root.dataset.scale.split(" ");
    root.tabIndex = 0;
    root.addEventListener("pointermove", (event) => this.point(event));
    root.addEventListener("pointerdown", (event) => this.point(event));
    root.addEventListener("pointerleave", () => this.hide());
    root.addEventListener("focus", () => { if (root.matches(":focus-visible")) this.mark(this.at ?? 0.5, true); });
    root.addEventListener("blur", () => this.hide());
    root.addEventListener("keydown", (event) => this.key(event));
  }

  // The points of each line as [across, up], shares of the axes, and the names of the lines.
  read() {
    if (this.lines) return;
    this.lines = [...this.root.querySelectorAll("svg .line")].map((path) =>
      [...path.getAttribute("d").matchAll(/([\d.]+) ([\d.]+)/g)].map(([, x, y]) => [x / SIDE, 1 - y / SIDE]));
    this.longest = this.lines.reduce((a, b) => (b.length > a.length ? b : a), []);
    const legend = this.root.closest("figure").querySelector(".legend") || this.root.closest("section").querySelector(".legend");
    this.legend = [...legend.children];
    this.cursor = document.createElement("div");
    this.cursor.className = "cursor";
    this.tip = document.createElement("dl");
    this.tip.className = "tip";
    this.tip.ariaHidden = "true";
    this.root.append(this.cursor, this.tip);
    this.hide();
  }

  point(event) {
    const { left, width } = this.root.getBoundingClientRect();
    this.mark(Math.min(Math.max((event.clientX - left) / width, 0), 1), false);
  }

  key(event) {
    this.read();
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }, by = steps[event.key];
    if (event.key === "Escape") this.hide();
    if (!by || !this.longest.length) return;
    event.preventDefault();
    const now = nearest(this.longest, this.at ?? 0.5);
    this.mark(this.longest[Math.min(Math.max(now + by, 0), this.longest.length - 1)][0], true);
  }

  mark(at, say) {
    this.read();
    if (!this.longest.length) return;
    const share = this.kind === "tail" ? at : this.longest[nearest(this.longest, at)][0];
    this.at = share;
    const rows = this.lines.map((line, i) => [i, this.value(line, share)]);
    const title = this.title(share);
    this.cursor.style.left = `${100 * share}%`;
    this.tip.replaceChildren(...this.head(title), ...rows.flatMap(([i, text]) => this.row(i, text)));
    this.cursor.hidden = this.tip.hidden = false;
    const { clientWidth } = this.root, x = share * clientWidth;
    this.tip.style.left = `${x + 14 + this.tip.offsetWidth > clientWidth ? Math.max(x - 14 - this.tip.offsetWidth, -50) : x + 14}px`;
    if (say) aloud(`${title}: ${rows.map(([i, text]) => `${this.name(i)} ${text}`).join("; ")}`);
  }

  hide() { if (this.tip) this.tip.hidden = this.cursor.hidden = true; }

  name(i) { return this.legend[i]?.querySelector("bdi")?.textContent ?? ""; }

  head(title) {
    const dt = document.createElement("dt");
    dt.className = "title";
    dt.textContent = title;
    return [dt];
  }

  row(i, text) {
    const [dt, dd] = pair([this.name(i), text]), drawn = this.legend[i]?.querySelector("svg");
    if (drawn) dt.prepend(drawn.cloneNode(true));
    return [dt, dd];
  }

  title(share) {
    if (this.kind === "tail") {
      const value = this.numbers[0] ** share;
      return this.numbers[2] === "s" ? `wait above ${waitSpan(value)}` : `bounded slowdown above ${shortNumber(value)}`;
    }
    if (this.kind === "names") return this.numbers[2 + Math.min(Math.floor(share * (this.numbers.length - 2)), this.numbers.length - 3)];
    const [, begin, length] = this.numbers.map(Number);
    return CALENDAR ? instant(begin + share * length, false, CALENDAR.epoch) : instant(share * length, false);
  }

  value(line, share) {
    if (this.kind === "tail") {
      const up = between(line, share);
      return up === null ? "no job" : `${shortNumber(100 * 10 ** ((up - 1) * this.numbers[1]))}% of the jobs`;
    }
    const i = nearest(line, share), top = Number(this.numbers[0]);
    if (i < 0 || Math.abs(line[i][0] - share) > 0.02) return "-";
    const up = Math.max(line[i][1], 0);
    if (this.kind === "names") return `${shortNumber(up * top)}${this.numbers[1] === "%" ? "" : " "}${this.numbers[1]}`;
    if (this.kind === "share") return `${(100 * up * top).toFixed(1)}%`;
    if (this.kind === "ratio") return (1 + up * top).toFixed(2);
    return shortNumber(this.kind === "log" ? Math.expm1(up * Math.log1p(top)) : up * top);
  }
}

function shortNumber(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : value >= 10 ? value.toFixed(1) : value >= 0.995 || !value ? value.toFixed(1) : value.toPrecision(2);
}

// The point nearest to a position on the axis; -1 if there is none.
function nearest(line, share) {
  let low = 0;
  for (let high = line.length; low < high;) {
    const middle = (low + high) >> 1;
    if (line[middle][0] < share) low = middle + 1; else high = middle;
  }
  if (low && (low === line.length || share - line[low - 1][0] < line[low][0] - share)) low--;
  return line.length ? low : -1;
}

// How high a line is there; null beyond its end.
function between(line, share) {
  const i = line.findIndex(([x]) => x >= share);
  if (i < 0) return null;
  if (!i) return line[0][1];
  const [x0, y0] = line[i - 1], [x1, y1] = line[i];
  return y0 + ((share - x0) / Math.max(x1 - x0, 1e-9)) * (y1 - y0);
}

// Announces a text to readers who cannot see the page.
function aloud(text) {
  const main = document.querySelector("main");
  let line = main.querySelector(".aloud");
  if (!line) {
    line = document.createElement("p");
    line.className = "aloud";
    line.ariaLive = "polite";
    main.append(line);
  }
  line.textContent = text;
}

for (const root of document.querySelectorAll(".plot[data-scale]")) new Plot(root);
