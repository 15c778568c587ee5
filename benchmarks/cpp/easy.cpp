// The yardstick for queues of any length: EASY over an array that is walked from the front. See loop.hpp.

#include "loop.hpp"

namespace {

class Array {
public:
    bool empty() const { return head_ == jobs_.size(); }
    const Waiting& head() const { return jobs_[head_]; }
    void push(const Waiting& job) { jobs_.push_back(job); }

    void pop() {
        ++head_;
        if (head_ == jobs_.size()) {
            jobs_.clear();
            head_ = 0;
        } else if (head_ > jobs_.size() / 2 && head_ > 64) {
            jobs_.erase(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(head_));
            head_ = 0;
        }
    }

    template <class Start>
    void take(const Room& room, Start start) {
        std::size_t kept = head_ + 1, next = head_ + 1;
        for (; next < jobs_.size() && room.free > 0; ++next) {
            const Waiting job = jobs_[next];
            if (room.fits(job.walltime, job.procs)) {
                start(job);
            } else {
                if (kept != next) jobs_[kept] = job;
                ++kept;
            }
        }
        if (kept != next)
            jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(kept),
                        jobs_.begin() + static_cast<std::ptrdiff_t>(next));
    }

private:
    std::vector<Waiting> jobs_;  // what lies before head_ has started
    std::size_t head_ = 0;
};

}  // namespace

int main(int argc, char** argv) { return measure<Array>(argc, argv); }
