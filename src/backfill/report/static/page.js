// The section of the page around the chart: choice of policy and colours, search, what is told, the legend.

class Section {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.find = (selector) => root.querySelector(selector);
    this.find(".tools").hidden = this.find(".place").hidden = false;
    this.chart = new Chart(this.find(".place"), data);
    this.matches = null; // jobs found by the search, in order of start
    this.pointed = -1;
    this.listen();
    this.legend();
    if (data.asked >= 0) this.choose(data.asked, true);
  }

  listen() {
    const { chart, find } = this;
    const actions = { in: () => chart.zoom(2), out: () => chart.zoom(0.5), taller: () => chart.zoom(1, 0.5, 2),
      flatter: () => chart.zoom(1, 0.5, 0.5), left: () => chart.pan(-0.5), right: () => chart.pan(0.5),
      all: () => chart.whole(), next: () => this.step(1), previous: () => this.step(-1) };
    for (const button of this.root.querySelectorAll("button[data-do]")) {
      button.addEventListener("click", actions[button.dataset.do]);
    }
    find(".policies")?.addEventListener("change", (event) => this.show(Number(event.target.value)));
    find("select").addEventListener("change", (event) => { chart.paint(event.target.value); this.legend(); });
    find("form").addEventListener("submit", (event) => { event.preventDefault(); this.step(1); });
    let pause = 0;
    find("input[type=search]").addEventListener("input", (event) => {
      clearTimeout(pause);
      pause = setTimeout(() => this.search(event.target.value), 200);
    });
    takeInHand(chart, {
      point: (job, x, y) => this.point(job, x, y),
      choose: (job) => this.choose(job, false),
      step: (by) => this.step(by),
    });
    chart.place.addEventListener("drawn", () => this.moved());
    window.addEventListener("beforeprint", () => this.print());
    window.addEventListener("afterprint", () => this.printed());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { chart.paint(chart.scheme); this.legend(); });
  }

  show(policy) {
    this.chart.show(policy);
    this.point(-1);
    this.legend();
    if (this.matches) this.search(this.find("input[type=search]").value);
    else if (this.chart.chosen >= 0) this.choose(this.chart.chosen, false);
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
      this.find(".key").before(this.picture(name));
    });
    chart.show(chosen);
    chart.used = used;
    this.legend();
  }

  picture(name) {
    const { front, raster, scale } = this.chart, all = document.createElement("canvas"), context = all.getContext("2d");
    Object.assign(all, { width: front.width, height: front.height });
    context.drawImage(raster.canvas, GUTTER * scale, 0);
    context.drawImage(front, 0, 0);
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
    this.chart.paint(this.chart.scheme);
    this.legend();
  }

  // The box beside the pointer; the line below the chart tells the same to those who cannot see it.
  point(job, x, y) {
    const tip = this.find(".tip");
    tip.hidden = job < 0;
    if (job >= 0) {
      this.pointedIn = this.window();
      if (job !== this.pointed) tip.replaceChildren(...told(this.data, this.chart.schedule, job).flatMap(pair));
      const { clientWidth, clientHeight } = this.chart.place;
      tip.style.left = `${Math.max(0, Math.min(x + 14, clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > clientHeight ? Math.max(0, y - tip.offsetHeight - 10) : y + 18}px`;
    }
    if (job === this.pointed) return;
    this.pointed = job;
    clearTimeout(this.saying);
    if (job >= 0) this.saying = setTimeout(() => this.say(job), 250);
  }

  say(job, before = "") {
    const facts = told(this.data, this.chart.schedule, job);
    this.tell(before + facts.map(([term, text]) => `${term} ${text}`).join("; "));
  }

  tell(text) { this.find("output").textContent = text; }

  choose(job, go, before = "") {
    if (go) this.point(-1);
    this.chart.choose(job, go);
    if (job >= 0) this.say(job, before); else this.tell("");
    const why = this.find(".why"), text = this.data.explained[this.chart.policy]?.[job];
    why.hidden = text === undefined;
    why.textContent = text ?? "";
    why.classList.toggle("whole", why.textContent.includes("\n"));
  }

  // What the pointer was over lies elsewhere once the window has moved.
  moved() {
    if (this.window() !== this.pointedIn) this.point(-1);
    this.find(".range").textContent = `${this.data.names[this.chart.policy]}: ${this.range()}`;
  }

  window() {
    const { from, ticks, row, rows } = this.chart;
    return [from, ticks, row, rows].join();
  }

  range() {
    const { from, ticks, row, rows } = this.chart, { tick, cpus, length, licenceNames } = this.data;
    const time = ticks === length ? "all of the time" : `${instant(from * tick)} to ${instant((from + ticks) * tick)}`;
    const whole = (number) => number.toLocaleString("en");
    const inSight = [];
    if (row === 0 && row + rows >= cpus) inSight.push("all processors");
    else if (row < cpus) inSight.push(`processors ${whole(Math.floor(row))} to ${whole(Math.min(Math.ceil(row + rows), cpus))}`);
    if (licenceNames.length && row + rows > cpus) inSight.push("licences");
    return `${time}; ${inSight.join(" and ")}.`;
  }

  search(text) {
    const wanted = text.trim(), { data, chart } = this;
    this.matches = null;
    this.point(-1);
    if (!wanted) {
      chart.pick(null);
      this.choose(-1, false);
      return;
    }
    const found = wanted === "missed" && data.due ? this.missed() : this.found(wanted.toLowerCase());
    const dim = new Uint8Array(data.count).fill(1);
    for (const job of found.jobs) dim[job] = 0;
    chart.pick(found.jobs.length ? dim : null);
    if (!found.jobs.length) {
      this.choose(-1, false);
      this.tell(found.none || `No job and no user is called ${wanted}.`);
      return;
    }
    const { start, waited } = chart.schedule;
    this.matches = found.jobs.sort((a, b) => start[a] - start[b] || a - b);
    const ran = this.matches.filter((job) => start[job] >= 0);
    const mean = ran.reduce((sum, job) => sum + waited[job], 0) / Math.max(ran.length, 1);
    if (found.jobs.length === 1) this.choose(found.jobs[0], true, found.other);
    else this.tell(`${found.other}${found.what}: ${plural(found.jobs.length, "job")}, mean wait ${span(mean * data.tick)}. Enter goes from one to the next.`);
  }

  // A job by its id, else a user by name, else all whose id or whose user's name begins with the text. `job` or `user`
  // before the text says which.
  found(text) {
    const { data } = this, [, kind, wanted] = /^(?:(job|user) +)?(.*)$/.exec(text);
    const byJob = kind === "user" ? [] : this.those((job) => data.jobName(job).toLowerCase() === wanted);
    const user = kind === "job" ? -1 : data.users.findIndex((name) => name.toLowerCase() === wanted);
    const ofUser = user < 0 ? [] : this.those((job) => data.user[job] === user);
    if (byJob.length) {
      const other = ofUser.length ? `There is also a user ${data.users[user]}: search for user ${data.users[user]}. ` : "";
      return { what: "Jobs of that name", jobs: byJob, other };
    }
    if (ofUser.length) return { what: `User ${data.users[user]}`, jobs: ofUser, other: "" };
    const users = new Set(data.users.flatMap((name, i) => (name.toLowerCase().startsWith(wanted) ? [i] : [])));
    const jobs = this.those((job) => (kind !== "job" && users.has(data.user[job]))
      || (kind !== "user" && data.jobName(job).toLowerCase().startsWith(wanted)));
    return { what: `What begins with ${wanted}`, jobs, other: "" };
  }

  missed() {
    const jobs = this.those((job) => isLate(this.chart.schedule, job));
    return { what: "Jobs that missed their deadlines", jobs, other: "", none: "No job missed its deadline." };
  }

  those(fits) {
    const jobs = [];
    for (let job = 0; job < this.data.count; job++) if (fits(job)) jobs.push(job);
    return jobs;
  }

  // To the next job of the search; without one, to the next that starts.
  step(by) {
    const { chart, matches } = this, { start, pieces } = chart.schedule;
    if (matches) {
      const place = matches.indexOf(chart.chosen);
      const next = place < 0 ? (by > 0 ? 0 : matches.length - 1) : (place + by + matches.length) % matches.length;
      const count = matches.length.toLocaleString("en");
      this.choose(matches[next], true, `${(next + 1).toLocaleString("en")} of ${count}: `);
      return;
    }
    let k = chart.chosen >= 0 && start[chart.chosen] >= 0 ? pieces.of[chart.chosen] : this.firstInSight() - by;
    const now = pieces.job[k];
    do k += by; while (k >= 0 && k < pieces.count && (pieces.job[k] === now || pieces.of[pieces.job[k]] !== k));
    if (k >= 0 && k < pieces.count) this.choose(chart.schedule.jobOf(pieces.job[k]), true);
  }

  firstInSight() {
    const { pieces, start } = this.chart.schedule;
    let low = 0;
    for (let high = pieces.count; low < high;) {
      const middle = (low + high) >> 1;
      if (start[pieces.job[middle]] < this.chart.from) low = middle + 1; else high = middle;
    }
    return low;
  }

  legend() {
    const { chart } = this, { name, texts } = SCHEMES[chart.scheme];
    const items = texts(this.data).filter(([i]) => chart.scheme === "user" || chart.used.has(i)).map(([i, text]) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      if (chart.scheme !== "user") {
        swatch.style.background = `var(--${name}${i})`;
        item.append(swatch);
      }
      item.append(text);
      return item;
    });
    if (this.data.away.length) {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = "away";
      item.append(swatch, "not there: an outage, or a window");
      items.push(item);
    }
    this.find(".key").replaceChildren(...items);
  }
}

function pair([term, text]) {
  const dt = document.createElement("dt"), dd = document.createElement("dd"), name = document.createElement("bdi");
  dt.textContent = term;
  name.textContent = text;
  dd.append(name);
  return [dt, dd];
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
  root.dataset.ready = String(Math.round(performance.now() - started)); // milliseconds, for those who measure
  note.remove();
}

begin();
