// Which jobs are wanted: by the search and by the filters, which all have to fit.

class Found {
  constructor(data) { this.data = data; }

  // The matching jobs of a schedule; null without a search. `what` describes them, `none` states that there are none.
  of(schedule, { find = "", waited = 0, user = "", size = 0, missed = false }) {
    const text = find.trim();
    if (!text && !waited && !user && !size && !missed) return null;
    const { data } = this, asked = text === "missed" && data.due ? this.missed(schedule) : text ? this.named(text.toLowerCase()) : this.all(user);
    const lower = user.trim().toLowerCase();
    const fits = (job) => (!waited || schedule.waited[job] * data.tick > waited) && (!size || data.procs[job] >= size)
      && (!missed || isLate(schedule, job)) && (!lower || data.userName(job).toLowerCase() === lower);
    const jobs = asked.jobs.filter(fits), filtered = waited || user || size || missed;
    return { ...asked, jobs, none: asked.none || (filtered ? "No job fits these filters." : `No job or user is called ${text}.`) };
  }

  all(user) { return { what: user ? `User ${user.trim()}` : "Jobs that fit the filters", jobs: this.those(() => true), other: "" }; }

  // A job by its id, else a user by name, else all whose id or whose user's name begins with the text. `job` or `user`
  // before the text says which.
  named(text) {
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
    return { what: `Names that begin with ${wanted}`, jobs, other: "" };
  }

  missed(schedule) {
    const jobs = this.those((job) => isLate(schedule, job));
    return { what: "Jobs that missed their deadlines", jobs, other: "", none: "No job missed its deadline." };
  }

  those(fits) {
    const jobs = [];
    for (let job = 0; job < this.data.count; job++) if (fits(job)) jobs.push(job);
    return jobs;
  }
}
