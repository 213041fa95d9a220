// Child processes: a compiler that runs to its end, or a helper that answers over a socket. Every
// child has its own process group, which is killed as a whole; every descriptor is close-on-exec;
// no call raises SIGPIPE; no zombie is left. Works from any thread, whatever the host does with
// SIGCHLD (if the host reaps the child first, the exit status is reported as unknown).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/descriptor.hpp"

namespace heddle::jit {

using Deadline = std::chrono::steady_clock::time_point;
/// The point in time after `time`; a longer time than 30 days counts as 30 days.
[[nodiscard]] Deadline deadline_after(std::chrono::milliseconds time) noexcept;

// Makes the names of files:: available; the second line selects files::FileDescriptor, because
// heddle has a FileDescriptor too.
using namespace files;
using files::FileDescriptor;

/// The limit of a wait for a child: a point in time, or a stop request from another thread. One
/// thread waits at a time.
class Patience {
 public:
  Patience(Deadline deadline) noexcept : deadline_(deadline) {}  // NOLINT: a deadline is patience
  /// Throws Error(exhausted) without descriptors.
  Patience(Deadline deadline, std::stop_token stop);
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  [[nodiscard]] Deadline deadline() const noexcept { return deadline_; }
  [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }
  [[nodiscard]] bool stopped() const noexcept { return stop_.stop_requested(); }
  /// Readable after a stop request; -1 where no stop can be requested.
  [[nodiscard]] int descriptor() const noexcept { return wakeup_.get(); }

 private:
  struct Wake {
    int fd;
    void operator()() const noexcept;
  };
  Deadline deadline_;
  std::stop_token stop_;
  FileDescriptor wakeup_;
  std::optional<std::stop_callback<Wake>> on_stop_;
};

/// The head and the tail of a text of any length.
class BoundedText {
 public:
  void append(std::string_view text);
  /// The kept text, with a note about the number of missing bytes in between.
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::size_t total_bytes() const noexcept { return total_; }
  static constexpr std::size_t part_bytes_max = 8 * 1024;

 private:
  std::string head_;
  std::string tail_;  // up to twice part_bytes_max, cut from time to time
  std::size_t total_ = 0;
};

/// The end of a child.
struct Exit {
  enum class Kind : std::uint8_t { exited, signalled, unknown };
  Kind kind = Kind::unknown;
  int value = 0;  ///< exit status or signal number

  [[nodiscard]] bool success() const noexcept { return kind == Kind::exited && value == 0; }
  /// "exit status 1", "killed by signal 9 (Killed)", ...
  [[nodiscard]] std::string describe() const;
};

struct Command {
  std::vector<std::string> argv;         ///< argv[0]: a path, see find_program()
  std::vector<std::string> environment;  ///< "NAME=value"; overrides the host's environment
};

/// A running child: stdin is a socket (when asked for) or at its end; stdout and stderr are one
/// pipe. One thread at a time. Destruction kills the group and reaps.
class Child {
 public:
  enum class Channel : std::uint8_t { none, socket };

  /// Throws Error(unavailable) when the program cannot be started.
  Child(const Command& command, Channel channel);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The result of an exchange with the child; out_of_patience: late, or asked to stop.
  enum class Io : std::uint8_t { done, closed, out_of_patience };

  /// Sends all bytes; collects output meanwhile.
  [[nodiscard]] Io send(std::span<const std::byte> bytes, const Patience& patience);
  /// Fills `bytes`; collects output meanwhile.
  [[nodiscard]] Io receive(std::span<std::byte> bytes, const Patience& patience);
  /// Collects output until the child has ended; false: the time was over first, or a stop was
  /// requested.
  [[nodiscard]] bool wait(const Patience& patience);
  /// Kills the whole process group (including processes left by a leader that ended), takes the
  /// rest of the output, reaps. Idempotent.
  Exit finish();
  /// Detaches from the child without touching the child: for a process forked from the owner.
  void abandon() noexcept;
  /// True if the child has neither ended nor closed its channel.
  [[nodiscard]] bool alive();

  /// The head and tail of the child's output since the last call.
  [[nodiscard]] std::string take_output();
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  enum class Event : std::uint8_t { channel, ended, out_of_patience };
  /// Waits for the channel (`events` of poll) or for the child's end; collects output.
  Event wait_for(short events, const Patience& patience);
  bool has_ended() noexcept;
  void collect_output();

  pid_t pid_ = -1;
  FileDescriptor pidfd_;  // empty where the kernel has no pidfds
  FileDescriptor channel_;
  FileDescriptor output_pipe_;
  BoundedText output_;
  bool gone_ = false;  // reaped by this class or by the host
  std::optional<Exit> exit_;
};

struct RunResult {
  Exit exit;
  bool killed = false;  ///< by this class, at the end of patience
  std::string output;   ///< head and tail of stdout and stderr together
};

/// Runs a command with stdin closed. Throws Error(unavailable) when the command cannot be started.
[[nodiscard]] RunResult run_command(const Command& command, const Patience& patience);
[[nodiscard]] RunResult run_command(const Command& command, std::chrono::milliseconds timeout);

}  // namespace heddle::jit
