// PoolDescriptor: an eventfd and a timerfd behind one epoll descriptor.
#include "scheduler/modes/pool_descriptor.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace heddle::sched {
namespace {

FileDescriptor owned(int fd) {
  if (fd < 0) {
    throw Error(ErrorCode::exhausted,
                fmt::format("no descriptor for a scheduler: {}", strerrordesc_np(errno)));
  }
  return FileDescriptor(fd);
}

void watch(int epoll, int fd) {
  epoll_event readable{};
  readable.events = EPOLLIN;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable) != 0) {
    throw Error(ErrorCode::exhausted,
                fmt::format("cannot watch a descriptor: {}", strerrordesc_np(errno)));
  }
}

}  // namespace

PoolDescriptor::PoolDescriptor()
    : signal_(owned(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK))),
      alarm_(owned(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK))),
      both_(owned(::epoll_create1(EPOLL_CLOEXEC))) {
  watch(both_.get(), signal_.get());
  watch(both_.get(), alarm_.get());
}

void PoolDescriptor::signal() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(signal_.get(), &one, sizeof one));
}

void PoolDescriptor::set_alarm(Event::Clock::time_point when) noexcept {
  itimerspec spec{};  // all zero: no alarm
  if (when != Event::Clock::time_point::max()) {
    const auto ns = std::max<std::int64_t>(
        1, std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count());
    spec.it_value.tv_sec = ns / 1'000'000'000;
    spec.it_value.tv_nsec = ns % 1'000'000'000;
  }
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void PoolDescriptor::clear() noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(signal_.get(), &count, sizeof count));
  static_cast<void>(!::read(alarm_.get(), &count, sizeof count));
}

}  // namespace heddle::sched
