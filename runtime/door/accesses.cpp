// See runtime/door/accesses.hpp.
#include "runtime/door/accesses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/door/host_uses.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {
namespace {

BufferState& state_of(const Access& access) noexcept { return *Inside::of(access.view->buffer()); }

std::string named(std::string_view user, const Access& access) {
  return access.recorded == nullptr ? std::string(user)
                                    : fmt::format("{} ({})", user, *access.recorded);
}

/// The slice of a view shared by two uses; null: the uses touch different parts.
const jit::Slice* common(const jit::Slice* one, const jit::Slice* other) noexcept {
  if (one == nullptr || other == nullptr) return nullptr;
  const bool same =
      one->begin == other->begin && one->end == other->end && one->steps == other->steps;
  if (!same) return nullptr;
  return one->overwritten ? other : one;  // `other` may read the slice
}

/// The bytes of `later` without those overwritten by `before`.
std::vector<Range> not_overwritten(std::span<const Accesses::Touch> before,
                                   const Accesses::Touch& later) {
  std::vector<Range> left{later.range};
  for (const Accesses::Touch& each : before) {
    if (each.hazards == later.hazards && leaves_new(each.use)) left = without(left, each.range);
  }
  return left;
}

}  // namespace

std::string name_of(const Access& access) {
  if (access.view == nullptr) {
    if (access.tensor == nullptr) return "a host array";
    return fmt::format("the host storage of tensor '{}' {}", access.tensor->label(),
                       access.tensor->type().to_string());
  }
  const std::string type = access.view->type().to_string();
  return access.tensor != nullptr
             ? fmt::format("tensor '{}' {}", access.tensor->label(), type)
             : fmt::format("a buffer {} of {}", type, *state_of(access).device);
}

Status absent(const Access& access, std::string_view user) {
  return Status(ErrorCode::failed_precondition,
                fmt::format("{} uses {}{}, which {}", named(user, access),
                            access.tensor != nullptr ? "the memory of " : "", name_of(access),
                            state_of(access).absence()));
}

Status not_written(const Access& access, std::string_view user, const Event& write) {
  return Status(
      ErrorCode::failed_precondition,
      fmt::format("{} {} {}, which was not written: what should have done so ended badly; write "
                  "all of it anew first{}",
                  named(user, access), access.only_writes ? "writes only a part of" : "reads",
                  name_of(access),
                  access.view == nullptr
                      ? ", and if the host does, say so with HostArray::set_written()"
                      : ", by one routine or Context::write(), or its bytes by "
                        "BufferView::from_host()"),
      write.status());  // marks the failure as seen by the caller
}

void Accesses::add(Access access) {
  list_.push_back(access);
  BufferState& buffer = state_of(access);
  const std::size_t begin = access.view->offset();
  const Range range{begin, begin + access.view->num_bytes()};
  touch({&buffer.hazards(), &buffer, nullptr, range, access.use, access}, *buffer.ledger);
}

void Accesses::add(HostUses& host, std::size_t bytes, Use use, const Tensor* tensor) {
  touch({&host.hazards, nullptr, &host, {0, bytes}, use, {nullptr, use, tensor}}, host.ledger);
}

void Accesses::then(const Accesses& next) {
  list_.insert(list_.end(), next.list_.begin(), next.list_.end());
  const std::size_t before = touches_.size();  // `next` may read bytes before overwriting them
  for (const Touch& later : next.touches_) {
    Ledger& ledger = later.buffer != nullptr ? *later.buffer->ledger : later.host->ledger;
    const std::vector<Range> left = not_overwritten(std::span(touches_).first(before), later);
    if (left.empty()) continue;
    if (later.use == Use::overwrite) {
      Touch& all = touch(later, ledger);
      if (all.use != Use::overwrite) all.use = Use::replace;
      continue;
    }
    for (const Range& each : left) {
      Touch part = later;
      part.range = each;
      touch(part, ledger);
    }
  }
  for (Ledger* const each : next.ledgers_) add(*each);
}

Accesses::Touch& Accesses::touch(const Touch& touch, Ledger& ledger) {
  const auto same = [&](const Touch& other) {
    return other.hazards == touch.hazards && other.range == touch.range;
  };
  if (const auto at = std::ranges::find_if(touches_, same); at != touches_.end()) {
    const jit::Slice* const slice = common(at->named.slice, touch.named.slice);
    if (at->use != touch.use) at->use = Use::change;
    if (at->named.only_writes) at->named = touch.named;
    at->named.slice = slice;
    return *at;
  }
  touches_.push_back(touch);
  const auto of_it = [&](const Touch& other) { return other.hazards == touch.hazards; };
  const auto among = static_cast<std::size_t>(std::ranges::count_if(touches_, of_it));
  for (Touch& each : touches_) {
    if (of_it(each)) each.among = among;
  }
  add(ledger);
  return touches_.back();
}

void Accesses::be_of(const std::string& recorded) noexcept {
  for (Access& each : list_) each.recorded = &recorded;
  for (Touch& each : touches_) each.named.recorded = &recorded;
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

void Accesses::doubt(std::uint64_t timeline, std::uint64_t disturbances, bool automatic,
                     const Chosen& statics, sched::TaskNote& note) const noexcept {
  for (const Touch& each : touches_)
    rt::doubt(*each.hazards, next(each, timeline, disturbances, automatic, statics), note);
}

void doubt(const Hazards& hazards, const Hazards::Next& next, sched::TaskNote& note) noexcept try {
  hazards.doubt(next, note);
} catch (const std::bad_alloc&) {  // the task does not run
  note.after.reset();
  note.come_after(sched::Timeline::refused(
      Status(ErrorCode::exhausted, "no memory to note what a task reads of cancelled ones")));
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
