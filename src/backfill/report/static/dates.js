// Calendar time in the log's zone, where the log knows it; report/dates.py is the same rule, and a test compares the two.

const DAY = 86400, MONTH = 30.4 * DAY, MONDAY = 4 * DAY; // 5 January 1970
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY];
const DATE_STEPS = [...STEPS, 2 * DAY, 7 * DAY];
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];

// The zone, the Unix time of time 0 of the log, and from which Unix time the zone is how many seconds ahead of UTC.
const CALENDAR = ((page) => (page?.offsets ? { zone: page.zone, epoch: Number(page.epoch),
  offsets: page.offsets.split(";").map((pair) => pair.split(",").map(Number)) } : null))(document.querySelector("main")?.dataset);

function wallOf(unix) {
  const { offsets } = CALENDAR;
  for (let i = offsets.length - 1; i >= 0; i--) if (offsets[i][0] <= unix) return unix + offsets[i][1];
  return unix + offsets[0][1];
}

function unixOf(wall) {
  const { offsets } = CALENDAR;
  for (let i = offsets.length - 1; i >= 0; i--) if (offsets[i][0] <= wall - offsets[i][1]) return wall - offsets[i][1];
  return wall - offsets[0][1];
}

function isoOf(wall) { return new Date(Math.floor(wall) * 1000).toISOString(); }

// An instant, in seconds after the Unix time `epoch`, as a date; without a calendar as time since the first submit:
// day 12 03:04:05.
function instant(seconds, withSeconds = true, epoch = undefined) {
  if (CALENDAR && epoch !== undefined) return isoOf(wallOf(epoch + seconds)).slice(0, withSeconds ? 19 : 16).replace("T", " ");
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  const clock = `${two((seconds % DAY) / 3600)}:${two((seconds % 3600) / 60)}`;
  return `day ${Math.floor(seconds / DAY)} ${clock}${withSeconds ? `:${two(seconds % 60)}` : ""}`;
}

// The marks of an axis of time from `from` seconds on, at least `least` seconds apart: [seconds, text] pairs.
function marksOf(from, length, least, epoch = undefined) {
  const found = [];
  if (CALENDAR && epoch !== undefined) {
    let before = NaN;
    for (const [wall, text] of walls(wallOf(epoch + from), wallOf(epoch + from + length), least)) {
      const at = unixOf(wall) - epoch;
      if (at >= from && at <= from + length && at !== before) found.push([at, text]);
      before = at;
    }
    return found;
  }
  const step = timeStep(least);
  for (let t = Math.ceil(from / step) * step; t <= from + length; t += step) {
    found.push([t, step >= DAY ? `day ${Math.round(t / DAY)}` : instant(t, step < 60)]);
  }
  return found;
}

// Round local times with at least this many seconds between them, and their texts.
function* walls(first, last, least) {
  const step = DATE_STEPS.find((each) => each >= least);
  if (step) {
    const shift = step === 7 * DAY ? MONDAY : 0;
    for (let wall = Math.trunc((first - shift) / step) * step + shift; wall <= last; wall += step) {
      const text = isoOf(wall);
      yield [wall, step >= DAY ? text.slice(0, 10) : step >= 60 ? text.slice(5, 16).replace("T", " ") : text.slice(11, 19)];
    }
    return;
  }
  const months = MONTHS.find((count) => count * MONTH >= least) || MONTHS[MONTHS.length - 1], begin = new Date(Math.trunc(first) * 1000);
  for (let number = Math.floor((begin.getUTCFullYear() * 12 + begin.getUTCMonth()) / months) * months; ; number += months) {
    const wall = Date.UTC(Math.floor(number / 12), number % 12, 1) / 1000;
    if (!(wall <= last)) return;
    yield [wall, isoOf(wall).slice(0, months % 12 ? 7 : 4)];
  }
}

// The distance between the marks of an axis without dates.
function timeStep(least) { return STEPS.find((step) => step >= least) || DAY * roundStep(least / DAY); }

// The least of 1, 2, 5, 10, 20, 50 ... that is not below `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * (1 - 1e-9));
}
