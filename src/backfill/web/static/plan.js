// The plan of a live queue in the chart of the report: what ran, what runs until its limit, and what is planned.

const TICK = 0.1; // seconds
const PLAN_MS = 2000, PLAN_SHARE = 5, PLAN_MOST_MS = 20000; // between two looks, as a multiple of what one took, at most
const ROOM_S = 60; // the chart is at least this much longer than now
const FIRST = 5000, RISES = 2, MOST = 20000; // bars of each kind that are asked for at first; more where more are looked at
const PAGE = 10000, BARS_MOST = 100000; // earlier runs that are fetched at once; all bars of the chart
const LONG_S = 6 * 365 * 86400; // the chart is not longer: its ticks are 32 bits
const LICENCE = 1 / 16; // a licence is at least this tall, compared with all nodes
const KIND = { done: 0, failed: 1, running: 2, waiting: 3 };

SCHEMES.state = {
  name: "s",
  of: (data, schedule, job) => data.kind[job],
  texts: () => [[0, "completed"], [1, "failed, or ended by its limit or a user"], [2, "runs"], [3, "waits"]],
};

// The runs that are over: all that ended after `from`, by the clock of the queue, and some of those that ended then. They
// are loaded backwards from now.
class Past {
  constructor() { Object.assign(this, { bars: [], from: Infinity, until: -Infinity, seq: -1, running: [], full: false }); }

  // Another look at the queue: its answer has all that ended since `past_since_s`. What is known of before stays, unless
  // something of the time between is missing, or a job has ended in the past, as is found out when a daemon comes back.
  renew(told) {
    const there = new Set([...told.past, ...told.running, ...told.pending].map((bar) => bar.id));
    const lost = !told.omitted.running && this.running.some((id) => !there.has(id));
    const anew = lost || told.seq < this.seq || told.past_since_s > this.until;
    const now = new Set(told.past.map(runOf)), before = anew ? [] : this.bars.filter((bar) => bar.end_s <= told.past_since_s && !now.has(runOf(bar)));
    this.bars = [...before, ...told.past.map(over)];
    this.from = anew ? told.past_since_s : Math.min(this.from, told.past_since_s);
    Object.assign(this, { until: told.now_s, seq: told.seq, running: told.running.map((bar) => bar.id) });
  }

  // Earlier runs; those that ended at the same instant as the first known one come again.
  extend(told) {
    const known = new Set(this.bars.map(runOf)), more = told.past.filter((bar) => !known.has(runOf(bar)));
    this.bars = [...more.map(over), ...this.bars];
    this.full = !more.length && told.past_since_s >= this.from; // more than a page ended at one instant
    this.from = Math.min(this.from, told.past_since_s);
  }

  // Forgets what ended before an instant.
  forget(since) {
    if (since <= this.from) return;
    this.bars = this.bars.filter((bar) => bar.end_s >= since);
    Object.assign(this, { from: since, full: false });
  }
}

const runOf = (bar) => `${bar.id} ${bar.start_s}`;
// What the chart needs of a run that is over.
const over = ({ id, label, name, user, project, state, cpus, nodes, licences, start_s, end_s, why }) =>
  ({ id, label, name, user, project, state, cpus, nodes, licences, start_s, end_s, why });

// The bars of a plan as the chart wants them: jobs and their one schedule. past: as far as it is loaded; without one all
// of it is there. room_s: how much of what is not loaded can be looked at.
class Plan {
  constructor(told, past = null, room_s = 0) {
    this.told = told;
    this.past = past;
    const since = past ? past.from : told.since_s, begins = told.begins_s ?? since;
    const epoch = Math.floor(Math.max(past ? Math.max(Math.min(begins, since), since - room_s) : since, told.now_s - LONG_S));
    Object.assign(this, { scheme: "state", tick: TICK, epoch, sites: [], site: [], turns: [], away: [], words: [], names: [told.policy], asked: -1 });
    const lanes = told.lanes, nodes = lanes.filter((lane) => lane.lane === "node"), licences = lanes.filter((lane) => lane.lane !== "node");
    const copies = (lane) => Math.max(lane.amount, lane.stated ?? 0, 1), tall = nodes.reduce((sum, lane) => sum + copies(lane), 0);
    this.scaled = licences.map((lane) => Math.max(1, Math.round(tall * LICENCE / copies(lane)))); // rows of a copy
    this.floor = new Float64Array(lanes.length + 1);
    [...nodes, ...licences].forEach((lane, i) => {
      this.floor[i + 1] = this.floor[i] + copies(lane) * (i < nodes.length ? 1 : this.scaled[i - nodes.length]);
    });
    this.platform = nodes.length;
    this.nodes = nodes.length > 1 ? nodes.map((lane) => lane.name) : [];
    this.licenceNames = licences.map((lane) => lane.name);
    this.laneOf = new Map([...nodes, ...licences].map((lane, i) => [lane.name, i]));
    this.cpus = this.floor[this.platform];
    this.rows = this.floor[lanes.length] || 1;
    if (since > epoch + 1) this.away = [[0, this.rows, 0, this.at(since)]];
    this.setBars(told);
  }

