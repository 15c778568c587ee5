// Rows below the chart, on its axis of time: how many jobs wait, and how much of each resource beside cpus is in use.

const ROW_TALL = 46; // CSS pixels of a row

// A step function: values[i] from times[i] on, and its integral up to there.
class Steps {
  // The sum of `amount` over [begin, end) of each item.
  constructor(begin, end, amount) {
    const order = (times) => Float64Array.from(times, (time, i) => time * times.length + i).sort();
    const count = begin.length, starts = order(begin), ends = order(end);
    this.times = new Float64Array(2 * count);
    this.values = new Float64Array(2 * count);
    this.area = new Float64Array(2 * count);
    let held = 0, k = -1, most = 0;
    for (let i = 0, j = 0; j < count;) {
      const starting = i < count && Math.floor(starts[i] / count) < Math.floor(ends[j] / count);
      const key = starting ? starts[i++] : ends[j++], time = Math.floor(key / count);
      held += (starting ? 1 : -1) * amount(key % count);
      if (k < 0 || this.times[k] < time) {
        k++;
        this.times[k] = time;
        this.area[k] = k ? this.area[k - 1] + this.values[k - 1] * (time - this.times[k - 1]) : 0;
      }
      this.values[k] = held;
    }
    this.count = k + 1;
    for (let i = 0; i < this.count; i++) most = Math.max(most, this.values[i]);
    this.most = most;
  }

  // The last step that begins at a time or before; -1 before all.
  last(time) {
    let low = 0;
    for (let high = this.count; low < high;) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  at(time) { const i = this.last(time); return i < 0 ? 0 : this.values[i]; }

  until(time) {
    const i = this.last(time);
    return i < 0 ? 0 : this.area[i] + this.values[i] * (time - this.times[i]);
  }
}

// When jobs wait: from the instant at which they may start, or from the end of the run before, to the start of a run.
function waitingOf(data, schedule) {
  const begin = [], end = [], since = new Float64Array(data.count);
  const boxes = Array.from({ length: schedule.boxes - data.count }, (_, i) => data.count + i);
  boxes.sort((a, b) => schedule.start[a] - schedule.start[b]);
  for (let job = 0; job < data.count; job++) since[job] = data.submit[job] + schedule.back[job];
  const wait = (job, box) => {
    if (schedule.start[box] > since[job]) { begin.push(since[job]); end.push(schedule.start[box]); }
    since[job] = schedule.end[box];
  };
  for (const box of boxes) wait(schedule.jobOf(box), box);
  for (let job = 0; job < data.count; job++) if (schedule.start[job] >= 0) wait(job, job);
  return new Steps(begin, end, () => 1);
}

function heldOf(data, schedule, amounts) {
  const boxes = [];
  for (let box = 0; box < schedule.boxes; box++) {
    if (schedule.start[box] >= 0 && schedule.held[box] > 0 && amounts[schedule.jobOf(box)]) boxes.push(box);
  }
  return new Steps(boxes.map((box) => schedule.start[box]), boxes.map((box) => schedule.end[box]),
    (i) => amounts[schedule.jobOf(boxes[i])]);
}

class Use {
  constructor(canvas, chart) {
    this.canvas = canvas;
    this.chart = chart;
    canvas.style.height = `${ROW_TALL * (1 + chart.data.resources.length)}px`;
  }

  // The content of the rows, computed once for each policy: a name, its text, its steps, and the maximum of its axis.
  rows() {
    const { data, schedule } = this.chart;
    schedule.use ||= [
      { name: "jobs waiting", steps: waitingOf(data, schedule), text: (value) => `${value.toLocaleString("en")} waiting` },
      ...data.resources.map(({ name, there, whole }, i) => ({ name, there, whole, steps: heldOf(data, schedule, data[`use${i}`]),
        text: (value) => `${((100 * value) / whole).toFixed(0)}% in use` })),
    ];
    return schedule.use;
  }

  get most() { return this.rows()[0].steps.most; }

  // most: jobs waiting at the top of the axis, which is logarithmic where `unequal`; cursor: the tick that is pointed at, or -1.
  draw({ most, unequal }, cursor) {
    const { canvas, chart } = this, { scale, ink } = chart, { clientWidth: wide, clientHeight: tall } = canvas;
    if (!wide) return;
    Object.assign(canvas, { width: Math.round(wide * scale), height: Math.round(tall * scale) });
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
    this.rows().forEach((row, i) => {
      const top = i * ROW_TALL + 3, height = ROW_TALL - 7, whole = Math.max(row.whole ?? most, 1e-9);
      const up = unequal && !i ? (value) => Math.log1p(value) / Math.log1p(whole) : (value) => value / whole;
      this.label(context, row.name, i ? row.there : `${whole.toLocaleString("en")}${unequal ? " (log)" : ""}`, top, height);
      context.fillStyle = `rgb(${ink.background})`;
      context.fillRect(GUTTER, top, wide - GUTTER, height);
      this.area(context, row.steps, up, wide - GUTTER, top, height);
      if (cursor >= 0) this.tell(context, row, cursor, wide, top, height);
    });
  }

  label(context, name, there, top, height) {
    context.fillStyle = this.chart.ink.soft;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(name, GUTTER - 6, top + height / 2 - 7, GUTTER - 8);
    context.fillText(`of ${there}`, GUTTER - 6, top + height / 2 + 7, GUTTER - 8);
  }

  area(context, steps, up, wide, top, height) {
    const { from, ticks, ink } = this.chart, step = ticks / wide;
    context.fillStyle = ink.accent;
    context.globalAlpha = 0.75;
    context.beginPath();
    context.moveTo(GUTTER, top + height);
    let before = steps.until(from);
    for (let x = 0; x < wide; x++) {
      const now = steps.until(from + (x + 1) * step);
      const y = top + height - (height * Math.min(up((now - before) / step), 1));
      context.lineTo(GUTTER + x, y);
      context.lineTo(GUTTER + x + 1, y);
      before = now;
    }
    context.lineTo(GUTTER + wide, top + height);
    context.fill();
    context.globalAlpha = 1;
  }

  tell(context, row, cursor, wide, top, height) {
    const { from, ticks, ink } = this.chart, x = GUTTER + ((cursor - from) / ticks) * (wide - GUTTER);
    if (x < GUTTER || x > wide) return;
    const text = row.text(row.steps.at(cursor)), room = context.measureText(text).width + 8;
    const left = x + room + 4 > wide;
    context.fillStyle = ink.text;
    context.fillRect(x, top, 1, height);
    context.textAlign = left ? "right" : "left";
    context.lineWidth = 3;
    context.strokeStyle = `rgb(${ink.background})`;
    context.strokeText(text, x + (left ? -5 : 5), top + 9);
    context.fillText(text, x + (left ? -5 : 5), top + 9);
  }
}
