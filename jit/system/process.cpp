// See system/process.hpp.
//
// A child's process id stays reserved until the child is reaped: the leader remains a zombie while
// its group is killed, hence the group's number cannot belong to an unrelated group.
#include "jit/system/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "heddle/status.hpp"
#include "jit/system/process_room.hpp"
#include "jit/system/programs.hpp"

namespace heddle::jit {
namespace {

/// The interval of polls for the child's end where there is no pidfd.
constexpr int poll_ms_without_pidfd = 5;

/// Milliseconds until `deadline` for one poll(), rounded up and bounded; 0 when it has passed.
int remaining_ms(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

[[noreturn]] void cannot_start(const Command& command, const char* what, int error) {
  throw Error(ErrorCode::unavailable,
              fmt::format("cannot start '{}': {}: {}{}", command.argv.at(0), what,
                          errno_text(error), error == EAGAIN ? process_room_advice() : ""));
}

/// The file actions and attributes of a spawn; both need explicit destruction.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);  // undoes the host's ignored signals
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void place(int fd, int target) { posix_spawn_file_actions_adddup2(&actions_, fd, target); }
  int spawn(pid_t* pid, const Command& command, std::vector<std::string>& environment) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    // descriptors that the host opened without close-on-exec
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
#endif
    const auto pointers = [](const std::vector<std::string>& strings) {
      std::vector<char*> list;
      for (const std::string& s : strings) list.push_back(const_cast<char*>(s.c_str()));
      list.push_back(nullptr);
      return list;
    };
    return posix_spawn(pid, command.argv[0].c_str(), &actions_, &attributes_,
                       pointers(command.argv).data(), pointers(environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Duplicates a descriptor below 3 to a number above 2, because placing 0, 1 and 2 in a child would
/// overwrite the descriptor (a host may run with its standard streams closed).
FileDescriptor above_standard(int fd) {
  FileDescriptor owned(fd);
  if (fd < 0 || fd > 2) return owned;
  return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

/// A pipe whose writing end is closed, hence always at its end, like /dev/null, which a sandbox may
/// lack.
FileDescriptor nothing_to_read(const Command& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) cannot_start(command, "pipe", errno);
  const FileDescriptor writer(ends[1]);
  return above_standard(ends[0]);
}

}  // namespace

Deadline deadline_after(std::chrono::milliseconds time) noexcept {
  constexpr std::chrono::milliseconds longest = std::chrono::hours(30 * 24);
  return std::chrono::steady_clock::now() + std::min(time, longest);
}

Patience::Patience(Deadline deadline, std::stop_token stop)
    : deadline_(deadline), stop_(std::move(stop)) {
  if (!stop_.stop_possible()) return;
  wakeup_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup_) throw Error(ErrorCode::exhausted, "cannot wait for a child: " + errno_text(errno));
  on_stop_.emplace(stop_, Wake{wakeup_.get()});
}

void Patience::Wake::operator()() const noexcept { eventfd_write(fd, 1); }

void BoundedText::append(std::string_view text) {
  total_ += text.size();
  const std::size_t for_head = std::min(text.size(), part_bytes_max - head_.size());
  head_ += text.substr(0, for_head);
  text.remove_prefix(for_head);
  if (text.size() > part_bytes_max) text.remove_prefix(text.size() - part_bytes_max);
  tail_ += text;
  if (tail_.size() > 2 * part_bytes_max) tail_.erase(0, tail_.size() - part_bytes_max);
}

std::string BoundedText::str() const {
  const std::size_t kept = std::min(tail_.size(), part_bytes_max);
  const std::size_t missing = total_ - head_.size() - kept;
  if (missing == 0) return head_ + tail_;
  return fmt::format("{}\n[... {} bytes left out ...]\n{}", head_, missing,
                     std::string_view(tail_).substr(tail_.size() - kept));
}

std::string Exit::describe() const {
  switch (kind) {
    case Kind::exited:
      return fmt::format("exit status {}", value);
    case Kind::signalled:
      return fmt::format("killed by signal {} ({})", value, signal_text(value));
    case Kind::unknown:
      break;
  }
  return "exit status unknown (the host process reaped the child: it ignores SIGCHLD or waits for "
         "any child)";
}

Child::Child(const Command& command, Channel channel) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) cannot_start(command, "pipe", errno);
  output_pipe_ = above_standard(pipe_fds[0]);
  FileDescriptor output_end = above_standard(pipe_fds[1]);
  FileDescriptor input;
  SpawnPlan plan;
  if (channel == Channel::socket) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      cannot_start(command, "socketpair", errno);
    channel_ = above_standard(pair[0]);
    input = above_standard(pair[1]);
    if (!channel_) cannot_start(command, "descriptor", errno);
  } else {
    input = nothing_to_read(command);
  }
  if (!input || !output_pipe_ || !output_end) cannot_start(command, "descriptor", errno);
  plan.place(input.get(), 0);
  plan.place(output_end.get(), 1);
  plan.place(output_end.get(), 2);
  std::vector<std::string> environment = child_environment(command.environment);
  if (const int error = plan.spawn(&pid_, command, environment); error != 0) {
    cannot_start(command, "exec", error);
  }
#ifdef SYS_pidfd_open
  pidfd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
#endif
  const rlimit no_core{0, 0};
  prlimit(pid_, RLIMIT_CORE, &no_core, nullptr);
}