  setBars(told) {
    const now = told.now_s, all = [
      ...(this.past?.bars ?? told.past).map((bar) => ({ bar, kind: bar.state === "COMPLETED" ? KIND.done : KIND.failed, start: bar.start_s, end: bar.end_s, solid: bar.end_s })),
      ...told.running.map((bar) => ({ bar, kind: KIND.running, start: bar.start_s, end: Math.max(bar.latest_end_s, now + 1), solid: now })),
      ...told.pending.map((bar) => this.planned(bar)).filter(Boolean),
    ];
    const ticks = (t) => Math.max(Math.round((t - this.epoch) / TICK), 0), count = this.count = all.length;
    this.now = ticks(now);
    this.bars = all.map(({ bar }) => bar);
    this.kind = Uint8Array.from(all, ({ kind }) => kind);
    this.procs = Int32Array.from(this.bars, (bar) => bar.cpus);
    this.users = [...new Set(this.bars.map((bar) => bar.user))].sort();
    const user = new Map(this.users.map((name, i) => [name, i]));
    this.user = Int32Array.from(this.bars, (bar) => user.get(bar.user));
    this.project = null;
    const start = Int32Array.from(all, (each) => ticks(each.start)), end = Int32Array.from(all, (each, i) => Math.max(ticks(each.end), start[i] + 1));
    const last = end.reduce((a, b) => Math.max(a, b), this.now + ROOM_S / TICK);
    this.length = last + Math.round((last - this.now) * 0.03);
    this.later = told.pending.reduce((last, bar) => Math.max(last, bar.drawn_s ?? 0), 0); // the last start that is known
    const self = (box) => box, held = end.map((t, i) => t - start[i]);
    this.only = { name: told.policy, start, end, held, boxes: count, why: new Int32Array(count), waited: new Int32Array(count),
      solidUntil: Int32Array.from(all, (each) => ticks(each.solid)), jobOf: self, runOf: self, inTurns: false, parts: (...asked) => this.parts(...asked) };
    let pieces = null;
    Object.defineProperty(this.only, "pieces", { get: () => (pieces ||= layOut(this, this.only)) });
  }

  // A waiting job, if a start of it is known.
  planned(bar) {
    const start = bar.drawn_s;
    if (start === null) return null;
    const end = (bar.planned_s === null ? bar.likely_end_s : bar.latest_end_s) ?? start + bar.limit_s;
    return { bar, kind: KIND.waiting, start, end, solid: start - 1 };
  }

  // The rows that a job needs: on its nodes; one whose nodes are not chosen yet where there is room.
  parts(job, holes, take) {
    const { nodes, cpus } = this.bars[job], known = Object.entries(nodes).filter(([name]) => this.laneOf.has(name));
    if (this.platform === 1) take(0, cpus);
    else if (known.length) for (const [name, rows] of known) take(this.laneOf.get(name), rows);
    else {
      const free = Array.from({ length: this.platform }, (_, lane) => holes[lane].free), whole = free.findIndex((rows) => rows >= cpus);
      if (whole >= 0) take(whole, cpus);
      else for (let lane = 0, left = cpus; lane < this.platform && left > 0; left -= free[lane++]) if (free[lane]) take(lane, Math.min(free[lane], left));
    }
  }

  schedule() { return this.only; }

  jobName(job) {
    const { label, name } = this.bars[job];
    return name && name !== label ? `${label} ${name}` : label;
  }

