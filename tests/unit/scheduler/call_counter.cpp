// Functions of the C library that count, then call the real ones.
#include "tests/unit/scheduler/call_counter.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdarg>

#include "tests/support/real_syscall.hpp"

namespace {
thread_local std::uint64_t locks = 0, calls = 0;
}

namespace heddle {
std::uint64_t locks_taken() noexcept { return locks; }
std::uint64_t system_calls() noexcept { return calls; }
}  // namespace heddle

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return real(mutex);
}

extern "C" long syscall(long number, ...) {
  ++calls;
  std::va_list list;
  va_start(list, number);
  const long result = heddle::real_syscall(number, list);
  va_end(list);
  return result;
}
