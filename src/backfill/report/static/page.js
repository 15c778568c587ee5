// The section of the page around the chart: choice of policies and colours, search and filters, the details, the legend.

const MANY_JOBS = 100000; // with more of them one policy is shown at first, which draws in half the time

// A chart, and the rows of resources in use below it.
class Pane {
  constructor(root, data, policy) {
    this.root = root;
    root.hidden = false;
    this.place = root.querySelector(".place");
    this.chart = new Chart(this.place, data, policy);
    this.use = new Use(root.querySelector("canvas.use"), this.chart);
    this.tip = root.querySelector(".tip");
  }

  show(policy) {
    if (this.chart.policy !== policy) this.chart.show(policy);
    this.root.querySelector(".whose").textContent = this.chart.data.names[policy];
  }
}

class Section {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.find = (selector) => root.querySelector(selector);
    this.find(".tools").hidden = false;
    this.found = new Found(data);
    this.panes = [];
    this.cursor = -1; // the tick that is pointed at
    this.matches = null; // jobs found by the search and the filters, in order of start
    this.pointed = -1;
    const first = Number(root.dataset.first), other = root.dataset.other;
    this.both = root.querySelectorAll(".one").length > 1;
    this.addPane(first);
    this.showOther(other === undefined || data.count > MANY_JOBS ? "" : other);
    this.listen();
    this.legend();
    if (data.asked >= 0) this.choose(data.asked, true);
    recall(this);
  }

  get chart() { return this.panes[0].chart; }

  get shown() { return this.panes.filter((pane) => !pane.root.hidden); }

  addPane(policy) {
    const pane = new Pane(this.root.querySelectorAll(".one")[this.panes.length], this.data, policy);
    this.panes.push(pane);
    pane.show(policy);
    takeInHand(pane.chart, {
      point: (job, x, y) => this.point(job, x, y, pane),
      choose: (job) => this.choose(job, false, "", pane),
      step: (by) => this.step(by, pane),
    });
    pane.place.addEventListener("drawn", () => this.moved());
    for (const canvas of [pane.chart.front, pane.use.canvas]) {
      canvas.addEventListener("pointermove", (event) => this.follow(event.clientX - canvas.getBoundingClientRect().left));
      canvas.addEventListener("pointerleave", () => this.follow(-1));
    }
    return pane;
  }

  // The policy of the second chart; "" for none.
  showOther(other) {
    if (!this.both) return;
    const select = this.find("[name=with]"), [first, second] = this.panes;
    select.value = other;
    if (other === "") {
      if (second) second.root.hidden = true;
      first.chart.twin = null;
    } else {
      const pane = second || this.addPane(Number(other));
      pane.root.hidden = false;
      pane.show(Number(other));
      first.chart.twin = pane.chart;
      pane.chart.twin = first.chart;
      pane.chart.follow(first.chart);
      if (pane.chart.scheme !== first.chart.scheme) pane.chart.paint(first.chart.scheme);
      pane.chart.chosen = first.chart.chosen;
    }
    this.root.classList.toggle("both", other !== "");
    for (const pane of this.panes) pane.chart.resize();
    this.legend();
  }

  listen() {
    const { chart, find } = this;
    const actions = { in: () => chart.zoom(2), out: () => chart.zoom(0.5), taller: () => chart.zoom(1, 0.5, 2),
      flatter: () => chart.zoom(1, 0.5, 0.5), left: () => chart.pan(-0.5), right: () => chart.pan(0.5),
      all: () => chart.whole(), next: () => this.step(1), previous: () => this.step(-1), clear: () => this.clear() };
    for (const button of this.root.querySelectorAll("button[data-do]")) {
      button.addEventListener("click", actions[button.dataset.do]);
    }
    find(".policies")?.addEventListener("change", (event) => this.show(Number(event.target.value)));
    find("[name=with]")?.addEventListener("change", (event) => { this.showOther(event.target.value); this.search(); });
    find("[name=colour]").addEventListener("change", (event) => this.paint(event.target.value));
    find("form").addEventListener("submit", (event) => event.preventDefault());
    find("form").addEventListener("keydown", (event) => { // browsers do not submit a form of several fields by Enter
      if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
      event.preventDefault();
      this.searchNow();
      this.step(1);
    });
    find("form").addEventListener("input", () => {
      clearTimeout(this.pause);
      this.pause = setTimeout(() => this.searchNow(), 200);
    });
    window.addEventListener("beforeprint", () => this.print());
    window.addEventListener("afterprint", () => this.printed());
    window.addEventListener("hashchange", () => recall(this));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint(chart.scheme));
  }

  paint(scheme) {
    for (const { chart } of this.panes) chart.paint(scheme);
    this.legend();
    this.keep();
  }

  show(policy) {
    const before = this.chart.policy, other = this.find("[name=with]");
    this.panes[0].show(policy);
    if (other && other.value === String(policy)) this.showOther(String(before)); // the two change places
    this.point(-1);
    this.legend();
    if (this.matches) this.search();
    else if (this.chart.chosen >= 0) this.choose(this.chart.chosen, false);
    this.keep();
  }

  // The query in the fields.
  get asked() {
    const value = (name) => this.find(`[name=${name}]`)?.value ?? "";
    return { find: value("find"), waited: Number(value("waited")), user: value("user"), size: Number(value("size")),
      missed: this.find("[name=missed]")?.checked ?? false };
  }

  // Writes the view into the address, once it has stayed for a moment.
  keep() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => { if (this.touched) keepAddress(addressOf(viewNow(this))); }, 300);
  }

  // On paper every policy has its chart, in light colours; the page itself stays as it was.
  print() {
    const { chart } = this, chosen = chart.policy;
    this.printed();
    this.point(-1);
    document.documentElement.classList.add("printing");
    const used = new Set();
    this.data.names.forEach((name, policy) => {
      chart.show(policy);
      chart.used.forEach((colour) => used.add(colour));
      chart.draw();
      this.panes[0].use.draw(this.most([this.panes[0]]), -1);
      this.find(".key").before(this.picture(name));
    });
    chart.show(chosen);
    this.legend(used);
  }

  picture(name) {
    const { front, raster, scale } = this.chart, all = document.createElement("canvas"), context = all.getContext("2d");
    const rows = this.panes[0].use.canvas;
    Object.assign(all, { width: front.width, height: front.height + rows.height });
    context.drawImage(raster.canvas, GUTTER * scale, 0);
    context.drawImage(front, 0, 0);
    if (rows.width && rows.height) context.drawImage(rows, 0, front.height);
    const figure = document.createElement("figure"), heading = document.createElement("p");
    figure.className = "printed";
    heading.textContent = `${name}: ${this.range()}`;
    figure.append(all, heading);
    return figure;
  }

  printed() {
    for (const figure of this.root.querySelectorAll(".printed")) figure.remove();
    if (!document.documentElement.classList.contains("printing")) return;
    document.documentElement.classList.remove("printing");
    this.paint(this.chart.scheme);
  }

  // The box beside the pointer; the line below the chart has the same text for readers who cannot see it.
  point(job, x, y, pane = this.panes[0]) {
    for (const each of this.panes) if (each !== pane || job < 0) each.tip.hidden = true;
    if (job >= 0) {
      const { tip, chart } = pane;
      this.pointedIn = this.window();
      if (job !== this.pointed || tip.hidden) tip.replaceChildren(...this.facts(job, pane).flatMap(pair));
      tip.hidden = false;
      const { clientWidth, clientHeight } = chart.place;
      tip.style.left = `${Math.max(0, Math.min(x + 14, clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > clientHeight ? Math.max(0, y - tip.offsetHeight - 10) : y + 18}px`;
    }
    if (job === this.pointed) return;
    this.pointed = job;
    clearTimeout(this.saying);
    if (job >= 0) this.saying = setTimeout(() => this.say(job, "", pane), 250);
  }

  // All about a job, and how long it waits under the other policy that is shown.
  facts(job, pane) {
    const other = this.shown.find((each) => each !== pane), facts = told(this.data, pane.chart.schedule, job);
    const place = facts.findIndex(([term]) => term === "wait");
    if (other && place >= 0 && other.chart.schedule.start[job] >= 0) {
      const { waited, name } = other.chart.schedule;
      facts.splice(place + 1, 0, [`under ${name}`, waitSpan(waited[job] * this.data.tick)]);
    }
    return facts;
  }

  say(job, before = "", pane = this.panes[0]) {
    this.tell(before + this.facts(job, pane).map(([term, text]) => `${term} ${text}`).join("; "));
  }

  tell(text) { this.find("output").textContent = text; }

  choose(job, go, before = "", pane = this.panes[0]) {
    if (go) this.point(-1);
    for (const each of this.panes) each.chart.choose(job, go && each === pane);
    if (job >= 0) this.say(job, before, pane); else this.tell("");
    const why = this.find(".why"), text = this.data.explained[pane.chart.policy]?.[job];
    why.hidden = text === undefined;
    why.textContent = text ?? "";
    why.classList.toggle("whole", why.textContent.includes("\n"));
    this.keep();
  }

  // The object under the pointer changes once the window has moved.
  moved() {
    if (this.window() !== this.pointedIn) this.point(-1);
    this.find(".range").textContent = `${this.data.names[this.chart.policy]}: ${this.range()}`;
    this.drawUse();
    this.keep();
  }

  follow(x) {
    const { from, ticks, width, scale } = this.chart;
    this.cursor = x < GUTTER ? -1 : from + (((x - GUTTER) * scale) / width) * ticks;
    if (!this.following) {
      this.following = true;
      requestAnimationFrame(() => { this.following = false; this.drawUse(); });
    }
  }

  drawUse() {
    const most = this.most();
    for (const { use } of this.shown) use.draw(most, this.cursor);
  }

  // The most jobs that wait under the policies that are shown, so that the rows compare, and whether the peaks differ so
  // much that one would be pressed to the floor.
  most(shown = this.shown) {
    const peaks = shown.map(({ use }) => use.most), most = Math.max(1, ...peaks);
    return { most, unequal: most > 8 * Math.max(1, Math.min(...peaks)) };
  }

  window() {
    const { from, ticks, row, rows } = this.chart;
    return [from, ticks, row, rows].join();
  }

  range() {
    const { from, ticks, row, rows } = this.chart, { tick, cpus, length, licenceNames, epoch } = this.data;
    const time = ticks === length ? "all of the time" : `${instant(from * tick, true, epoch)} to ${instant((from + ticks) * tick, true, epoch)}`;
    const whole = (number) => number.toLocaleString("en");
    const inSight = [];
    if (row === 0 && row + rows >= cpus) inSight.push("all processors");
    else if (row < cpus) inSight.push(`processors ${whole(Math.floor(row))} to ${whole(Math.min(Math.ceil(row + rows), cpus))}`);
    if (licenceNames.length && row + rows > cpus) inSight.push("licences");
    return `${time}; ${inSight.join(" and ")}.`;
  }

  clear() {
    this.find("form").reset();
    this.searchNow();
  }

  searchNow() {
    clearTimeout(this.pause);
    const asked = JSON.stringify(this.asked);
    if (asked !== this.searched) this.search();
    this.searched = asked;
  }

  search() {
    const { data, chart, asked } = this, found = this.found.of(chart.schedule, asked);
    this.searched = JSON.stringify(asked);
    this.matches = null;
    this.point(-1);
    this.find("[data-do=clear]").hidden = !found;
    if (!found) {
      for (const each of this.panes) each.chart.pick(null);
      this.choose(-1, false);
      return;
    }
    const { start, waited } = chart.schedule;
    for (const each of this.panes) this.dim(each, each === this.panes[0] ? found : this.found.of(each.chart.schedule, asked));
    this.matches = found.jobs.sort((a, b) => start[a] - start[b] || a - b);
    this.none = found.none;
    if (!found.jobs.length) {
      this.choose(-1, false);
      this.tell(found.none);
      return;
    }
    const ran = this.matches.filter((job) => start[job] >= 0);
    const mean = ran.reduce((sum, job) => sum + waited[job], 0) / Math.max(ran.length, 1);
    if (found.jobs.length === 1) this.choose(found.jobs[0], true, found.other);
    else this.tell(`${found.other}${found.what}: ${plural(found.jobs.length, "job")}, mean wait ${waitSpan(mean * data.tick)}. Enter goes from one to the next.`);
    this.keep();
  }

  dim(pane, found) {
    const dim = new Uint8Array(this.data.count).fill(1);
    for (const job of found.jobs) dim[job] = 0;
    pane.chart.pick(found.jobs.length ? dim : null);
  }

  // To the next job of the search; without one, to the next that starts.
  step(by, pane = this.panes[0]) {
    const { matches } = this, { chart } = pane, { start, pieces } = chart.schedule;
    if (matches) {
      if (!matches.length) {
        this.tell(this.none);
        return;
      }
      const place = matches.indexOf(chart.chosen);
      const next = place < 0 ? (by > 0 ? 0 : matches.length - 1) : (place + by + matches.length) % matches.length;
      const count = matches.length.toLocaleString("en");
      this.choose(matches[next], true, `${(next + 1).toLocaleString("en")} of ${count}: `, pane);
      return;
    }
    let k = chart.chosen >= 0 && start[chart.chosen] >= 0 ? pieces.of[chart.chosen] : this.firstInSight(chart) - by;
    const now = pieces.job[k];
    do k += by; while (k >= 0 && k < pieces.count && (pieces.job[k] === now || pieces.of[chart.schedule.runOf(pieces.job[k])] !== k));
    if (k >= 0 && k < pieces.count) this.choose(chart.schedule.jobOf(pieces.job[k]), true, "", pane);
  }

  firstInSight({ schedule: { pieces, start }, from }) {
    let low = 0;
    for (let high = pieces.count; low < high;) {
      const middle = (low + high) >> 1;
      if (start[pieces.job[middle]] < from) low = middle + 1; else high = middle;
    }
    return low;
  }

  legend(used = new Set(this.shown.flatMap(({ chart }) => [...chart.used]))) {
    const { chart } = this, { name, texts, many } = SCHEMES[chart.scheme];
    const items = texts(this.data).filter(([i]) => many || used.has(i)).map(([i, text]) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      if (!many) {
        swatch.style.background = `var(--${name}${i})`;
        item.append(swatch);
      }
      item.append(text);
      return item;
    });
    const hatched = (text) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = "away";
      item.append(swatch, text);
      items.push(item);
    };
    if (this.data.away.length) hatched("unavailable: an outage or a window");
    if (this.shown.some(({ chart: each }) => each.schedule.dangled && each.schedule.dangled.some((ticks) => ticks > 0))) {
      hatched("pale: held but not busy, because the job waits for its predecessors");
    }
    this.find(".key").replaceChildren(...items);
  }
}

async function begin() {
  const root = document.getElementById("gantt"), packed = document.getElementById("gantt-data");
  if (!root || !packed) return;
  const note = root.querySelector(".instead");
  if (typeof DecompressionStream === "undefined") {
    note.textContent = "This browser is too old to unpack the chart (it has no DecompressionStream). All else on this page is complete.";
    return;
  }
  note.textContent = "Unpacking …";
  const started = performance.now();
  root.section = new Section(root, await unpack(packed.textContent));
  for (const act of ["pointerdown", "keydown", "wheel", "input"]) root.addEventListener(act, () => { root.section.touched = true; }, { passive: true });
  root.dataset.ready = String(Math.round(performance.now() - started)); // milliseconds, for measurements
  note.remove();
}

begin();