  userName(job) { return this.bars[job].user; }

  projectName(job) { return this.bars[job].project; }

  dueAt() { return -1; }

  eachLicence(job, use) {
    for (const [name, copies] of Object.entries(this.bars[job].licences)) {
      const lane = this.laneOf.get(name) - this.platform;
      if (lane >= 0) use(lane, copies * this.scaled[lane]);
    }
  }

  at(seconds) { return (seconds - this.epoch) / TICK; }

  text(seconds) { return instant(seconds - this.epoch, false, this.epoch); }

  // Who, why, until when: [term, text] pairs.
  facts(job) {
    const bar = this.bars[job], state = bar.state.toLowerCase().replaceAll("_", " "), nodes = Object.keys(bar.nodes);
    const found = [["job", this.jobName(job)], ["user", bar.user], ["state", state], ["size", plural(bar.cpus, "cpu")]];
    const add = (term, value, text) => { if (value !== null && value !== undefined && value !== "") found.push([term, text ?? value]); };
    if (this.nodes.length && nodes.length) found.push(["on", nodes.slice(0, 4).join(", ") + (nodes.length > 4 ? ` and ${nodes.length - 4} more` : "")]);
    const licences = Object.entries(bar.licences).map(([name, copies]) => (copies > 1 ? `${name} × ${copies}` : name));
    add("licences", licences.join(", "));
    if (this.kind[job] === KIND.waiting) {
      add("waits for", bar.reason);
      add("likely start", bar.median_s, bar.median_s && this.text(bar.median_s));
      add("in nine of ten", bar.p90_s, bar.p90_s && `by ${this.text(bar.p90_s)}`);
      add("guaranteed", bar.guaranteed_s, bar.guaranteed_s && `by ${this.text(bar.guaranteed_s)}`);
      add("then until", bar.latest_end_s, bar.latest_end_s && `${this.text(bar.latest_end_s)} at the latest`);
      return found;
    }
    add("started", this.text(bar.start_s));
    add("because", (WHY[bar.why] || [bar.why, bar.why])[1]);
    if (this.kind[job] === KIND.running) {
      add("likely until", bar.likely_end_s, this.text(bar.likely_end_s));
      add("at the latest", this.text(bar.latest_end_s));
    } else add("ended", this.text(bar.end_s));
    return found;
  }

  // Below the names: hatched until the limit, outlined where planned, marks at promises; and reservations.
  under(chart, context, view) {
    const found = [];
    chart.each(chart.from, chart.from + chart.ticks, (job, low, high) => {
      if (this.kind[job] < KIND.running || low > chart.row + chart.rows || high < chart.row) return false;
      const at = boxOf(chart, view, job, low, high);
      if (at.tall > 3 && at.wide > 1) found.push([job, at]);
      return found.length > LABELS_MOST;
    });
    const x = (tick) => (tick * view.perTick - view.left) / chart.scale, promised = getComputedStyle(chart.place).getPropertyValue("--promised");
    const hatch = hatching(context, `rgb(${chart.ink.colours[chart.scheme === "state" ? KIND.running : 0]})`);
    for (const [job, { x: left, y, wide, tall }] of found) {
      const bar = this.bars[job], colour = `rgb(${chart.ink.colours[chart.shade[job]]})`;
      if (this.kind[job] === KIND.running) {
        const from = Math.max(x(this.now), left), likely = x(this.at(bar.likely_end_s));
        context.fillStyle = hatch;
        context.fillRect(from, y, Math.max(left + wide - from - 1, 0), tall - 1);
        context.fillStyle = chart.ink.text;
        if (likely > from && likely < left + wide - 2) context.fillRect(likely - 1, y, 2, tall - 1);
      }
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.strokeRect(left + 0.75, y + 0.75, Math.max(wide - 2.5, 1), Math.max(tall - 2.5, 1));
      if (this.kind[job] === KIND.waiting && bar.guaranteed_s !== null && bar.guaranteed_s !== undefined) {
        context.fillStyle = promised;
        context.fillRect(Math.max(x(this.at(bar.guaranteed_s)), left), y, 3, Math.max(tall - 1, 2));
      }
    }
    for (const each of this.told.reservations) this.reserved(chart, context, view, each, x);
  }

