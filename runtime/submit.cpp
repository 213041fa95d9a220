// See submit.hpp.
#include "runtime/submit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/transfer.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {
namespace {

BufferState& state_of(const Access& access) noexcept { return *Inside::of(access.view->buffer()); }

/// Under the buffer's lock.
Status donated(const Access& access, std::string_view user) {
  const std::source_location& at = state_of(access).taken_at;
  const std::string what = access.tensor != nullptr
                               ? fmt::format("the memory of tensor '{}' {}", access.tensor->label(),
                                             access.view->type().to_string())
                               : fmt::format("a buffer {} of {}", access.view->type().to_string(),
                                             *state_of(access).device);
  return Status(ErrorCode::failed_precondition,
                fmt::format("{} uses {}, which was donated: taken in '{}' ({}:{}); use the buffer "
                            "that donate() gave there",
                            user, what, at.function_name(), at.file_name(), at.line()));
}

}  // namespace

void Accesses::add(Access access) {
  list_.push_back(access);
  Whole whole{&state_of(access), access.use, access};
  if (whole.use == Use::overwrite && access.view->num_bytes() != whole.buffer->bytes)
    whole.use = Use::change;
  const auto at = std::ranges::lower_bound(buffers_, whole.buffer->number, std::less<>(),
                                           [](const Whole& one) { return one.buffer->number; });
  if (at == buffers_.end() || at->buffer != whole.buffer) {
    buffers_.insert(at, whole);
  } else if (at->use != whole.use) {
    at->use = Use::change;
  }
}

bool Accesses::writes(const BufferView& view) const noexcept {
  return std::ranges::any_of(list_, [&](const Access& access) {
    return access.use != Use::read && overlap(*access.view, view);
  });
}

/// Holds what a work touches while it takes its ticket.
class Door final : public sched::TicketGuard {
 public:
  Door(const DeviceState& device, const Work& work)
      : device_(device), work_(work), operation_(*work.operation), accesses_(&work.accesses) {}

  static Event submit(const DeviceState& device, Work work, const sched::SubmitOptions& options) {
    require_open(device);
    Door door(device, work);
    door.operation_.execution_ = device.execution;
    const bool runs_ahead =
        device.execution->queue->runs_ahead() && !work.operation->host_takes_part();
    return TicketGuard::submit(*device.timeline, work.label, runs_ahead ? ahead : to_the_end,
                               &work.operation, options, door);
  }

  Status enter(sched::TaskNote& note) noexcept override {
    if (work_.merge != nullptr) slot().mutex.lock();
    Status why;
    try {
      std::shared_ptr<const Memory> more;
      if (work_.merge != nullptr) {
        MergeUse::Needs needs = work_.merge->resolve(device_);
        accesses_ = &needs.accesses;
        more = std::move(needs.memory);
      }
      why = enter_buffers(std::move(more), note);
    } catch (const Error& e) {
      why = e.status();
    } catch (...) {
      why = Status(ErrorCode::exhausted, [&] {
        return fmt::format("no memory to submit '{}' on {}", work_.label.c_str(),
                           device_.execution->name);
      });
    }
    if (!why.ok() && work_.merge != nullptr) slot().mutex.unlock();
    return why;
  }

  void leave(const Event* taken) noexcept override {
    std::shared_ptr<Load> before;  // goes after the locks
    if (taken != nullptr) {
      for (const Accesses::Whole& each : accesses_->buffers())
        each.buffer->note_use(*taken, each.use == Use::overwrite);
      if (work_.merge != nullptr) {
        before = slot().load;
        work_.merge->settle(slot(), *taken);
      }
    }
    unlock_buffers();
    if (work_.merge != nullptr) slot().mutex.unlock();
  }

 private:
  Status enter_buffers(std::shared_ptr<const Memory> more, sched::TaskNote& note) {
    for (const Accesses::Whole& each : accesses_->buffers()) each.buffer->mutex.lock();
    Status why;
    try {
      why = look_at_buffers(std::move(more), note);
    } catch (...) {
      unlock_buffers();
      throw;
    }
    if (!why.ok()) unlock_buffers();
    return why;
  }

  Status look_at_buffers(std::shared_ptr<const Memory> more, sched::TaskNote& note) {
    std::vector<std::shared_ptr<const Memory>>& kept = operation_.kept_;
    kept.clear();
    kept.reserve(accesses_->buffers().size() + 1);
    for (const Accesses::Whole& each : accesses_->buffers()) {
      if (!each.buffer->memory) {
        return donated(each.named,
                       fmt::format("'{}' on {}", work_.label.c_str(), device_.execution->name));
      }
      kept.push_back(each.buffer->memory);
      each.buffer->order(device_.timeline->id(), each.use == Use::overwrite, note);
    }
    if (more) kept.push_back(std::move(more));
    return {};
  }

  void unlock_buffers() noexcept {
    for (const Accesses::Whole& each : accesses_->buffers()) each.buffer->mutex.unlock();
  }
  [[nodiscard]] MergeSlot& slot() const noexcept { return device_.execution->merge; }

  // How the queue handles a std::unique_ptr<Operation>.

  static Operation& of(void* callable) noexcept {
    return **static_cast<std::unique_ptr<Operation>*>(callable);
  }
  static void construct(void* to, void* from) noexcept {
    ::new (to)
        std::unique_ptr<Operation>(std::move(*static_cast<std::unique_ptr<Operation>*>(from)));
  }
  static void destroy(void* callable) noexcept {
    static_cast<std::unique_ptr<Operation>*>(callable)->~unique_ptr();
  }
  static void pass_over(void* callable) noexcept {
    of(callable).pass_over(*of(callable).execution_);
  }
  static bool run(void* callable, Status& failure) {
    failure = of(callable).run(*of(callable).execution_);
    if (failure.ok()) destroy(callable);
    return failure.ok();
  }
  /// It ends once what it asked for has ended, however this goes.
  static bool issue(void* callable, Status& failure) {
    sched::Completion end = completion_of_running_task();
    Stream& queue = *of(callable).execution_->queue;
    try {
      failure = of(callable).run(*of(callable).execution_);
    } catch (...) {
      queue.end(std::move(end));
      throw;
    }
    queue.end(std::move(end));
    return failure.ok();
  }
  static Status finish(void* callable, Status reported) noexcept {
    return of(callable).ended(*of(callable).execution_, std::move(reported));
  }
  static constexpr sched::TaskOps to_the_end{&construct, &run, &destroy, nullptr, &pass_over};
  static constexpr sched::TaskOps ahead{&construct, &issue, &destroy, &finish, &pass_over};

  const DeviceState& device_;
  const Work& work_;
  Operation& operation_;
  const Accesses* accesses_;  // of the work; from enter() on, with what it merges
};

Event submit(const DeviceState& device, Work work, const sched::SubmitOptions& options) {
  Event event = Door::submit(device, std::move(work), options);
  if (event.accepted()) return event;
  Status why = event.status();
  // Somebody finalised it meanwhile.
  if (why.code() == ErrorCode::unavailable) require_open(device);
  throw Error(std::move(why));
}

void require_live(const Access& access, std::string_view user) {
  const std::lock_guard lock(state_of(access).mutex);
  if (!state_of(access).memory) throw Error(donated(access, user));
}

}  // namespace heddle::rt
