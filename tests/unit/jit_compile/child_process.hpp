// A process of a test's own that does some work and ends.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>

namespace heddle::jit::testing {

/// A process that does `work` and ends with what that returns.
inline pid_t start(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  bool good = false;
  try {
    good = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  _exit(good ? 0 : 1);
}

inline bool ended_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace heddle::jit::testing