  reserved(chart, context, view, { reservation, begin_s: begin, until_s: until, nodes }, x) {
    const left = x(this.at(begin)), right = x(this.at(until));
    context.setLineDash([6, 3]);
    context.strokeStyle = chart.ink.accent;
    context.fillStyle = chart.ink.text;
    context.lineWidth = 2;
    for (const [name, amounts, whole] of nodes) {
      const lane = this.platform === 1 ? 0 : this.laneOf.get(name);
      if (lane === undefined) continue;
      const rows = whole ? this.floor[lane + 1] - this.floor[lane] : amounts.cpus || 0;
      if (!rows) continue;
      const y = ((this.floor[lane + 1] - rows) * view.perRow - view.top) / chart.scale, tall = (rows * view.perRow) / chart.scale;
      context.strokeRect(left + 1, y + 1, Math.max(right - left - 2, 2), Math.max(tall - 2, 2));
      context.textAlign = "left";
      context.textBaseline = "top";
      if (right - left > 60 && tall > 14) context.fillText(reservation, Math.max(left, 0) + 5, y + 3);
    }
    context.setLineDash([]);
  }

  // Above all: now.
  over(chart, context, view) {
    const x = (this.now * view.perTick - view.left) / chart.scale, colour = getComputedStyle(chart.place).getPropertyValue("--now");
    if (x < 0 || x > chart.width / chart.scale) return;
    context.fillStyle = colour;
    context.fillRect(x - 1, 0, 2, chart.height / chart.scale);
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillRect(x, 0, context.measureText("now").width + 8, 16);
    context.fillStyle = `rgb(${chart.ink.background})`;
    context.fillText("now", x + 4, 3);
  }
}

class PlanSection {
  constructor(root, plan) {
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    for (const part of [".tools", ".one"]) this.find(part).hidden = false;
    this.find(".instead")?.remove();
    this.place = this.find(".place");
    this.tip = this.find(".tip");
    this.chart = new Chart(this.place, plan);
    takeInHand(this.chart, { point: (...at) => this.point(...at), choose: (job) => this.choose(job), step: (by) => this.step(by) });
    this.listen();
    this.around();
    this.legend();
    if (root.dataset.plan) setInterval(() => this.tick(), 1000); // in a file the time stands still
  }

  get data() { return this.chart.data; }

  // A newer plan, in the same window, with the same job selected.
  show(plan) {
    const { chart } = this, before = chart.data, chosen = chart.chosen < 0 ? null : runOf(before.bars[chart.chosen]);
    const whole = chart.ticks >= before.length && plan.epoch === before.epoch, shift = (before.epoch - plan.epoch) / TICK;
    chart.data = plan;
    chart.chosen = chosen === null ? -1 : plan.bars.findIndex((bar) => runOf(bar) === chosen);
    if (whole) Object.assign(chart, { from: 0, ticks: plan.length });
    else chart.look(chart.from + shift, chart.ticks);
    Object.assign(chart, { row: Math.min(chart.row, Math.max(plan.rows - chart.rows, 0)), rows: Math.min(chart.rows, plan.rows) });
    if (before.rows !== plan.rows) Object.assign(chart, { row: 0, rows: plan.rows });
    chart.show(0);
    this.received = performance.now();
    this.legend();
  }

  // Time passes between two plans.
  tick() {
    if (document.hidden) return;
    const { chart, data } = this, now = Math.round(data.at(data.told.now_s)) + this.sinceThen();
    const pixels = ((now - data.now) * chart.width) / chart.ticks;
    data.now = now;
    data.kind.forEach((kind, job) => { if (kind === KIND.running) data.only.solidUntil[job] = now; });
    if (pixels >= 1 || this.left > 1) {
      this.left = 0;
      chart.anew();
    } else {
      this.left = (this.left || 0) + pixels;
      chart.later();
    }
  }

  // From when until when is in sight, in seconds of the calendar.
  get sight() {
    const { chart, data } = this;
    return [data.epoch + chart.from * TICK, data.epoch + (chart.from + chart.ticks) * TICK];
  }

  // Ticks since the plan was made, by the clock of this browser.
  sinceThen() { return Math.round((performance.now() - (this.received ??= performance.now())) / 1000 / TICK); }

