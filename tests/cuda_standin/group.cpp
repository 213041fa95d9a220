// See group.hpp.
#include "tests/cuda_standin/group.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace heddle::cuda_standin {
namespace {

/// Meeting numbers are unique across groups.
std::uint64_t next_epoch() {
  static std::atomic<std::uint64_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: a number alone
}

}  // namespace

Group::Group() : Meeting{} {
  wait = [](Meeting* group, unsigned line, int vote) {
    return static_cast<Group*>(group)->wait_here(line, vote, false);
  };
  wait_in_warp = [](Meeting* group, unsigned line) {
    static_cast<void>(static_cast<Group*>(group)->wait_here(line, 0, true));
  };
  accuse = [](Meeting* group, const char* name, unsigned long long element, unsigned one,
              unsigned other) {
    std::string& fault = static_cast<Group*>(group)->fault_;
    if (!fault.empty()) return;
    const std::string at = std::string(name) + "[" + std::to_string(element) + "]";
    fault = other == a_copy
                ? "thread " + std::to_string(one) + " touches " + at + ", to which a copy goes on"
                : "threads " + std::to_string(one) + " and " + std::to_string(other) + " touch " +
                      at + " without a barrier in between";
  };
}

int Group::wait_here(unsigned line, int vote, bool in_warp) {
  if (!fault_.empty()) return 0;  // the threads end one by one
  Thread& thread = *now_;
  thread.line = line;
  thread.vote = vote;
  thread.in_warp = in_warp;
  thread.fiber->suspend();
  return votes_;
}

void Group::go_on(Thread& thread, bool begins) {
  now_ = &thread;
  const auto body = [](void* argument) {
    auto& group = *static_cast<Group*>(argument);
    Thread& self = *group.now_;
    self.result = group.kernel_(group.words_, &self.place);
  };
  thread.ended = begins ? thread.fiber->start(body, this) : thread.fiber->resume();
}

void Group::require_same(std::size_t begin, std::size_t end) {
  const auto first = threads_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = threads_.begin() + static_cast<std::ptrdiff_t>(end);
  const auto waits = std::find_if(first, last, [](const Thread& each) { return !each.ended; });
  for (auto thread = first; thread != last; ++thread) {
    if (!fault_.empty() || (!thread->ended && thread->line == waits->line)) continue;
    fault_ = "thread " + std::to_string(waits->place.thread) + " waits at line " +
             std::to_string(waits->line) + ", thread " + std::to_string(thread->place.thread) +
             (thread->ended ? " has ended" : " at line " + std::to_string(thread->line));
  }
}

void Group::meet() {
  require_same(0, threads_.size());
  votes_ = 0;
  for (const Thread& thread : threads_) votes_ |= thread.vote;
  epoch = next_epoch();
  for (std::size_t k = threads_.size(); k-- > 0;) {
    if (!threads_[k].ended) go_on(threads_[k], false);
  }
}

bool Group::meet_in_warps() {
  bool any = false;
  for (std::size_t begin = (threads_.size() - 1) / 32 * 32 + 32; begin > 0;) {
    begin -= 32;
    const std::size_t end = std::min(begin + 32, threads_.size());
    const auto waits = [&](std::size_t k) { return !threads_[k].ended && threads_[k].in_warp; };
    bool here = false;
    for (std::size_t k = begin; k < end; ++k) here = here || waits(k);
    if (!here) continue;
    any = true;
    require_same(begin, end);
    warp_epochs[begin / 32] = next_epoch();
    for (std::size_t k = end; k-- > begin;) {
      if (!threads_[k].ended) go_on(threads_[k], false);
    }
  }
  return any;
}

int Group::run(StandinKernel kernel, const std::uint64_t* words, unsigned group, unsigned groups,
               unsigned threads) {
  kernel_ = kernel;
  words_ = words;
  fault_.clear();
  epoch = next_epoch();
  threads_.resize(std::max<std::size_t>(threads_.size(), threads));
  for (Thread& thread : threads_) {
    if (!thread.fiber) thread.fiber = sched::Fiber::take();
    if (!thread.fiber) throw std::bad_alloc();
  }
  threads_.resize(threads);
  // Threads run in descending order: a thread that reads an earlier thread's result finds none.
  for (unsigned k = threads; k-- > 0;) {
    threads_[k].place = {group, groups, k, threads, this};
    go_on(threads_[k], true);
  }
  while (!std::ranges::all_of(threads_, &Thread::ended)) {
    if (!meet_in_warps()) meet();
  }
  if (!fault_.empty()) return launch_failed;
  const auto failed = std::ranges::find_if(threads_, [](const Thread& t) { return t.result != 0; });
  return failed == threads_.end() ? 0 : failed->result;
}

}  // namespace heddle::cuda_standin
