// Descriptors that close themselves, writing to them, and the words of the system's errors. Any
// thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace heddle::files {

/// Owns a file descriptor; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { reset(); }

  void reset() noexcept;
  /// Leaves the descriptor to the caller.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// What the system says, in English, whatever the host's locale: compilers are asked to speak so
// too.
/// The text of an errno value. That of a file that may not be so large names the limit.
[[nodiscard]] std::string errno_text(int error);
/// "Killed".
[[nodiscard]] std::string signal_text(int signal);
/// Why dlopen() or dlsym() of this thread failed last.
[[nodiscard]] std::string loader_text();

/// Writes all, from where the file stands. Returns errno's value, 0 when all is written. What is
/// beyond the process's limit of file sizes is EFBIG, and never SIGXFSZ, which ends the process.
[[nodiscard]] int write_all(int fd, std::span<const std::byte> bytes) noexcept;

}  // namespace heddle::files
