// The layer over the picture: axes, names of jobs with enough space, and the outline of the selected job.

const LABELS_MOST = 3000; // pieces in sight; with more of them none is large enough for its name

function drawFront(chart, view) {
  const context = chart.front.getContext("2d");
  const { scale, width, height, ink } = chart;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, chart.front.width, chart.front.height);
  context.font = `12px ${getComputedStyle(chart.place).fontFamily}`;
  context.lineWidth = 1;
  const box = { left: GUTTER, wide: width / scale, tall: height / scale };
  timeAxis(chart, context, box);
  rowAxis(chart, context, box);
  context.save();
  context.beginPath();
  context.rect(box.left, 0, box.wide, box.tall);
  context.clip();
  context.translate(box.left, 0);
  shadeAway(chart, context, view);
  borders(chart, context, view);
  bands(chart, context, view);
  chart.data.under?.(chart, context, view);
  marks(chart, context, view);
  outline(chart, context, view);
  chart.data.over?.(chart, context, view);
  context.restore();
  context.strokeStyle = ink.soft;
  context.strokeRect(box.left + 0.5, 0.5, box.wide - 1, box.tall - 1);
}

function timeAxis(chart, context, { left, wide, tall }) {
  const tick = chart.data.tick, from = chart.from * tick, length = chart.ticks * tick;
  const room = Math.max(2, Math.floor(wide / 110));
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const [t, text] of marksOf(from, length, Math.max(length / room, tick), chart.data.epoch)) {
    const x = left + ((t - from) / length) * wide;
    context.fillStyle = chart.ink.soft;
    context.fillRect(Math.round(x), tall, 1, 5);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, left + half - 20), left + wide - half), tall + 8);
  }
}

function rowAxis(chart, context, { left, tall }) {
  const { data, row, rows } = chart, { nodes, licenceNames, cpus, floor } = data;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = chart.ink.soft;
  const y = (at) => ((at - row) / rows) * tall;
  const write = (text, at) => context.fillText(text, left - 8, Math.min(Math.max(at, 7), tall - 7), left - 10);
  const lanes = (texts, first) => {
    const perLane = ((floor[first + texts.length] - floor[first]) / texts.length) * (tall / rows);
    const every = Math.max(1, roundStep(18 / perLane));
    let last = -Infinity;
    texts.forEach((text, i) => {
      const top = y(floor[first + i]), bottom = y(floor[first + i + 1]);
      if (bottom < 0 || top > tall) return;
      const middle = (Math.max(top, 0) + Math.min(bottom, tall)) / 2;
      if (i % every === 0 && middle - last >= 12) {
        write(text, middle);
        last = middle;
      }
      if (perLane >= 4) context.fillRect(left - 4, Math.round(top), 4, 1);
    });
  };
  if (licenceNames.length) lanes(licenceNames, data.platform);
  if (nodes.length) {
    lanes(nodes, 0);
    return;
  }
  const step = Math.max(1, roundStep((rows * 40) / tall));
  for (let at = Math.ceil(row / step) * step; at <= Math.min(row + rows, cpus); at += step) {
    context.fillRect(left - 5, Math.min(Math.round(y(at)), tall - 1), 5, 1);
    write(at.toLocaleString("en"), y(at));
  }
}

function boxOf(chart, view, job, low, high) {
  const { scale, schedule } = chart;
  const x = Math.max((schedule.start[job] * view.perTick - view.left) / scale, -4);
  const end = Math.min((schedule.end[job] * view.perTick - view.left) / scale, chart.width / scale + 4);
  return { x, y: (low * view.perRow - view.top) / scale, wide: end - x, tall: ((high - low) * view.perRow) / scale };
}

// The capacity that outages and windows remove: hatched rows, which are idle then.
function shadeAway(chart, context, view) {
  const { scale, ink } = chart;
  if (!chart.data.away.length) return;
  context.fillStyle = hatching(context, ink.soft);
  context.globalAlpha = 0.6;
  for (const [low, high, begin, end] of chart.data.away) {
    const x = (begin * view.perTick - view.left) / scale, y = (low * view.perRow - view.top) / scale;
    const wide = Math.max(((end - begin) * view.perTick) / scale, 1);
    context.fillRect(x, y, wide, ((high - low) * view.perRow) / scale);
  }
  context.globalAlpha = 1;
}