  // All that is loaded.
  all() {
    const { chart, data } = this, from = data.past ? Math.max(data.at(data.past.from), 0) : 0;
    chart.look(from, data.length - from, 0, data.rows);
  }

  around() {
    const { chart, data } = this, starts = data.bars.flatMap((bar, job) => (data.kind[job] >= KIND.running ? [data.only.end[job]] : []));
    starts.sort((a, b) => a - b);
    const until = starts.length ? starts[Math.floor(starts.length * 0.8)] : data.now + 3600 / TICK, ahead = Math.max(until - data.now, 600 / TICK);
    chart.look(data.now - ahead / 3, (ahead * 4) / 3, 0, data.rows);
  }

  listen() {
    const acts = { left: () => this.chart.pan(-0.5), right: () => this.chart.pan(0.5), in: () => this.chart.zoom(1.5), out: () => this.chart.zoom(1 / 1.5),
      taller: () => this.chart.zoom(1, 0.5, 1.5), flatter: () => this.chart.zoom(1, 0.5, 1 / 1.5), all: () => this.all(), now: () => this.around() };
    for (const button of this.root.querySelectorAll("[data-do]")) button.addEventListener("click", acts[button.dataset.do]);
    this.find("[name=colour]").addEventListener("change", (event) => { this.chart.paint(event.target.value); this.legend(); });
    this.chart.front.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.chart.chosen >= 0 && this.root.dataset.plan) location.href = `/jobs/${this.data.bars[this.chart.chosen].label}`;
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.chart.paint(this.chart.scheme));
    for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => { // on paper with the colours of the day
        document.documentElement.classList.toggle("printing", printing);
        this.chart.paint(this.chart.scheme);
        this.chart.draw();
      });
    }
  }

  point(job, x, y) {
    this.tip.hidden = job < 0;
    if (job < 0) return;
    this.tip.replaceChildren(...this.data.facts(job).flatMap(pair));
    const { clientWidth, clientHeight } = this.place, { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.left = `${x + 16 + offsetWidth > clientWidth ? Math.max(x - 16 - offsetWidth, 0) : x + 16}px`;
    this.tip.style.top = `${Math.max(Math.min(y + 12, clientHeight - offsetHeight), 0)}px`;
  }

  choose(job, go = false) {
    this.chart.choose(job, go);
    this.find("output").textContent = job < 0 ? "" : this.data.facts(job).map(([term, text]) => `${term} ${text}`).join("; ");
    const link = this.find(".chosen");
    if (!link) return;
    link.hidden = job < 0;
    if (job >= 0) link.querySelector("a").href = `/jobs/${this.data.bars[job].label}`;
  }

  // The next job by start; without a selected one the first that runs.
  step(by) {
    const { chosen, schedule: { pieces } } = this.chart, { kind } = this.data;
    let k = chosen >= 0 && pieces.of[chosen] >= 0 ? pieces.of[chosen] : -1;
    if (k < 0) k = Math.max(pieces.job.subarray(0, pieces.count).findIndex((job) => kind[job] === KIND.running), 0) - by;
    const before = k >= 0 && k < pieces.count ? pieces.job[k] : -1;
    do k += by; while (k >= 0 && k < pieces.count && (pieces.job[k] === before || pieces.of[pieces.job[k]] !== k));
    if (k >= 0 && k < pieces.count) this.choose(pieces.job[k], true);
  }

  legend() {
    const { chart, data } = this, { name, texts, many } = SCHEMES[chart.scheme], marks = [];
    const item = (className, text, colour) => {
      const li = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = className;
      if (colour) swatch.style.background = colour;
      li.append(...(className === "none" ? [] : [swatch]), text);
      marks.push(li);
    };
    for (const [i, text] of texts(data)) if (many || chart.used.has(i)) item(many ? "none" : "", text, many ? "" : `var(--${name}${i})`);
    if (data.kind.includes(KIND.running)) item("hatched", "until its limit; the line is its likely end");
    if (data.kind.includes(KIND.waiting)) item("future", "planned");
    if (data.bars.some((bar, job) => data.kind[job] === KIND.waiting && bar.guaranteed_s)) item("promise", "guaranteed start");
    item("now", "now");
    if (data.away.length) item("away", `earlier runs, which ${data.past.full ? "are not in the chart" : "come when you move there"}`);
    const { past, running, pending } = data.told.omitted, omitted = (data.past ? 0 : past) + running + pending;
    if (omitted) item("none", `${omitted.toLocaleString("en")} more are not in the chart`);
    this.find(".key").replaceChildren(...marks);
  }
}

