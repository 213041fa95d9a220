// The scheduler alone: no tensor, no JIT. One device loads; a second device waits for the load and
// continues in parts, on several processors. The host waits once, at the end.
#include <heddle/scheduler.hpp>

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

int main() {
  std::vector<int> numbers;
  long sum = 0;

  heddle::Scheduler scheduler;
  auto io = scheduler.new_device("io"), work = scheduler.new_device("work");

  auto loaded = io.submit("load", [&] { numbers.assign(1000, 42); });
  work.wait(loaded);  // the device waits, not the host
  work.submit_parallel("double", 1000, [&](std::size_t from, std::size_t to) {
    for (std::size_t k = from; k < to; ++k) numbers[k] *= 2;  // a part, on any processor
  });
  work.submit("add", [&] { sum = std::accumulate(numbers.begin(), numbers.end(), 0L); }).wait();
  std::printf("sum: %ld\n", sum);

  // A failure ends what depends on it, and is told to whoever asks.
  auto broken = io.submit("load", [] { throw std::runtime_error("sensor unplugged"); });
  work.wait(broken);
  heddle::Event skipped = work.submit("add", [&] { sum = 0; });
  if (heddle::Status status = skipped.wait(); !status.ok())
    std::printf("not added: %s\n", status.root().to_string().c_str());

  io.recover();  // both devices are usable again
  work.recover();
  io.submit("load", [&] { numbers.assign(1000, 43); }).wait();
}
