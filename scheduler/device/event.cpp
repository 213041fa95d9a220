// Event: queries, waits and callbacks. Also labels, and the task of the calling thread.
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

#include "heddle/observe.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle {
namespace {

/// An empty function is reported in this call, because a later report would have no receiver.
template <class F>
void require_callable(const F& function, const char* what, const Event& event) {
  if (function) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("Event::then() for {}: the {} is empty (expected a function)",
                          event.to_string(), what));
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

bool Event::done() const noexcept {
  if (!sched::Timeline::has_ended(*this)) return false;
  if (sched::Clocks::on()) sched::Clocks::saw(*this);
  return true;
}

Status Event::status() const noexcept {
  if (place_.timeline == nullptr) return refusal_;
  if (refusal_.ok()) return place_.timeline->show(place_.id, ticket_);
  place_.timeline->see(place_.id, refusal_);
  return refusal_;
}

Status Event::wait() const noexcept { return sched::await_until(*this, {}); }

Status Event::wait_for(std::chrono::nanoseconds timeout) const noexcept {
  return wait_until(sched::deadline_after(timeout));
}

Status Event::wait_until(Clock::time_point deadline) const noexcept {
  return sched::await_until(*this, deadline);
}

void Event::then(std::function<void(const Status&)> callback) const {
  require_callable(callback, "callback", *this);
  if (!sched::Timeline::has_ended(*this) && place_.timeline->in_forked_child()) {
    return sched::run_nested(
        [why = place_.timeline->fork_refusal(), callback = std::move(callback)] { callback(why); });
  }
  std::function<void()> call = [self = *this, callback = std::move(callback)] {
    if (sched::Clocks::on()) sched::Clocks::host_saw(self);
    callback(self.status());
  };
  if (sched::Timeline::has_ended(*this)) return sched::run_nested(std::move(call));
  place_.timeline->call(
      place_.id, ticket_,
      [call = std::move(call)]() mutable { sched::run_nested(std::move(call)); },
      sched::Timeline::Caller::user);
}

void Event::then(const Executor& executor, std::function<void(const Status&)> callback) const {
  require_callable(executor, "executor", *this);
  require_callable(callback, "callback", *this);
  then([executor, callback = std::move(callback)](const Status& status) {
    executor([callback, status] { callback(status); });
  });
}

FileDescriptor Event::fd() const {
  if (!sched::Timeline::has_ended(*this) && place_.timeline->in_forked_child())
    throw Error(place_.timeline->fork_refusal());
  const auto eventfd_or_throw = [](int fd) {
    if (fd < 0) {
      throw Error(ErrorCode::exhausted,
                  fmt::format("no descriptor for an event: {}", strerrordesc_np(errno)));
    }
    return fd;
  };
  FileDescriptor result(eventfd_or_throw(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  // The signaller has its own descriptor: the user may close the returned one at any time.
  const auto mine = std::make_shared<FileDescriptor>(eventfd_or_throw(::dup(result.get())));
  const auto make_readable = [mine, self = *this] {
    if (sched::Clocks::on()) sched::Clocks::host_saw(self);
    const std::uint64_t one = 1;
    static_cast<void>(!::write(mine->get(), &one, sizeof one));
  };
  if (sched::Timeline::has_ended(*this)) {
    make_readable();
  } else {
    place_.timeline->call(place_.id, ticket_, make_readable);
  }
  return result;
}

EventId Event::id() const noexcept {
  if (device_id() == 0) return {};
  return {place_.timeline->process(), place_.timeline->place(), place_.id, ticket_};
}

std::string EventId::to_string() const {
  return fmt::format("{:016x}:{}.{}#{}", process, timeline, epoch, ticket);
}

std::string Event::to_string() const {
  if (!accepted()) return fmt::format("event (refused: {})", name(refusal_.code()));
  if (place_.timeline == nullptr) return "event (done)";
  const Status end = sched::Timeline::outcome_of(*this);
  return fmt::format("{}#{} {}", place_.timeline->name_of(place_.id), ticket_,
                     !sched::Timeline::has_ended(*this) ? "pending"
                     : end.ok()                         ? "done"
                                                        : name(end.code()));
}

namespace sched {
namespace {
[[gnu::tls_model("initial-exec")]] thread_local TaskContext* innermost = nullptr;
}  // namespace

// Not inlined, like every function that touches the variable: a function that suspends may continue
// on another thread, and must not keep the address of the first thread's variable.
[[gnu::noinline]] TaskContext* current_task() noexcept { return innermost; }
namespace {
[[gnu::noinline]] void set_current_task(TaskContext* task) noexcept { innermost = task; }
}  // namespace

bool in_part() noexcept {
  const TaskContext* const task = current_task();
  return task != nullptr && task->in_part;
}

TaskScope::TaskScope(TaskContext& context) noexcept {
  context.outer = current_task();
  set_current_task(&context);
}
TaskScope::~TaskScope() { set_current_task(current_task()->outer); }

OutsideTasks::OutsideTasks() noexcept : task_(current_task()) { set_current_task(nullptr); }
OutsideTasks::~OutsideTasks() { set_current_task(task_); }

namespace {
[[gnu::noinline]] std::uint64_t& told_domain() noexcept {
  thread_local std::uint64_t domain = 0;
  return domain;
}
}  // namespace

TellsEnds::TellsEnds(std::uint64_t domain) noexcept : outer_(told_domain()) {
  if (hooks() == nullptr) told_domain() = domain;
}
TellsEnds::~TellsEnds() {
  if (hooks() == nullptr) told_domain() = outer_;
}
std::uint64_t TellsEnds::here() noexcept { return told_domain(); }
bool TellsEnds::in_callback() noexcept {
  if (here() == 0) return false;
  const TaskContext* const task = current_task();
  return task == nullptr || task->ending != nullptr;
}

void suspend_task() noexcept {
  TaskContext* const task = current_task();
  set_current_task(task->outer);
  task->fiber->suspend();
  // The task now lies on top of the tasks of the thread that resumed it.
  task->outer = current_task();
  set_current_task(task);
}

namespace {
[[gnu::noinline]] Callbacks& callbacks_of_host() noexcept {
  thread_local Callbacks mine;
  return mine;
}
/// The callbacks of the current task, which may continue on another thread; outside tasks, this
/// thread's.
Callbacks& callbacks_here() noexcept {
  TaskContext* const task = current_task();
  return task != nullptr ? task->callbacks : callbacks_of_host();
}
}  // namespace

void Callbacks::run(std::function<void()> callback) noexcept {
  if (depth_ >= tuning::nesting_max) {
    try {
      put_off_.push_back(std::move(callback));
      return;
    } catch (...) {  // no memory to postpone it
    }
  }
  ++depth_;
  Timeline::run_callback(callback);
  if (depth_ == 1) run_put_off();
  --depth_;
}

void Callbacks::run_put_off() noexcept {
  while (!put_off_.empty()) {
    std::list<std::function<void()>> next;
    next.splice(next.begin(), put_off_, put_off_.begin());
    Timeline::run_callback(next.front());
  }
}

void run_nested(std::function<void()> callback) noexcept {
  callbacks_here().run(std::move(callback));
}

void run_put_off() noexcept {
  callbacks_here().run_put_off();
  go_on_with_put_off();
}

bool waits_for_itself(std::uint64_t timeline, std::uint64_t ticket) noexcept {
  for (const TaskContext* at = current_task(); at != nullptr; at = at->outer) {
    if (at->timeline == timeline && ticket >= at->ticket) return true;
    if (at->fiber != nullptr) return false;  // it suspends, and the outer tasks continue
  }
  return false;
}

Label Label::intern(std::string_view text, std::source_location site) {
  static constinit ProcessMutex mutex;
  const std::lock_guard lock(mutex);
  // Never destroyed: labels are read by workers that may outlive static objects.
  static auto* const labels = new std::set<std::string, std::less<>>();
  auto at = labels->find(text);
  if (at == labels->end()) at = labels->emplace(text).first;
  return {Interned{}, at->c_str(), site};
}

}  // namespace sched

namespace this_task {

Status await(const Event& event) noexcept { return sched::await_until(event, {}); }

std::stop_token stop_token() noexcept {
  sched::TaskContext* const task = sched::current_task();
  return task == nullptr ? std::stop_token() : task->device->stop_token(task->ticket);
}

const char* label() noexcept {
  const sched::TaskContext* const task = sched::current_task();
  if (task == nullptr) return "";
  return task->ending != nullptr ? task->ending : task->device->label();
}

std::uint64_t ticket() noexcept {
  const sched::TaskContext* const task = sched::current_task();
  return task == nullptr ? 0 : task->ticket;
}

bool running() noexcept { return sched::current_task() != nullptr; }

}  // namespace this_task
}  // namespace heddle

std::size_t std::hash<heddle::EventId>::operator()(const heddle::EventId& id) const noexcept {
  std::size_t mixed = 0;
  for (const std::uint64_t part : {id.process, id.epoch, id.ticket})  // they determine the place
    mixed = (mixed ^ part) * 0x9e3779b97f4a7c15;                      // 2^64 / golden ratio
  return mixed ^ (mixed >> 32);
}