function hatching(context, colour) {
  const tile = document.createElement("canvas"), pen = tile.getContext("2d");
  tile.width = tile.height = 8;
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  for (const x of [-8, 0, 8]) {
    pen.moveTo(x, 8);
    pen.lineTo(x + 8, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

// Lines between nodes and between licences that are high enough for it, and a strong one between the two.
function borders(chart, context, view) {
  const { data, scale, width, height, ink } = chart, { floor, platform } = data;
  const y = (row) => Math.round((row * view.perRow - view.top) / scale);
  context.fillStyle = ink.rule;
  for (let lane = 1; lane < floor.length - 1; lane++) {
    const at = y(floor[lane]);
    if (at > 0 && at < height / scale && at - y(floor[lane - 1]) >= 6) context.fillRect(0, at - 1, width / scale, 1);
  }
  if (data.licenceNames.length) {
    context.fillStyle = ink.text;
    context.fillRect(0, y(floor[platform]) - 1, width / scale, 2);
  }
}

// A strong line between sites and between turns, and the name of each at its right end.
function bands(chart, context, view) {
  const { data, scale, width, height, ink } = chart, { floor, site, turns, platform } = data;
  const y = (row) => Math.round((row * view.perRow - view.top) / scale), wide = width / scale;
  const perTurn = platform / Math.max(turns.length, 1), turnOf = (lane) => Math.floor(lane / perTurn);
  for (let first = 0, last; (site.length || turns.length) && first < platform; first = last) {
    for (last = first + 1; last < platform && site[last] === site[first] && turnOf(last) === turnOf(first); ) last++;
    const top = Math.max(y(floor[first]), 0), bottom = Math.min(y(floor[last]), height / scale);
    if (bottom <= top) continue;
    context.fillStyle = ink.text;
    if (first) context.fillRect(0, top - 1, wide, 2);
    const name = [turns[turnOf(first)], data.sites[site[first]]].filter(Boolean).join(" "), room = context.measureText(name).width + 8;
    if (bottom - top < 18 || name === data.nodes[first]) continue; // the axis has the name of a single node
    context.textAlign = "right";
    context.textBaseline = "top";
    context.fillStyle = `rgb(${ink.background})`;
    context.fillRect(wide - room, top + 2, room, 16);
    context.fillStyle = ink.text;
    context.fillText(name, wide - 4, top + 4);
  }
}

// Where the pieces of each gang lie: of a job of several tasks, or of the jobs of one project that started together.
function gangsOf(data, schedule) {
  if (schedule.gangs) return schedule.gangs;
  const { pieces } = schedule, gangs = schedule.gangs = new Map();
  for (let k = 0; k < pieces.count; k++) {
    const key = gangKey(data, schedule, pieces.job[k]), at = (pieces.low[k] + pieces.high[k]) / 2, gang = gangs.get(key);
    if (!key) continue;
    if (gang) [gang.low, gang.high] = [Math.min(gang.low, at), Math.max(gang.high, at)];
    else gangs.set(key, { low: at, high: at });
  }
  return gangs;
}

// The connection between the boxes of one gang; nothing for a box that did not start as part of a gang.
function gangKey(data, schedule, box) {
  const job = schedule.jobOf(box);
  if (data.words[schedule.why[box] >> 2] !== "gang") return "";
  const tied = data.project && data.project[job] >= 0 && data.procs[job] === data.each[job];
  return tied ? `${data.project[job]} at ${schedule.start[box]}` : `${box}`;
}

// Where sites share gangs: a line from processor to processor of a gang, and a corner in the box of a backfilled job.
function gangOf(chart, context, view, job, at) {
  const { data, schedule, scale, ink } = chart;
  context.fillStyle = ink.text;
  if (data.words[schedule.why[job] >> 2] === "backfill" && at.wide > 6) {
    const side = Math.min(7, at.tall - 1);
    context.beginPath();
    context.moveTo(at.x, at.y);
    context.lineTo(at.x + side, at.y);
    context.lineTo(at.x, at.y + side);
    context.fill();
  }
  const gang = gangsOf(data, schedule).get(gangKey(data, schedule, job));
  if (!gang || gang.low === gang.high) return;
  context.fillRect(at.x + 2, (gang.low * view.perRow - view.top) / scale, 1.5, (gang.high - gang.low) * view.perRow / scale);
  context.beginPath();
  context.arc(at.x + 2.75, at.y + at.tall / 2, Math.min(3, at.tall / 3), 0, 2 * Math.PI);
  context.fill();
}

// The deadlines of jobs and the names of those that have room for one.
function marks(chart, context, view) {
  const found = [];
  let seen = 0;
  chart.each(chart.from, chart.from + chart.ticks, (job, low, high) => {
    if (low > chart.row + chart.rows || high < chart.row) return false;
    const at = boxOf(chart, view, job, low, high);
    if (at.tall > 5) found.push([job, at]);
    return ++seen > LABELS_MOST;
  });
  if (seen > LABELS_MOST) return;
  heldOnly(chart, context, view, found);
  for (const [job, at] of found) deadlineOf(chart, context, view, job, at);
  if (chart.data.sites.length) for (const [job, at] of found) gangOf(chart, context, view, job, at);
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const [job, at] of found) if (at.wide > 34 && at.tall > 13) nameOf(chart, context, job, at);
}

// Where boxes hold processors and make no progress: hatched.
function heldOnly(chart, context, view, found) {
  const { schedule, scale, ink } = chart;
  if (!schedule.dangled) return;
  context.fillStyle = hatching(context, ink.soft);
  context.globalAlpha = 0.6;
  for (const [box, at] of found) {
    const since = Math.min((progressFrom(schedule, box) * view.perTick - view.left) / scale, at.x + at.wide);
    if (since > at.x) context.fillRect(at.x, at.y, since - at.x, at.tall);
  }
  context.globalAlpha = 1;
}

function nameOf(chart, context, job, at) {
  const [red, green, blue] = chart.ink.colours[chart.shade[job]];
  const light = 0.3 * red + 0.59 * green + 0.11 * blue >= 130, own = chart.schedule.jobOf(job);
  const text = chart.data.jobName(own), left = Math.max(at.x, 0) + 4, { width } = context.measureText(text);
  if (width >= at.x + at.wide - left - 4) return;
  const solid = solidTo(chart, job), y = at.y + at.tall / 2;
  context.fillStyle = chart.dim && chart.dim[own] ? chart.ink.soft : light ? "#000" : "#fff";
  if (left + width > solid) { // on what is only planned, which is pale
    context.fillStyle = chart.ink.text;
    context.strokeStyle = `rgb(${chart.ink.background})`;
    context.lineWidth = 3;
    if (left < solid) context.strokeText(text, left, y);
  }
  context.fillText(text, left, y);
}

// Up to where a box is more than planned.
function solidTo(chart, job) {
  const { solidUntil } = chart.schedule;
  return solidUntil ? ((solidUntil[job] - chart.from) * chart.width) / chart.ticks / chart.scale : Infinity;
}

// A deadline is a mark where it fell: a thin line through the rows of a job that met it, joined to its box, and a strong
// one in the box of a job that missed it. If colours show something else, the time beyond it is underlined.
function deadlineOf(chart, context, view, job, at) {
  const { runOf, end: ends } = chart.schedule, box = job;
  job = runOf(box);
  if (job >= chart.data.count || chart.data.dueAt(job) < 0 || ends[box] < ends[job]) return; // of turns, the last ones
  const due = acrossDue(chart, view, job), end = at.x + at.wide;
  if (isLate(chart.schedule, job)) {
    const x = Math.max(due, at.x);
    context.fillStyle = chart.ink.late;
    if (due > at.x) context.fillRect(x, at.y, 2, at.tall - 1);
    if (chart.scheme !== "due") context.fillRect(x, at.y + at.tall - 4, Math.max(end - x - 1, 2), 3);
  } else if (at.tall > 10) {
    context.fillStyle = chart.ink.met;
    context.fillRect(due, at.y + 1, 1.5, at.tall - 3);
    context.fillRect(end, at.y + at.tall / 2, Math.max(due - end, 0), 1);
  }
}

// How far to the right a job's deadline lies.
function acrossDue(chart, view, job) {
  return (chart.data.dueAt(job) * view.perTick - view.left) / chart.scale;
}

function outline(chart, context, view) {
  const { start, again, turning, boxes, jobOf } = chart.schedule, job = chart.chosen;
  if (job < 0 || start[job] < 0) return;
  if (turning) turning.forEach((run, i) => { if (jobOf(run) === job) outlineBox(chart, context, view, boxes + i); });
  if (again) again.forEach((of, i) => { if (of === job) outlineBox(chart, context, view, chart.data.count + i); });
  outlineBox(chart, context, view, job);
}

function outlineBox(chart, context, view, job) {
  const { pieces } = chart.schedule;
  for (let k = pieces.of[job]; k < pieces.count && pieces.job[k] === job; k++) {
    const at = boxOf(chart, view, job, pieces.low[k], pieces.high[k]);
    const wide = Math.max(at.wide, 3), tall = Math.max(at.tall, 3);
    for (const [colour, line] of [[`rgb(${chart.ink.background})`, 5], [chart.ink.text, 2.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(at.x, at.y, wide, tall);
    }
    if (chart.schedule.runOf(job) === chart.chosen && chart.schedule.end[job] === chart.schedule.end[chart.chosen]) untilDue(chart, context, view, at);
  }
}

// From the end of the chosen job to its deadline.
function untilDue(chart, context, view, at) {
  if (chart.data.dueAt(chart.chosen) < 0 || isLate(chart.schedule, chart.chosen)) return;
  const x = acrossDue(chart, view, chart.chosen), y = at.y + at.tall / 2;
  context.setLineDash([3, 3]);
  context.beginPath();
  context.moveTo(at.x + at.wide, y);
  context.lineTo(x, y);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = context.strokeStyle;
  context.fillRect(x - 1, at.y, 3, at.tall);
}
