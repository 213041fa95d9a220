// Child processes: a compiler run to its end, or a helper that answers over a socket. Every child
// has its own process group, which is killed as a whole; every descriptor is close-on-exec; no call
// raises SIGPIPE; no zombie is left. Works from any thread, whatever the host does with SIGCHLD (if
// it reaps our child first, the exit status is unknown and said to be so).
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
/// That long from now; a time beyond any patience (30 days) is taken as that.
[[nodiscard]] Deadline deadline_after(std::chrono::milliseconds time) noexcept;

// What this floor has of the one below by its bare name; heddle has another FileDescriptor.
using namespace files;
using files::FileDescriptor;

/// How long to wait for a child: until a point in time, or until another thread asks to stop. One
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
  /// Readable once it was asked to stop; -1 where nobody can ask.
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

/// The head and the tail of a text that may be of any length.
class BoundedText {
 public:
  void append(std::string_view text);
  /// What was kept; says how much is missing in between.
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::size_t total_bytes() const noexcept { return total_; }
  static constexpr std::size_t part_bytes_max = 8 * 1024;

 private:
  std::string head_;
  std::string tail_;  // up to twice part_bytes_max, cut now and then
  std::size_t total_ = 0;
};

/// How a child ended.
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
  std::vector<std::string> environment;  ///< "NAME=value", over what the host's environment says
};

/// A running child: stdin is a socket (when asked for) or at its end, stdout and stderr are one
/// pipe. One thread at a time. Destruction kills the group and reaps.
class Child {
 public:
  enum class Channel : std::uint8_t { none, socket };

  /// Throws Error(unavailable) when the program cannot be started.
  Child(const Command& command, Channel channel);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// What became of an exchange with the child; out of patience: late, or asked to stop.
  enum class Io : std::uint8_t { done, closed, out_of_patience };

  /// Sends all bytes; collects output meanwhile.
  [[nodiscard]] Io send(std::span<const std::byte> bytes, const Patience& patience);
  /// Fills `bytes`; collects output meanwhile.
  [[nodiscard]] Io receive(std::span<std::byte> bytes, const Patience& patience);
  /// Collects output until the child has ended; false: patience did first.
  [[nodiscard]] bool wait(const Patience& patience);
  /// Kills the whole process group (of a leader that ended: what it left behind), takes the rest of
  /// the output, reaps. Idempotent.
  Exit finish();
  /// Lets go of the child without touching it: for a process forked from the one that owns it.
  void abandon() noexcept;
  /// Whether it has neither ended nor closed its channel.
  [[nodiscard]] bool alive();

  /// The head and tail of what it printed since the last call.
  [[nodiscard]] std::string take_output();
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  enum class Event : std::uint8_t { channel, ended, out_of_patience };
  /// Waits for the channel (`events` of poll) or for the child's end; collects output.
  Event wait_for(short events, const Patience& patience);
  bool has_ended() noexcept;
  void collect_output();

  pid_t pid_ = -1;
  FileDescriptor pidfd_;  // none where the kernel has no pidfds
  FileDescriptor channel_;
  FileDescriptor output_pipe_;
  BoundedText output_;
  bool gone_ = false;  // reaped by us or by the host
  std::optional<Exit> exit_;
};

struct RunResult {
  Exit exit;
  bool killed = false;  ///< by us, out of patience
  std::string output;   ///< head and tail of stdout and stderr together
};

/// Runs a command with stdin closed. Throws Error(unavailable) when it cannot be started.
[[nodiscard]] RunResult run_command(const Command& command, const Patience& patience);
[[nodiscard]] RunResult run_command(const Command& command, std::chrono::milliseconds timeout);

}  // namespace heddle::jit
