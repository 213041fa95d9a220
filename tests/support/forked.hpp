// Forked children of tests, which may not hang.
#pragma once

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle {

/// Whether `holds`, called in a forked child, returns true, and does so within 20 s. It starts no
/// threads.
template <class F>
[[nodiscard]] bool in_forked_child(const F& holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    int code = 2;
    try {
      code = holds() ? 0 : 1;
    } catch (...) {
    }
    // Past TSan, which takes a thread of the parent that nobody had joined yet for a leak.
    ::syscall(SYS_exit_group, code);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace heddle
