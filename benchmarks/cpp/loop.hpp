// EASY backfilling of rigid jobs on one pool of processors: the loop that the yardsticks share, around any queue.
//
// One resource, one rule, nothing generic. Jobs wait in submit order. At each instant all ends are handled, then all
// submits, then one pass: heads start while they fit; the first that does not reserves at the shadow time, which the
// limits (start + walltime) of the running jobs give; each later job that fits now starts if it ends by the shadow time
// or fits into the processors that are still free then. A job is killed at its walltime.
//
//   PROGRAM IN OUT CPUS REPEATS
//
// IN:  four columns of n int64 each, end to end: submit (ascending), runtime, walltime, procs.
// OUT: n int64: start times, -2^62 for a job that is larger than the machine.
// Prints the seconds of each repeat of the loop, without reading and writing, one per line.
//
// A Queue holds the waiting jobs in the order of push: empty(), head(), pop(), push(job), and take(room, start), which
// calls start(job) for each job behind the head that fits, in order, and drops it; start changes the room.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

using Time = std::int64_t;
constexpr Time never = std::numeric_limits<Time>::max();
constexpr Time not_started = -(Time{1} << 62);

struct Job {
    Time submit, runtime, walltime;
    std::int64_t procs;
};

struct Waiting {
    Time walltime;
    std::int64_t procs;
    std::size_t job;
};

// What a job behind the head may take: of what is free, and of that what is left at the shadow time, `span` from now.
struct Room {
    std::int64_t free, extra;
    Time span;
    bool fits(Time walltime, std::int64_t procs) const {
        return procs <= free && (walltime <= span || procs <= extra);
    }
};

template <class Queue>
class Easy {
public:
    Easy(const std::vector<Job>& jobs, std::int64_t cpus)
        : jobs_(jobs), cpus_(cpus), free_(cpus), start_(jobs.size(), not_started) {}

    std::vector<Time> run() {
        std::size_t next = 0;
        while (next < jobs_.size() || !ends_.empty()) {
            const Time next_submit = next < jobs_.size() ? jobs_[next].submit : never;
            const Time next_end = ends_.empty() ? never : ends_.top().at;
            now_ = std::min(next_submit, next_end);
            while (!ends_.empty() && ends_.top().at == now_) {
                finish(ends_.top());
                ends_.pop();
            }
            for (; next < jobs_.size() && jobs_[next].submit == now_; ++next)
                if (jobs_[next].procs <= cpus_) queue_.push({jobs_[next].walltime, jobs_[next].procs, next});
            pass();
        }
        return std::move(start_);
    }

private:
    struct Running {
        Time limit;
        std::int64_t procs;
        std::size_t job;
    };

    struct End {
        Time at;
        Time limit;
        std::size_t job;
        bool operator>(const End& other) const { return at != other.at ? at > other.at : job > other.job; }
    };

    void pass() {
        while (!queue_.empty() && queue_.head().procs <= free_) {
            start(queue_.head());
            queue_.pop();
        }
        if (!queue_.empty() && free_ > 0) backfill();
    }

    void backfill() {
        // Every release at the shadow time counts, so all of them are added before the head takes its processors.
        const std::int64_t needed = queue_.head().procs;
        Time shadow_time;
        std::int64_t extra = free_;
        std::size_t released = 0;
        do {
            shadow_time = running_[released].limit;
            extra += running_[released].procs;
            ++released;
        } while (released < running_.size() && (extra < needed || running_[released].limit == shadow_time));
        Room room{free_, extra - needed, shadow_time - now_};
        queue_.take(room, [&](const Waiting& job) {
            if (job.walltime > room.span) room.extra -= job.procs;
            start(job);
            room.free = free_;
        });
    }

    void start(const Waiting& waiting) {
        const Time limit = now_ + waiting.walltime;
        const Time end = now_ + std::min(jobs_[waiting.job].runtime, waiting.walltime);
        const auto place = std::upper_bound(running_.begin(), running_.end(), limit,
                                            [](Time time, const Running& job) { return time < job.limit; });
        running_.insert(place, {limit, waiting.procs, waiting.job});
        ends_.push({end, limit, waiting.job});
        start_[waiting.job] = now_;
        free_ -= waiting.procs;
    }

    void finish(const End& end) {
        auto place = std::lower_bound(running_.begin(), running_.end(), end.limit,
                                      [](const Running& job, Time time) { return job.limit < time; });
        while (place->job != end.job) ++place;
        free_ += place->procs;
        running_.erase(place);
    }

    const std::vector<Job>& jobs_;
    const std::int64_t cpus_;
    Time now_ = 0;
    std::int64_t free_;
    Queue queue_;
    std::vector<Running> running_;  // by limit
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
    std::vector<Time> start_;
};

inline std::vector<Job> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error("cannot read " + path);
    const std::size_t count = static_cast<std::size_t>(file.tellg()) / (4 * sizeof(std::int64_t));
    std::vector<std::int64_t> columns(4 * count);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(columns.data()),
              static_cast<std::streamsize>(columns.size() * sizeof(std::int64_t)));
    std::vector<Job> jobs(count);
    for (std::size_t i = 0; i < count; ++i)
        jobs[i] = {columns[i], columns[count + i], columns[2 * count + i], columns[3 * count + i]};
    return jobs;
}

template <class Queue>
int measure(int argc, char** argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: %s IN OUT CPUS REPEATS\n", argv[0]);
        return 2;
    }
    try {
        const std::vector<Job> jobs = read(argv[1]);
        const std::int64_t cpus = std::stoll(argv[3]);
        std::vector<Time> starts;
        for (int repeat = std::stoi(argv[4]); repeat > 0; --repeat) {
            const auto begin = std::chrono::steady_clock::now();
            starts = Easy<Queue>(jobs, cpus).run();
            const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
            std::printf("%.6f\n", elapsed.count());
        }
        std::ofstream out(argv[2], std::ios::binary);
        out.write(reinterpret_cast<const char*>(starts.data()),
                  static_cast<std::streamsize>(starts.size() * sizeof(Time)));
        return out ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}
