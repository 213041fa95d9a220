// See submit.hpp.
#include "runtime/submit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "heddle/status.hpp"

namespace heddle::rt {
namespace {

BufferState& state_of(const Access& access) noexcept { return *access.view->buffer().state(); }

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

/// How the queue handles a std::unique_ptr<Work>.
constexpr sched::TaskOps work_ops{
    [](void* to, void* from) noexcept {
      ::new (to) std::unique_ptr<Work>(std::move(*static_cast<std::unique_ptr<Work>*>(from)));
    },
    [](void* callable, Status& failure) {
      auto& work = *static_cast<std::unique_ptr<Work>*>(callable);
      failure = work->run();
      if (failure.ok()) work.~unique_ptr();
      return failure.ok();
    },
    [](void* callable) noexcept { static_cast<std::unique_ptr<Work>*>(callable)->~unique_ptr(); }};

}  // namespace

void Accesses::add(Access access) {
  if (access.use == Use::overwrite && access.view->num_bytes() != state_of(access).bytes)
    access.use = Use::change;
  const auto at = std::ranges::lower_bound(list_, &state_of(access), std::less<>(),
                                           [](const Access& other) { return &state_of(other); });
  if (at != list_.end() && &state_of(*at) == &state_of(access)) {
    if (at->use != access.use) at->use = Use::change;
  } else {
    list_.insert(at, access);
  }
}

Event Door::submit_work(std::unique_ptr<Work> work, const sched::SubmitOptions& options) {
  require_open(device_);
  work_ = work.get();
  work->kept.reserve(accesses_->list().size() + 1);
  Event event = TicketGuard::submit(*device_.timeline, label_, work_ops, &work, options, *this);
  if (event.accepted()) return event;
  Status why = event.status();
  // Somebody finalised it meanwhile.
  if (why.code() == ErrorCode::unavailable) require_open(device_);
  throw Error(std::move(why));
}

Status Door::enter(sched::TaskNote& note) noexcept {
  for (const Access& access : accesses_->list()) state_of(access).mutex.lock();
  try {
    kept().clear();
    kept().reserve(accesses_->list().size() + 1);
    for (const Access& access : accesses_->list()) {
      BufferState& buffer = state_of(access);
      if (!buffer.memory) {
        Status why =
            donated(access, fmt::format("'{}' on {}", label_.c_str(), device_.execution->name));
        unlock();
        return why;
      }
      kept().push_back(buffer.memory);
      buffer.order(device_.timeline->id(), access.use == Use::overwrite, note);
    }
    return {};
  } catch (...) {
    unlock();
    return Status(ErrorCode::exhausted, [&] {
      return fmt::format("no memory to submit '{}' on {}", label_.c_str(), device_.execution->name);
    });
  }
}

void Door::leave(const Event* taken) noexcept {
  if (taken != nullptr) {
    for (const Access& access : accesses_->list())
      state_of(access).note_use(*taken, access.use == Use::overwrite);
    work_->accepted = true;
  }
  unlock();
}

void Door::unlock() noexcept {
  for (const Access& access : accesses_->list()) state_of(access).mutex.unlock();
}

void require_live(const Access& access, std::string_view user) {
  const std::lock_guard lock(state_of(access).mutex);
  if (!state_of(access).memory) throw Error(donated(access, user));
}

}  // namespace heddle::rt
