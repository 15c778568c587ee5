// The chart: a window on time and processor rows, drawn as little as possible. Moving it sideways moves the pixels that
// are there and draws the columns that come into sight; everything else redraws the window.

const GUTTER = 64, FOOT = 26; // CSS pixels for the labels of rows and of time
const PIXELS_MOST = 1.5e6;
const SLOW = 20, PATIENCE = 240; // milliseconds: a drawing that is slow, and how old a picture may be while it is stretched

class Chart {
  constructor(place, data, policy = 0) {
    this.data = data;
    this.place = place;
    this.front = place.querySelector("canvas.front"); // axes, labels, outlines; takes the focus
    this.raster = new Raster(place.querySelector("canvas.back"));
    this.scheme = data.scheme ?? (data.due ? "due" : data.sites.length ? "why" : "wait");
    this.dim = null;
    this.chosen = -1;
    this.drawn = this.stretched = null; // the window that the picture shows, and that of the one kept for previews
    this.exact = this.took = 0; // when the last whole picture was drawn, and how long it took
    this.twin = null; // the chart that has the same window
    this.whole();
    this.show(policy);
    new ResizeObserver(() => this.resize()).observe(place);
    this.resize();
  }

  show(policy) {
    this.schedule = this.data.schedule(policy);
    this.policy = policy;
    this.paint(this.scheme);
  }

  paint(scheme) {
    this.scheme = scheme;
    this.ink = inkOf(this.place, scheme);
    Object.assign(this, shades(this.data, this.schedule, scheme));
    this.anew();
  }

  // Dimmed jobs: all except those for which wanted(job) holds; null for none.
  pick(dim) {
    this.dim = dim;
    this.anew();
  }

  anew() {
    this.drawn = null;
    this.later();
  }

  resize() {
    const { width, height } = this.place.getBoundingClientRect();
    if (!width) return;
    const most = Math.sqrt(PIXELS_MOST / (width * height)), scale = Math.min(window.devicePixelRatio || 1, Math.max(1, most));
    const size = [width, height, scale].join();
    if (size === this.size && this.drawn) return this.later(); // the picture is valid, as when the browser reports the first size
    Object.assign(this, { size, scale });
    this.width = Math.max(1, Math.round((width - GUTTER) * this.scale));
    this.height = Math.max(1, Math.round((height - FOOT) * this.scale));
    Object.assign(this.raster.canvas, { width: this.width, height: this.height });
    Object.assign(this.front, { width: Math.round(width * this.scale), height: Math.round(height * this.scale) });
    this.drawn = null;
    this.draw();
  }

  // The window: from which tick, how many ticks, from which row, how many rows.
  whole() {
    Object.assign(this, { from: 0, ticks: this.data.length, row: 0, rows: this.data.rows });
    this.moved();
  }

  // Draws the window, here and in the other chart.
  moved() {
    this.later();
    this.twin?.follow(this);
  }

  follow({ from, ticks, row, rows }) {
    Object.assign(this, { from, ticks, row, rows });
    this.later();
  }

  look(from, ticks, row = this.row, rows = this.rows) {
    const { length, rows: all } = this.data;
    this.ticks = Math.min(Math.max(ticks, Math.min(30, length)), length);
    this.rows = Math.min(Math.max(rows, Math.min(4, all)), all);
    this.from = Math.min(Math.max(from, 0), length - this.ticks);
    this.row = Math.min(Math.max(row, 0), all - this.rows);
    this.moved();
  }

  // at: the fixed point, as a share of the window.
  zoom(factor, at = 0.5, factorRows = 1, atRow = 0.5) {
    const { length, rows: all } = this.data;
    const ticks = Math.min(Math.max(this.ticks / factor, Math.min(30, length)), length);
    const rows = Math.min(Math.max(this.rows / factorRows, Math.min(4, all)), all);
    this.look(this.from + (this.ticks - ticks) * at, ticks, this.row + (this.rows - rows) * atRow, rows);
  }

  pan(share, shareRows = 0) {
    this.look(this.from + share * this.ticks, this.ticks, this.row + shareRows * this.rows, this.rows);
  }

