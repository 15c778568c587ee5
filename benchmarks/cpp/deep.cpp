// The yardstick for deep queues: EASY over blocks of jobs with a tree above them. See loop.hpp.
//
// A node of the tree knows, for each class of sizes, the least size and the least walltime of the jobs below it,
// rounded to 24 bits: the order of rounded amounts never contradicts that of the amounts, so nothing that fits is missed.
// The classes are the quantiles of the sizes that waited when the places were last renewed, which is when they are used
// up: the jobs that still wait then move to the front, and places for twice as many are made.

#include <array>

#include "loop.hpp"

namespace {

constexpr std::size_t block = 32;
constexpr std::size_t classes = 32;
constexpr std::uint8_t gone = 255;
constexpr float nobody = std::numeric_limits<float>::infinity();

class Tree {
public:
    Tree() { renew(); }

    bool empty() const { return waiting_ == 0; }
    const Waiting& head() const { return jobs_[first_]; }

    void push(const Waiting& job) {
        if (used_ == jobs_.size()) renew();
        if (waiting_ == 0) first_ = used_;
        add(job);
    }

    void pop() { drop(first_); }

    template <class Start>
    void take(const Room& room, Start start) {
        // The head does not fit, so the search may begin with it.
        for (std::size_t place = next(first_, room); place < used_; place = next(place + 1, room)) {
            start(jobs_[place]);
            drop(place);
        }
    }

private:
    struct alignas(64) Node {
        std::array<float, classes> walltime, procs;
    };

    static bool may_hold(const Node& node, const Room& room) {
        const float free = float(room.free), extra = float(room.extra), span = float(room.span);
        int any = 0;
        for (std::size_t c = 0; c < classes; ++c)
            any |= (node.procs[c] <= free) & ((node.walltime[c] <= span) | (node.procs[c] <= extra));
        return any;
    }

    std::uint8_t class_of(std::int64_t procs) const {
        std::uint8_t c = 0;
        for (std::size_t i = 0; i + 1 < classes; ++i) c += bound_[i] < procs;
        return c;
    }

    void add(const Waiting& job) {
        const std::uint8_t c = class_of(job.procs);
        const float walltime = float(job.walltime), procs = float(job.procs);
        jobs_[used_] = job;
        class_[used_] = c;
        for (std::size_t node = leaves_ + used_ / block; node > 0; node /= 2) {
            Node& here = nodes_[node];
            if (here.walltime[c] <= walltime && here.procs[c] <= procs) break;
            here.walltime[c] = std::min(here.walltime[c], walltime);
            here.procs[c] = std::min(here.procs[c], procs);
        }
        ++used_;
        ++waiting_;
    }

    void drop(std::size_t place) {
        const std::uint8_t c = class_[place];
        class_[place] = gone;
        --waiting_;
        std::size_t node = leaves_ + place / block;
        if (float(jobs_[place].walltime) <= nodes_[node].walltime[c] ||
            float(jobs_[place].procs) <= nodes_[node].procs[c]) {
            float walltime = nobody, procs = nobody;
            const std::size_t begin = place / block * block;
            for (std::size_t i = begin; i < begin + block; ++i) {
                walltime = class_[i] == c ? std::min(walltime, float(jobs_[i].walltime)) : walltime;
                procs = class_[i] == c ? std::min(procs, float(jobs_[i].procs)) : procs;
            }
            while (nodes_[node].walltime[c] != walltime || nodes_[node].procs[c] != procs) {
                nodes_[node].walltime[c] = walltime;
                nodes_[node].procs[c] = procs;
                if (node == 1) break;
                node /= 2;
                walltime = std::min(nodes_[2 * node].walltime[c], nodes_[2 * node + 1].walltime[c]);
                procs = std::min(nodes_[2 * node].procs[c], nodes_[2 * node + 1].procs[c]);
            }
        }
        if (place == first_)
            while (first_ < used_ && class_[first_] == gone) ++first_;
    }

    // The first place from `place` on of a job that fits; used_ if there is none.
    std::size_t next(std::size_t place, const Room& room) const {
        if (place >= used_ || !may_hold(nodes_[1], room)) return used_;
        std::size_t node = leaves_ + place / block;
        while (true) {
            const std::size_t end = std::min((node - leaves_ + 1) * block, used_);
            for (; place < end; ++place)
                if (class_[place] != gone && room.fits(jobs_[place].walltime, jobs_[place].procs)) return place;
            do {
                while (node & 1) node >>= 1;
                if (node == 0) return used_;
                ++node;
            } while (!may_hold(nodes_[node], room));
            while (node < leaves_) {
                node *= 2;
                if (!may_hold(nodes_[node], room)) ++node;
            }
            place = (node - leaves_) * block;
        }
    }

    void renew() {
        std::vector<Waiting> kept;
        for (std::size_t place = first_; place < used_; ++place)
            if (class_[place] != gone) kept.push_back(jobs_[place]);
        std::vector<std::int64_t> sizes;
        for (const Waiting& job : kept) sizes.push_back(job.procs);
        std::sort(sizes.begin(), sizes.end());
        for (std::size_t c = 0; c + 1 < classes; ++c)
            bound_[c] = sizes.empty() ? never : sizes[(c + 1) * (sizes.size() - 1) / classes];
        leaves_ = 8;
        while (leaves_ * block < 2 * kept.size()) leaves_ *= 2;
        nodes_.assign(2 * leaves_, {});
        for (Node& node : nodes_) {
            node.walltime.fill(nobody);
            node.procs.fill(nobody);
        }
        jobs_.assign(leaves_ * block, {});
        class_.assign(leaves_ * block, gone);
        first_ = used_ = waiting_ = 0;
        for (const Waiting& job : kept) add(job);
    }

    std::vector<Waiting> jobs_;
    std::vector<std::uint8_t> class_;  // of the job at a place
    std::vector<Node> nodes_;          // 1 is the root, 2 i and 2 i + 1 are below i, block b is node leaves_ + b
    std::array<std::int64_t, classes - 1> bound_{};  // the largest size of each class but the last
    std::size_t leaves_ = 0, first_ = 0, used_ = 0, waiting_ = 0;
};

}  // namespace

int main(int argc, char** argv) { return measure<Tree>(argc, argv); }
