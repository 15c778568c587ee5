// The charts of projects: their rows are there without a script, which widens them to zoom and rewrites the axis.

const ROW = 30; // pixels
const WIDEST = 2000; // times the visible width; positions in much wider drawings are rounded to pixels

class Timeline {
  constructor(root) {
    this.front = root.querySelector(".sight");
    this.inner = root.querySelector(".span");
    this.begin = Number(root.dataset.begin); // seconds after the first submit
    this.epoch = CALENDAR && root.dataset.zero ? CALENDAR.epoch + Number(root.dataset.zero) : undefined; // and when that was
    this.data = { length: Number(root.dataset.length) }; // seconds
    this.rows = [...this.inner.querySelectorAll("g[data-from]")];
    this.chosen = -1;
    this.scale = 1;
    const actions = { in: () => this.zoom(2), out: () => this.zoom(0.5), left: () => this.pan(-0.5), right: () => this.pan(0.5),
      all: () => this.whole() };
    for (const button of root.querySelectorAll("button[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
    root.querySelector(".tools").hidden = false;
    takeInHand(this, { point() {}, choose: (row) => this.choose(row), step: (by) => this.step(by) });
    root.querySelectorAll(".names li").forEach((name, row) => name.addEventListener("click", () => this.choose(row)));
    this.front.addEventListener("scroll", () => this.mark());
    new ResizeObserver(() => this.look(this.from, this.ticks)).observe(this.front);
    this.whole();
  }

  get width() { return Math.max(this.front.clientWidth, 1); }

  whole() { this.look(0, this.data.length); }

  // The window: from which second, how many seconds.
  look(from, ticks) {
    const { length } = this.data;
    this.ticks = Math.min(Math.max(ticks, length / WIDEST, Math.min(2, length)), length);
    this.from = Math.min(Math.max(from, 0), length - this.ticks);
    this.inner.style.width = `${(100 * length) / this.ticks}%`;
    this.front.scrollLeft = (this.from / this.ticks) * this.width;
    this.mark();
  }

  zoom(factor, at = 0.5) {
    const ticks = Math.min(Math.max(this.ticks / factor, this.data.length / WIDEST), this.data.length);
    this.look(this.from + (this.ticks - ticks) * at, ticks);
  }

  pan(share) { if (share) this.look(this.from + share * this.ticks, this.ticks); }

  shareOf(x, y) { return [x / this.width, y / this.front.clientHeight]; }

  jobAt(x, y) { return y < this.inner.firstElementChild.clientHeight ? Math.floor(y / ROW) : -1; }

  // Moves the window so that a project is in it, wide enough to be seen; -1 for none.
  choose(row) {
    this.chosen = row;
    this.rows.forEach((each, i) => each.classList.toggle("chosen", i === row));
    if (row < 0) return;
    const { from, to } = this.rows[row].dataset, second = this.data.length / 100;
    const begin = from * second, held = (to - from) * second, ticks = Math.min(this.ticks, 20 * held);
    if (ticks < this.ticks || begin < this.from || begin + held > this.from + ticks) this.look(begin + held / 2 - ticks / 2, ticks);
  }

  step(by) {
    const many = this.rows.length;
    this.choose(this.chosen < 0 ? (by > 0 ? 0 : many - 1) : (this.chosen + by + many) % many);
  }

  // The visible axis.
  mark() {
    const { begin, ticks, data: { length } } = this;
    const from = (this.front.scrollLeft / this.width) * ticks, room = Math.max(2, Math.floor(this.width / 110));
    const marks = [];
    for (const [t, text] of marksOf(begin + from, ticks, ticks / room, this.epoch)) {
      const mark = document.createElement("span");
      const share = (t - begin - from) / ticks; // labels stay whole at both ends, where they may be beside their instant
      mark.className = share < 0.04 ? "begin" : share > 0.96 ? "end" : "";
      mark.style.left = `${(100 * (t - begin)) / length}%`;
      mark.textContent = text;
      marks.push(mark);
    }
    this.inner.querySelector(".axis").replaceChildren(...marks);
  }
}

for (const root of document.querySelectorAll(".timeline")) new Timeline(root);
