// Bounded waits for other threads: a test that would hang fails. Any thread.
#pragma once

#include <chrono>
#include <thread>

namespace heddle::test {

/// True where `done()` becomes true within 20 s.
template <class Done>
bool before_long(const Done& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace heddle::test
