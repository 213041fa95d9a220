// See processors.hpp.
#include "tools/bench/processors.hpp"

#include <sched.h>

#include <algorithm>

namespace heddle::bench {

const std::vector<int>& processors() {
  static const std::vector<int> found = [] {
    std::vector<int> numbers;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &allowed)) numbers.push_back(cpu);
      }
    }
    if (numbers.empty()) numbers.push_back(0);
    return numbers;
  }();
  return found;
}

int workers_beside_host() { return std::max(1, static_cast<int>(processors().size()) - 1); }

int producer_processor(int k) {
  const int at = k % workers_beside_host();
  return at == 0 ? host_processor : worker_processor + at;
}

int spread_processor(int k) { return worker_processor + k % workers_beside_host(); }

void pin_this_thread(int k) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors()[static_cast<std::size_t>(k) % processors().size()], &one);
  // A refusal (the mask changed meanwhile) makes the measurement noisier, not wrong.
  static_cast<void>(sched_setaffinity(0, sizeof one, &one));
}

Unpinned::Unpinned(Where where) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int cpu : processors()) CPU_SET(cpu, &allowed);
  if (where == Where::beside_host && processors().size() > 1) {
    CPU_CLR(processors()[host_processor], &allowed);
  }
  static_cast<void>(sched_setaffinity(0, sizeof allowed, &allowed));
}

Unpinned::~Unpinned() { pin_this_thread(host_processor); }

}  // namespace heddle::bench
