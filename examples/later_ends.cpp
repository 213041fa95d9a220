// Tasks that end after their function returns: each task requests bytes of a socket, and a thread
// that waits for all sockets (epoll) completes the task. Uses the scheduler alone.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <heddle/scheduler.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

using heddle::sched::Completion;

/// Bytes requested by a task, and the task's completion.
struct Read {
  int socket;
  std::string& into;
  Completion completion;
};

/// Completes reads as their bytes arrive, on its own thread.
class Poller {
 public:
  Poller() : thread_([this] { run(); }) { watch(stop_, EPOLLIN, nullptr); }
  ~Poller() {
    eventfd_write(stop_, 1);
    thread_.join();
    close(stop_);
    close(epoll_);
  }
  void begin(Read read) { watch(read.socket, EPOLLIN | EPOLLONESHOT, new Read(std::move(read))); }

 private:
  void watch(int descriptor, std::uint32_t events, void* what) const {
    epoll_event event{.events = events, .data = {.ptr = what}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
  }
  void run() const {
    epoll_event event{};
    while (epoll_wait(epoll_, &event, 1, -1) < 1 || event.data.ptr != nullptr) {
      if (event.data.ptr == nullptr) continue;
      const std::unique_ptr<Read> read(static_cast<Read*>(event.data.ptr));
      std::array<char, 64> bytes{};
      const ssize_t count = ::read(read->socket, bytes.data(), bytes.size());
      if (count > 0) {
        read->into.assign(bytes.data(), static_cast<std::size_t>(count));
        read->completion.end();
      } else {
        read->completion.end(heddle::Status(heddle::ErrorCode::unavailable, "the peer hung up"));
      }
    }
  }

  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  const int stop_ = eventfd(0, EFD_CLOEXEC);
  std::thread thread_;
};

int main() {
  Poller poller;
  heddle::Scheduler scheduler;
  auto io = scheduler.new_device(heddle::sched::DeviceOptions{.name = "io", .in_flight = 8}),
       work = scheduler.new_device("work");

  std::array<std::array<int, 2>, 3> sockets{};
  std::array<std::string, 3> words;
  for (std::size_t k = 0; k < sockets.size(); ++k) {
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[k].data());
    io.submit("read", [&, k](Completion completion) {
      poller.begin({sockets[k][0], words[k], std::move(completion)});
    });
  }
  // All three tasks are in flight. They end in ticket order, whichever bytes arrive first.
  work.wait(io.record());
  heddle::Event said = work.submit("say", [&] {
    std::printf("%s, %s, %s\n", words[0].c_str(), words[1].c_str(), words[2].c_str());
  });
  send(sockets[2][1], "three", 5, 0);
  send(sockets[1][1], "two", 3, 0);
  send(sockets[0][1], "one", 3, 0);
  said.wait();

  // The failure is reported from the thread that completes the task.
  heddle::Event broken = io.submit("read", [&](Completion completion) {
    const int socket = dup(sockets[0][0]);
    poller.begin({socket, words[0], std::move(completion)});
  });
  close(sockets[0][1]);
  std::printf("%s\n", broken.wait().root().to_string().c_str());
}
