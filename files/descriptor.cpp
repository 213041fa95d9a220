// See files/descriptor.hpp.
#include "files/descriptor.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstring>
#include <ctime>

namespace heddle::files {
namespace {

/// While it lives, what this thread writes beyond the limit of file sizes fails and nothing else:
/// the signal that comes with it is held up, and taken back at the end. One that was pending before
/// stays so.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() noexcept {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoFileSizeSignal() {
    const timespec no_wait{};
    if (raised_ && !was_pending_) {
      while (sigtimedwait(&signal_, nullptr, &no_wait) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

  void note(int error) noexcept { raised_ = raised_ || error == EFBIG; }

 private:
  sigset_t signal_{}, before_{};
  bool was_pending_ = false, raised_ = false;
};

}  // namespace

std::string errno_text(int error) {
  const char* const text = strerrordesc_np(error);
  return (text != nullptr ? text : "Unknown error " + std::to_string(error)) +
         std::string(error == EFBIG ? " (raise the limit of file sizes: ulimit -f)" : "");
}

std::string signal_text(int signal) {
  const char* const text = sigdescr_np(signal);
  return text != nullptr ? text : "Real-time signal";
}

std::string loader_text() {
  const locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", nullptr));
  const char* const text = dlerror();
  uselocale(before);
  return text != nullptr ? text : "it cannot be loaded";
}

int write_all(int fd, std::span<const std::byte> bytes) noexcept {
  NoFileSizeSignal held_up;
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return EIO;  // nothing is taken, and no error is told
    } else if (errno != EINTR) {
      const int error = errno;
      held_up.note(error);
      return error;
    }
  }
  return 0;
}

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace heddle::files
