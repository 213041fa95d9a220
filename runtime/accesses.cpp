// Accesses: what works touch, and how messages name it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/host_uses.hpp"
#include "runtime/submit.hpp"
#include "runtime/transfer.hpp"

namespace heddle::rt {
namespace {

BufferState& state_of(const Access& access) noexcept { return *Inside::of(access.view->buffer()); }

/// For messages.
std::string text_of(const Access& access) {
  if (access.view == nullptr) {
    return fmt::format("the host storage of tensor '{}' {}", access.tensor->label(),
                       access.tensor->type().to_string());
  }
  const std::string type = access.view->type().to_string();
  return access.tensor != nullptr
             ? fmt::format("tensor '{}' {}", access.tensor->label(), type)
             : fmt::format("a buffer {} of {}", type, *state_of(access).device);
}

}  // namespace

Status absent(const Access& access, std::string_view user) {
  return Status(
      ErrorCode::failed_precondition,
      fmt::format("{} uses {}{}, which {}", user, access.tensor != nullptr ? "the memory of " : "",
                  text_of(access), state_of(access).absence()));
}

Status not_written(const Access& access, std::string_view user, const Event& write) {
  return Status(ErrorCode::failed_precondition,
                fmt::format("{} reads {}, which was not written: what should have done so ended "
                            "badly; write all of it anew first{}",
                            user, text_of(access),
                            access.view == nullptr ? ", and if the host does, say so with "
                                                     "HostArray::set_written()"
                                                   : ""),
                write.status());  // which the caller is told
}

void Accesses::add(Access access) {
  list_.push_back(access);
  BufferState& buffer = state_of(access);
  const std::size_t begin = access.view->offset();
  const Range range{begin, begin + access.view->num_bytes()};
  touch({&buffer.hazards(), &buffer, nullptr, range, access.use, access}, *buffer.ledger);
}

void Accesses::add(HostUses& host, std::size_t bytes, Use use, const Tensor& tensor) {
  touch({&host.hazards, nullptr, &host, {0, bytes}, use, {nullptr, use, &tensor}}, host.ledger);
}

void Accesses::then(const Accesses& next) {
  list_.insert(list_.end(), next.list_.begin(), next.list_.end());
  for (const Touch& later : next.touches_) {
    const bool anew = std::ranges::any_of(touches_, [&](const Touch& before) {
      return before.hazards == later.hazards && before.use == Use::overwrite &&
             before.range.covers(later.range);
    });
    if (!anew) touch(later, later.buffer != nullptr ? *later.buffer->ledger : later.host->ledger);
  }
  for (Ledger* const each : next.ledgers_) add(*each);
}

void Accesses::touch(const Touch& touch, Ledger& ledger) {
  const auto same = [&](const Touch& other) {
    return other.hazards == touch.hazards && other.range == touch.range;
  };
  if (const auto at = std::ranges::find_if(touches_, same); at == touches_.end()) {
    touches_.push_back(touch);
    const auto of_it = [&](const Touch& other) { return other.hazards == touch.hazards; };
    const auto among = static_cast<std::size_t>(std::ranges::count_if(touches_, of_it));
    for (Touch& each : touches_) {
      if (of_it(each)) each.among = among;
    }
    add(ledger);
  } else if (at->use != touch.use) {
    at->use = Use::change;
  }
}

void Accesses::add(Ledger& ledger) {
  const auto at = std::ranges::lower_bound(ledgers_, &ledger, std::less<>());
  if (at == ledgers_.end() || *at != &ledger) ledgers_.insert(at, &ledger);
}

void Accesses::clear() noexcept {
  list_.clear();
  touches_.clear();
  ledgers_.clear();
}

bool Accesses::writes(const BufferView& view) const noexcept {
  return std::ranges::any_of(list_, [&](const Access& access) {
    return access.use != Use::read && overlap(*access.view, view);
  });
}

bool may_be_fresh(const BufferState& buffer) noexcept {
  // relaxed: it is looked at again with the ledger locked.
  return buffer.is_fresh.load(std::memory_order_relaxed);
}

bool uses_fresh(const Accesses& accesses) noexcept {
  return std::ranges::any_of(
      accesses.touches(), [](const Accesses::Touch& each) { return may_be_fresh(*each.buffer); });
}

void require_live(const Access& access, std::string_view user) {
  const std::lock_guard lock(*state_of(access).ledger);
  const BufferState& buffer = state_of(access);
  if (!buffer.memory && !buffer.is_promised()) throw Error(absent(access, user));
}

}  // namespace heddle::rt
