// On which rows each job is drawn: processors, node after node, and below them the copies of each licence. A schedule says
// on which node a job runs and with how many processors, not with which; so it gets the lowest hole of that node that
// takes it whole, else the lowest free rows, in pieces, and likewise of each licence.
// Where rows of jobs take turns, a stretch of a run has its processors in one turn, and the run itself only its licences.
// report/rows.py is the same rule in Python, and a test compares the two.
// A plan that is not over says itself which rows of which lanes a box needs: parts(box, holes, take), take(lane, rows).

class Holes {
  constructor(floor, top) {
    this.low = [floor];
    this.high = [top];
  }

  // Takes `wanted` rows and calls use(low, high) for each piece.
  take(wanted, use) {
    const { low, high } = this;
    for (let i = 0; i < low.length; i++) {
      if (high[i] - low[i] >= wanted) {
        use(low[i], low[i] + wanted);
        low[i] += wanted;
        if (low[i] === high[i]) this.drop(i, 1);
        return;
      }
    }
    let i = 0;
    for (; i < low.length && wanted > 0; i++) {
      const size = Math.min(wanted, high[i] - low[i]);
      use(low[i], low[i] + size);
      wanted -= size;
      low[i] += size;
    }
    if (i && low[i - 1] < high[i - 1]) i--;
    this.drop(0, i);
  }

  // The number of free rows.
  get free() {
    let sum = 0;
    for (let i = 0; i < this.low.length; i++) sum += this.high[i] - this.low[i];
    return sum;
  }

  give(from, to) {
    const { low, high } = this;
    let i = 0;
    for (let last = low.length; i < last;) {
      const middle = (i + last) >> 1;
      if (low[middle] < from) i = middle + 1; else last = middle;
    }
    const joinsBelow = i > 0 && high[i - 1] === from;
    const joinsAbove = i < low.length && low[i] === to;
    if (joinsBelow && joinsAbove) {
      high[i - 1] = high[i];
      this.drop(i, 1);
    } else if (joinsBelow) {
      high[i - 1] = to;
    } else if (joinsAbove) {
      low[i] = from;
    } else {
      low.splice(i, 0, from);
      high.splice(i, 0, to);
    }
  }

  drop(at, count) {
    this.low.splice(at, count);
    this.high.splice(at, count);
  }
}

// The boxes that there are, by a time and then by number: sorted by 16 bits at a time, the lower ones first.
function byTime(times, schedule) {
  let order = new Uint32Array(times.length), n = 0;
  for (let box = 0; box < times.length; box++) if (schedule.start[box] >= 0) order[n++] = box;
  let sorted = new Uint32Array(n);
  for (let shift = 0; shift < 32; shift += 16) {
    const first = new Uint32Array(65537); // how many come before those with a digit
    for (let i = 0; i < n; i++) first[((times[order[i]] >>> shift) & 65535) + 1]++;
    for (let digit = 0; digit < 65536; digit++) first[digit + 1] += first[digit];
    for (let i = 0; i < n; i++) sorted[first[(times[order[i]] >>> shift) & 65535]++] = order[i];
    [order, sorted] = [sorted, order];
  }
  return order.subarray(0, n);
}

// Pieces in order of start: piece k is rows low[k] to high[k] of box job[k]; `of` is a box's first piece, pieces follow.
// A job that ran once is a box of its own number.
// Blocks of pieces store their earliest start and latest end, so that blocks out of sight cost nothing.
const BLOCK = 256;

function layOut(data, schedule) {
  const holes = Array.from({ length: data.floor.length - 1 }, (_, n) => new Holes(data.floor[n], data.floor[n + 1]));
  const starts = byTime(schedule.start, schedule);
  const ends = byTime(schedule.end, schedule).filter((job) => schedule.held[job] > 0);
  const firstRun = schedule.runs && running(Int32Array.from(schedule.runs));
  let room = 2 * schedule.start.length + 16;
  let pieces = { job: new Int32Array(room), low: new Int32Array(room), high: new Int32Array(room), node: null };
  let laneOf = new Int32Array(room);
  const of = new Int32Array(schedule.start.length + 1).fill(-1);
  const perTurn = data.platform / Math.max(data.turns.length, 1);
  let n = 0;
  const grow = (old) => { const more = new Int32Array(room); more.set(old); return more; };
  let box = 0, lane = 0;
  const use = (low, high) => {
    if (n === room) {
      room *= 2;
      pieces = { job: grow(pieces.job), low: grow(pieces.low), high: grow(pieces.high) };
      laneOf = grow(laneOf);
    }
    pieces.job[n] = box;
    pieces.low[n] = low;
    pieces.high[n] = high;
    laneOf[n++] = lane;
  };
  const giveBack = (left) => {
    for (let k = of[left]; k < n && pieces.job[k] === left; k++) holes[laneOf[k]].give(pieces.low[k], pieces.high[k]);
  };
  let ended = 0;
  for (const next of starts) {
    while (ended < ends.length && schedule.end[ends[ended]] <= schedule.start[next]) giveBack(ends[ended++]);
    box = next;
    of[box] = n;
    lane = 0;
    const job = schedule.jobOf(box), run = schedule.runOf(box);
    if (schedule.parts) {
      schedule.parts(box, holes, (at, rows) => { lane = at; holes[lane].take(rows, use); });
    } else if (!firstRun) {
      holes[0].take(data.procs[job], use);
    } else if (run !== box || !schedule.inTurns) {
      const turn = run === box ? 0 : schedule.turn[box - schedule.boxes];
      for (let part = firstRun[run] - schedule.runs[run]; part < firstRun[run]; part++) {
        const first = turn * perTurn + schedule.node[part];
        for (lane = first; lane < first + schedule.nodes[part]; lane++) {
          holes[lane].take(schedule.tasks[part] * data.each[job], use);
        }
      }
    }
    if (run === box) data.eachLicence(job, (licence, copies) => {
      lane = data.platform + licence;
      holes[lane].take(copies, use);
    });
    if (!schedule.held[box]) giveBack(box);
    if (of[box] === n && (schedule.inTurns || schedule.parts)) of[box] = -1;
    if (of[run] < 0) of[run] = of[box];
  }
  const blocks = Math.ceil(n / BLOCK);
  const earliest = new Int32Array(blocks), latest = new Int32Array(blocks);
  for (let block = 0; block < blocks; block++) {
    earliest[block] = schedule.start[pieces.job[block * BLOCK]];
    for (let k = block * BLOCK; k < Math.min(n, (block + 1) * BLOCK); k++) {
      latest[block] = Math.max(latest[block], schedule.end[pieces.job[k]]);
    }
  }
  return { ...pieces, count: n, of, earliest, latest };
}