// Fetches the plan at first and whenever something happened, not too often; and what else is looked at.
class PlanSource {
  constructor(root) {
    this.root = root;
    this.took = 0;
    this.limit = FIRST;
    this.past = new Past();
    document.addEventListener("queue", () => this.soon());
    document.addEventListener("visibilitychange", () => this.soon());
    setInterval(() => this.soon(), ANYWAY_MS);
    this.look();
  }

  soon() {
    if (this.waiting || document.hidden || LIVE.over) return;
    this.waiting = true;
    setTimeout(() => this.look(), Math.min(Math.max(PLAN_MS, PLAN_SHARE * this.took), PLAN_MOST_MS));
  }

  async look() {
    this.waiting = true;
    const begun = performance.now();
    try {
      const told = await this.fetched({ limit: this.limit });
      if (told) {
        this.past.renew(told);
        if (this.section) {
          const [from, until] = this.section.sight; // what nobody looks at any more is not kept
          if (this.past.from < Math.min(from - (until - from), told.since_s) - 3600) this.past.forget(Math.min(from - (until - from), told.since_s));
        }
        this.draw(told);
        this.root.dataset.ready = told.seq;
      } else if (!this.section) {
        this.root.querySelector(".instead").textContent = "The plan is not known yet; the table below lists all waiting and running jobs.";
      }
    } catch {
      LIVE.soon(); // which says that the queue does not answer
    } finally {
      this.took = performance.now() - begun;
      this.waiting = false;
    }
    const told = this.section?.data.told; // no event says that estimates are there, or that the first plan is
    if (!told || told.planner !== "ready" || told.estimates?.coming) this.soon();
    this.reach();
  }

  // The answer to a request for a plan; undefined if there is none.
  async fetched(fields) {
    const url = new URL(this.root.dataset.plan, location.href);
    for (const [name, value] of Object.entries(fields)) url.searchParams.set(name, value);
    const answer = await fetch(url, { headers: { accept: "application/json" }, cache: "no-store" });
    return answer.ok ? answer.json() : undefined;
  }

  draw(told) {
    const [from, until] = this.section?.sight ?? [told.since_s, told.now_s], plan = new Plan(told, this.past, until - from);
    if (this.section) {
      this.section.show(plan);
    } else {
      this.section = this.root.section = new PlanSection(this.root, plan);
      this.section.place.addEventListener("drawn", () => this.reach());
    }
  }

  // Loads what is in sight and not there: earlier runs page by page, more of what runs and waits.
  async reach() {
    if (this.reaching || this.waiting || !this.section || LIVE.over) return;
    const { section, past, section: { data: { told, later } } } = this, [from, until] = section.sight, bars = section.data.count;
    const { running, pending } = told.omitted;
    if (this.limit < MOST && (running || (pending && until > later))) {
      this.limit = Math.min(this.limit * RISES, MOST);
      this.soon();
      return;
    }
    if (past.full || told.begins_s === null || past.from <= told.begins_s || from - (until - from) / 2 >= past.from) return;
    if (bars >= BARS_MOST) {
      past.full = true;
      section.legend();
      return;
    }
    this.reaching = true;
    try {
      const since = Math.max(from - (until - from), 0), limit = Math.min(PAGE, BARS_MOST - bars), known = past.from;
      const more = await this.fetched({ kind: "past", since, ended_by: known, limit });
      if (more && more.seq >= past.seq && past.from === known) { // not, if the log is another one meanwhile
        past.extend(more);
        this.draw(told);
      }
    } catch {
      LIVE.soon();
    } finally {
      this.reaching = false;
    }
  }
}

// A page follows its queue; a file has the plan as it was.
const PLAN = document.getElementById("plan");
if (PLAN?.dataset.plan) new PlanSource(PLAN);
else if (PLAN) PLAN.section = new PlanSection(PLAN, new Plan(JSON.parse(document.getElementById("plan-data").textContent)));