Child::~Child() {
  if (pid_ > 0) finish();
}

void Child::abandon() noexcept {
  pid_ = -1;
  gone_ = true;
  pidfd_.reset();
  channel_.reset();
  output_pipe_.reset();
}

bool Child::has_ended() noexcept {
  if (gone_) return true;
  siginfo_t info{};
  int result = 0;
  do {
    result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (result != 0 && errno == EINTR);
  if (result != 0) gone_ = true;  // ECHILD: the host reaped the child
  return gone_ || info.si_pid == pid_;
}

void Child::collect_output() {
  char buffer[16 * 1024];
  // poll() before each read, which then cannot block, because this is the only reader. The pipe
  // itself is blocking, as the child's end must be; fcntl(), which could change this end alone, is
  // not allowed everywhere.
  pollfd ready{output_pipe_.get(), POLLIN, 0};
  while (output_pipe_ && poll(&ready, 1, 0) > 0) {
    const ssize_t n = ::read(output_pipe_.get(), buffer, sizeof buffer);
    if (n > 0) {
      output_.append({buffer, static_cast<std::size_t>(n)});
    } else if (n == 0) {
      output_pipe_.reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

std::string Child::take_output() {
  collect_output();
  return std::exchange(output_, {}).str();
}

Child::Event Child::wait_for(short events, const Patience& patience) {
  for (;;) {
    if (has_ended()) {
      collect_output();
      return Event::ended;
    }
    if (patience.stopped()) return Event::out_of_patience;
    pollfd fds[4] = {{channel_.get(), events, 0},
                     {output_pipe_.get(), POLLIN, 0},
                     {pidfd_.get(), POLLIN, 0},
                     {patience.descriptor(), POLLIN, 0}};  // poll() ignores negative descriptors
    if (events == 0) fds[0].fd = -1;
    const int left = remaining_ms(patience.deadline());
    const int n = poll(fds, 4, pidfd_ ? left : std::min(left, poll_ms_without_pidfd));
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      throw Error(ErrorCode::internal, "poll on a child process: " + errno_text(errno));
    }
    if (n > 0 && fds[1].revents != 0) collect_output();
    if (n > 0 && fds[0].revents != 0) return Event::channel;
    if (left == 0) return Event::out_of_patience;
  }
}

Child::Io Child::send(std::span<const std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t n =
        ::send(channel_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      const Event event = wait_for(POLLOUT, patience);
      if (event == Event::out_of_patience) return Io::out_of_patience;
      if (event == Event::ended) return Io::closed;
    } else if (errno != EINTR) {
      return Io::closed;
    }
  }
  return Io::done;
}

Child::Io Child::receive(std::span<std::byte> bytes, const Patience& patience) {
  bool ended = false;
  while (!bytes.empty()) {
    const ssize_t n = recv(channel_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return Io::closed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (ended) return Io::closed;  // all bytes sent before the child's end are read
      const Event event = wait_for(POLLIN, patience);
      if (event == Event::out_of_patience) return Io::out_of_patience;
      ended = event == Event::ended;
    } else if (errno != EINTR) {
      return Io::closed;
    }
  }
  return Io::done;
}

bool Child::wait(const Patience& patience) { return wait_for(0, patience) == Event::ended; }

bool Child::alive() {
  if (has_ended()) return false;
  if (!channel_) return true;
  char byte = 0;
  const ssize_t n = recv(channel_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

Exit Child::finish() {
  if (exit_) return *exit_;
  exit_ = Exit{};
  // The group of a leader reaped by the host may be gone, and its number reused: do not kill it.
  if (!has_ended() || !gone_) kill(-pid_, SIGKILL);
  int status = 0;
  pid_t reaped = -1;
  while (!gone_) {
    reaped = waitpid(pid_, &status, 0);
    if (reaped == pid_ || errno != EINTR) break;
  }
  gone_ = true;
  collect_output();
  output_pipe_.reset();
  channel_.reset();
  pidfd_.reset();
  if (reaped == pid_ && WIFEXITED(status)) {
    exit_ = Exit{Exit::Kind::exited, WEXITSTATUS(status)};
  } else if (reaped == pid_ && WIFSIGNALED(status)) {
    exit_ = Exit{Exit::Kind::signalled, WTERMSIG(status)};
  }
  return *exit_;
}

RunResult run_command(const Command& command, const Patience& patience) {
  Child child(command, Child::Channel::none);
  RunResult result;
  result.killed = !child.wait(patience);
  result.exit = child.finish();
  result.output = child.take_output();
  return result;
}

RunResult run_command(const Command& command, std::chrono::milliseconds timeout) {
  return run_command(command, Patience(deadline_after(timeout)));
}

}  // namespace heddle::jit
