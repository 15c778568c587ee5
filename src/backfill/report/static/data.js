// The data of the chart, as report/gantt.py packs it: base64 of one zlib stream of a header and int32 columns.

async function unpack(text) {
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  return new Data(header, bytes, 4 + length);
}

// A column lies there as four planes of bytes, least first.
function column(bytes, from, count) {
  const values = new Int32Array(count);
  for (let i = 0, b = from + count, c = b + count, d = c + count; i < count; i++) {
    values[i] = bytes[from + i] | (bytes[b + i] << 8) | (bytes[c + i] << 16) | (bytes[d + i] << 24);
  }
  return values;
}

function running(differences) {
  for (let i = 1; i < differences.length; i++) differences[i] += differences[i - 1];
  return differences;
}

// The columns of the jobs, which all policies share; times are ticks since the first submit.
class Data {
  constructor(header, bytes, from) {
    Object.assign(this, { states: header.states, away: header.away || [], explained: header.explained || [], sites: header.sites || [], site: header.site || [], turns: header.turns || [], asked: header.asked ?? -1,
      tick: header.tick, length: header.length, count: header.jobs, users: header.users, projects: header.projects,
      epoch: header.epoch, resources: header.resources || [], nodes: header.nodes, licenceNames: header.licences, ids: header.ids, words: header.why, names: header.policies });
    const tall = [...header.cpus, ...header.copies];
    this.floor = new Float64Array(tall.length + 1); // the first row of each node, then of each licence
    tall.forEach((rows, lane) => { this.floor[lane + 1] = this.floor[lane] + rows; });
    this.platform = header.cpus.length; // nodes
    this.cpus = this.floor[this.platform];
    this.rows = this.floor[tall.length] || 1;
    this.places = header.columns.map(([name, count]) => {
      const place = { name, count, from };
      from += 4 * count;
      return place;
    });
    this.bytes = bytes;
    const first = this.places.findIndex((place) => place.name === "held");
    for (const { name, count, from: at } of this.places.slice(0, first)) this[name] = column(bytes, at, count);
    running(this.submit);
    if (this.id) running(this.id);
    if (this.licences) this.licencesEnd = running(Int32Array.from(this.licences));
    this.perPolicy = (this.places.length - first) / this.names.length;
    this.first = first;
    this.schedules = [];
  }

  jobName(job) { return this.ids ? this.ids[job] : String(this.id[job]); }

  // The deadline of a job in ticks; -1 if it has none.
  dueAt(job) { return this.due && this.due[job] >= 0 ? this.submit[job] + this.due[job] : -1; }

  // The licences of a job: use(its lane, copies).
  eachLicence(job, use) {
    if (!this.licences) return;
    for (let i = this.licencesEnd[job] - this.licences[job]; i < this.licencesEnd[job]; i++) {
      use(this.licence[i], this.copies[i]);
    }
  }

  projectName(job) { return !this.project || this.project[job] < 0 ? "" : this.projects[this.project[job]]; }

  userName(job) { return this.user[job] < 0 ? "" : this.users[this.user[job]]; }

  // The runs before the last ones: boxes after those of the jobs.
  before(found, earlier) {
    const longer = (values, more) => { const all = new Int32Array(found.boxes); all.set(values.subarray(0, this.count)); all.set(more, this.count); return all; };
    found.held = longer(found.held, found.stayed);
    found.why = longer(found.why, found.because);
    found.start.set(found.began, this.count);
    for (let i = 0; i < earlier.length; i++) {
      found.end[this.count + i] = found.began[i] + found.stayed[i];
      found.waited[earlier[i]] -= found.stayed[i];
    }
  }

  // The stretches for which runs that share processors have their turns: boxes after those of all runs.
  stretches(found) {
    const count = found.boxes + found.turn.length;
    for (const name of ["start", "end", "held", "why"]) {
      const all = new Int32Array(count);
      all.set(found[name]);
      found[name] = all;
    }
    for (let i = 0, box = found.boxes; box < count; i++, box++) {
      found.start[box] = found.since[i];
      found.end[box] = found.since[i] + found.lasted[i];
      found.held[box] = found.lasted[i];
      found.why[box] = found.why[found.turning[i]];
    }
  }

  // One policy's schedule: start and end of each job (start -1: it never ran), why, and where.
  schedule(policy) {
    if (this.schedules[policy]) return this.schedules[policy];
    const begin = this.first + policy * this.perPolicy;
    const found = { name: this.names[policy] };
    for (const { name, count, from } of this.places.slice(begin, begin + this.perPolicy)) {
      found[name] = column(this.bytes, from, count);
    }
    const usual = policy ? this.schedule(0).held : null, earlier = found.again || new Int32Array(0);
    found.boxes = this.count + earlier.length; // of the last runs, whose number is that of the job, and of those before
    found.start = new Int32Array(found.boxes);
    found.end = new Int32Array(found.boxes);
    found.runOf = (box) => (box < found.boxes ? box : found.turning[box - found.boxes]); // of a stretch its run
    found.jobOf = (box) => {
      const run = found.runOf(box);
      return run < this.count ? run : earlier[run - this.count];
    };
    found.inTurns = found.turn?.length > 0;
    found.waited = earlier.length ? Int32Array.from(found.wait) : found.wait;
    for (let job = 0; job < this.count; job++) {
      if (usual) found.held[job] += usual[job];
      const ran = found.wait[job] >= 0;
      found.start[job] = ran ? this.submit[job] + found.back[job] + found.wait[job] : -1;
      found.end[job] = ran ? found.start[job] + found.held[job] : -1;
    }
    if (earlier.length) this.before(found, earlier);
    if (found.inTurns) this.stretches(found);
    // Laid out when it is first drawn: of the first policy, others need no more than how long jobs held their nodes.
    let pieces = null;
    Object.defineProperty(found, "pieces", { get: () => (pieces ||= layOut(this, found)) });
    this.schedules[policy] = found;
    return found;
  }
}

// When a box begins to make progress: until then it holds its resources while predecessors of its job are running.
function progressFrom(schedule, box) {
  const { start, dangled } = schedule;
  return dangled && box < dangled.length ? start[box] + dangled[box] : start[box];
}

function isLate(schedule, job) { return (schedule.why[job] & 2) > 0; }
