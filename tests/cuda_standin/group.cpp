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
    return static_cast<Group*>(group)->wait_here(line, vote);
  };
  accuse = [](Meeting* group, const char* name, unsigned long long element, unsigned one,
              unsigned other) {
    std::string& fault = static_cast<Group*>(group)->fault_;
    if (!fault.empty()) return;
    fault = std::string("threads ") + std::to_string(one) + " and " + std::to_string(other) +
            " touch " + name + "[" + std::to_string(element) + "] without a barrier in between";
  };
}

int Group::wait_here(unsigned line, int vote) {
  if (!fault_.empty()) return 0;  // the threads end one by one
  Thread& thread = *now_;
  thread.line = line;
  thread.vote = vote;
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

/// True where every thread waits at the same barrier.
bool Group::meet() {
  const auto waits = std::ranges::find(threads_, false, &Thread::ended);
  votes_ = 0;
  for (const Thread& thread : threads_) {
    votes_ |= thread.vote;
    if (!fault_.empty() || (!thread.ended && thread.line == waits->line)) continue;
    fault_ = "thread " + std::to_string(waits->place.thread) + " waits at line " +
             std::to_string(waits->line) + ", thread " + std::to_string(thread.place.thread) +
             (thread.ended ? " has ended" : " at line " + std::to_string(thread.line));
  }
  epoch = next_epoch();
  return fault_.empty();
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
    static_cast<void>(meet());
    for (unsigned k = threads; k-- > 0;) {
      if (!threads_[k].ended) go_on(threads_[k], false);
    }
  }
  if (!fault_.empty()) return launch_failed;
  const auto failed = std::ranges::find_if(threads_, [](const Thread& t) { return t.result != 0; });
  return failed == threads_.end() ? 0 : failed->result;
}

}  // namespace heddle::cuda_standin
