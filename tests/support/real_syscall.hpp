// For programs that define their own syscall() before the C library's. Any thread.
#pragma once

#include <dlfcn.h>

#include <cstdarg>

namespace heddle {

/// Calls the C library's syscall() with the greatest number of arguments, six.
inline long real_syscall(long number, std::va_list list) {
  static const auto real = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
              arguments[5]);
}

}  // namespace heddle
