// The texts of the chart: times, spans, and why a job started when it did.

const WHY = {
  "head": ["first in the queue", "it was first in the queue"],
  "backfill": ["backfilled", "it filled a hole that no earlier job could use"],
  "reserved": ["its reserved time came", "its reserved time had come"],
  "moved-up": ["reservation moved up", "its reservation moved forward when another job ended"],
  "fit": ["fitted", "it fitted; this policy makes no reservations"],
  "gang": ["gang", "all tasks of its gang could start together"],
  "thread": ["thread", "its thread's turn had come"],
  "resumed": ["resumed", "it was resumed"],
};

function plural(count, word) { return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`; }

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

// A span for people: 42 s, 17 min, 3.2 h, 5.1 d; as in units.py.
function span(seconds) {
  for (const [size, unit] of UNITS) if (seconds >= 2 * size) return `${(seconds / size).toLocaleString("en", ONE_DIGIT)} ${unit}`;
  return `${Math.round(seconds)} s`;
}

const ONE_DIGIT = { minimumFractionDigits: 1, maximumFractionDigits: 1 };

// A wait: in the unit that the page has for waits, or in a smaller one if it is short; as in spans.py.
const WAIT_UNIT = document.querySelector("main").dataset.unit;
const WAIT_SIZE = UNITS.find(([, unit]) => unit === WAIT_UNIT)?.[0] ?? 1;

function waitSpan(seconds) {
  const value = seconds / WAIT_SIZE, digits = value >= 100 || WAIT_UNIT === "s" ? 0 : value >= 2 ? 1 : 2;
  if (value < 0.1) return span(seconds);
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${WAIT_UNIT}`;
}

function pair([term, text]) {
  const dt = document.createElement("dt"), dd = document.createElement("dd"), name = document.createElement("bdi");
  dt.textContent = term;
  name.textContent = text;
  dd.append(name);
  return [dt, dd];
}

// All that the chart knows of one job: [term, text] pairs.
function told(data, schedule, job) {
  const at = (tick) => instant(tick * data.tick, true, data.epoch), word = data.words[schedule.why[job] >> 2];
  const size = plural(data.procs[job], "cpu");
  const facts = [["job", data.jobName(job)], ["size", size]], licences = [];
  data.eachLicence(job, (licence, copies) => licences.push(data.licenceNames[licence] + (copies > 1 ? ` × ${copies}` : "")));
  if (licences.length) facts.push(["licences", licences.join(", ")]);
  if (data.users.length) facts.splice(1, 0, ["user", data.userName(job) || "not known"]);
  if (data.projectName(job)) facts.splice(1, 0, ["project", data.projectName(job)]);
  if (schedule.start[job] < 0) {
    return [...facts, ["never ran", NEVER[word] || `rejected for ${word}`]];
  }
  const held = progressFrom(schedule, job) - schedule.start[job];
  const stayed = span((schedule.held[job] - held) * data.tick), asked = span(data.walltime[job] * data.tick);
  const ran = schedule.inTurns ? span(schedule.made[job] * data.tick) : stayed;
  const killed = schedule.why[job] & 1 ? ", killed at its limit" : ended(data, schedule, job);
  return [
    ...facts,
    ["wait", waitSpan(schedule.waited[job] * data.tick)],
    ["started because", (WHY[word] || [word, word])[1]],
    ["submitted", at(data.submit[job])],
    ["started", at(schedule.start[job])],
    ...(held ? [["held", `${span(held * data.tick)}, until its predecessors had ended`]] : []),
    ["ran", `${ran} of ${asked} requested${killed}`],
    ...inTurns(data, schedule, job, stayed),
    ...earlierRuns(data, schedule, job),
    ...deadline(data, schedule, job),
  ];
}

const NEVER = { CANCELLED: "cancelled before it started", PENDING: "it waits for capacity that never comes back" };
const ENDED = { CANCELLED: ", cancelled", NODE_FAIL: ", lost with its node", PREEMPTED: ", preempted",
  PENDING: ", lost with its node, and never starts again" };

// In which rows of jobs that take turns a job ran, and how long it stayed for that.
function inTurns(data, schedule, job, stayed) {
  if (!schedule.inTurns || !data.turns.length) return [];
  const rows = schedule.turn.filter((_, i) => schedule.turning[i] === job).sort(), names = [...new Set(rows)].map((row) => row + 1);
  const listed = names.length > 1 ? `rows ${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : `row ${names[0]}`;
  return [["took turns", `in ${listed}; it stayed for ${stayed}`]];
}

function ended(data, schedule, box) { return (schedule.how && ENDED[data.states[schedule.how[box]]]) || ""; }

// The runs of a job before its last one, in order.
function earlierRuns(data, schedule, job) {
  const found = [];
  if (!schedule.again) return found;
  schedule.again.forEach((of, i) => {
    const box = data.count + i;
    if (of === job) found.push(["before", `${instant(schedule.start[box] * data.tick, true, data.epoch)}, ${span(schedule.held[box] * data.tick)}${ended(data, schedule, box)}`]);
  });
  return found;
}

// The outcome of a job's deadline, if it has one.
function deadline(data, schedule, job) {
  const due = data.dueAt(job);
  if (due < 0) return [];
  const off = span(Math.abs(schedule.end[job] - due) * data.tick);
  return [["deadline", `${instant(due * data.tick, true, data.epoch)}: ${isLate(schedule, job) ? `missed by ${off}` : `met, ${off} before it`}`]];
}