  choose(job, go = false) {
    this.chosen = job;
    if (go && this.schedule.start[job] >= 0) this.bring(job);
    this.later();
  }

  // Moves the window so that a job is in it, wide enough to be seen.
  bring(job) {
    const start = this.schedule.start[job], held = Math.max(1, this.schedule.held[job]), k = this.schedule.pieces.of[job];
    if (k < 0) return;
    const low = this.schedule.pieces.low[k], tall = this.schedule.pieces.high[k] - low;
    const ticks = Math.min(this.ticks, 200 * held), rows = Math.min(this.rows, Math.max(60 * tall, 4));
    const inTime = ticks === this.ticks && start >= this.from && start + held <= this.from + ticks;
    const inRows = rows === this.rows && low >= this.row && low + tall <= this.row + rows;
    this.look(inTime ? this.from : start + held / 2 - ticks / 2, ticks, inRows ? this.row : low + tall / 2 - rows / 2, rows);
  }

  // Coordinates in CSS pixels of the place; shares of the window.
  shareOf(x, y) {
    return [((x - GUTTER) * this.scale) / this.width, (y * this.scale) / this.height];
  }

  jobAt(x, y) {
    const [across, down] = this.shareOf(x, y);
    if (across < 0 || across > 1 || down < 0 || down > 1) return -1;
    const near = (1.5 / this.width) * this.ticks;
    const t = this.from + across * this.ticks, row = this.row + down * this.rows;
    let found = -1, distance = near;
    this.each(t - near, t + near, (job, low, high) => {
      if (row < low || row >= high) return;
      const off = Math.max(this.schedule.start[job] - t, t - this.schedule.end[job], 0);
      if (off <= distance) [found, distance] = [job, off];
    });
    return found < 0 ? -1 : this.schedule.jobOf(found);
  }

  // Calls use(box, low, high) for the pieces in sight between two ticks; stops when it returns true.
  each(t0, t1, use) {
    const { pieces, start, end } = this.schedule;
    for (let block = 0; block < pieces.earliest.length && pieces.earliest[block] <= t1; block++) {
      if (pieces.latest[block] < t0) continue;
      for (let k = block * BLOCK; k < Math.min(pieces.count, (block + 1) * BLOCK); k++) {
        const job = pieces.job[k];
        if (start[job] <= t1 && end[job] >= t0 && use(job, pieces.low[k], pieces.high[k])) return;
      }
    }
  }

  later() {
    if (this.waiting || !this.width) return;
    this.waiting = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.waiting = false;
    const perTick = this.width / this.ticks, perRow = this.height / this.rows;
    const view = { perTick, perRow, left: Math.round(this.from * perTick), top: this.row * perRow };
    const before = this.drawn, now = performance.now();
    const same = before && !this.stretched && Math.abs(before.perTick / perTick - 1) < 1e-12
      && before.perRow === perRow && before.top === view.top;
    const moved = same ? view.left - before.left : this.width;
    if (Math.abs(moved) < this.width) {
      this.scroll(view, moved);
    } else if (before && this.took > SLOW && now - this.exact < PATIENCE) {
      this.preview(before, view);
    } else {
      this.raster.draw(this.schedule, view, this.ink, this.shade, this.dim, 0, this.width);
      this.exact = performance.now();
      this.took = this.exact - now;
      this.stretched = null;
      this.drawn = view;
    }
    drawFront(this, view);
    this.place.dispatchEvent(new Event("drawn"));
  }

  scroll(view, moved) {
    const paint = (from, to) => this.raster.draw(this.schedule, view, this.ink, this.shade, this.dim, from, to);
    if (!moved) return;
    this.raster.shift(-moved);
    if (moved > 0) paint(this.width - moved, this.width); else paint(0, -moved);
    this.drawn = view;
  }

  // Where drawing takes long, a zoom shows the picture of before, stretched, and the true one soon after.
  preview(before, view) {
    if (this.stretched !== before) this.raster.keep();
    this.stretched = before;
    this.raster.stretch(before, view, this.ink.background);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => { this.exact = 0; this.later(); }, PATIENCE / 2);
  }
}
