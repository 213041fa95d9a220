// See files/descriptor.hpp.
#include "files/descriptor.hpp"

#include <unistd.h>

#include <system_error>

namespace heddle::files {

std::string errno_text(int error) { return std::generic_category().message(error); }

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace heddle::files
