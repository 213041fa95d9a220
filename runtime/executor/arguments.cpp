// See runtime/executor/arguments.hpp.
#include "runtime/executor/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/executor/state.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle::rt {
namespace {

/// The value of a number given by the host, for messages; otherwise empty.
std::string value_of(const executors::Leaf& leaf) {
  if (leaf.data == nullptr || leaf.count >= 0) return "";
  return " = " + render_array({leaf.dtype, {}}, leaf.data);
}

BufferState& buffer_of(const ArrayState& array) noexcept {
  return *Inside::of(array.view.buffer());
}

}  // namespace

std::string CallTarget::user() const {
  return fmt::format("executor '{}' on {}", executor.name(), device.name());
}

std::string CallArguments::name_of(std::size_t k) const {
  if (k >= graph_.num_arguments) {
    return fmt::format("parameter '{}' {}", graph_.parameters[k].name,
                       graph_.parameters[k].type.to_string());
  }
  return fmt::format("argument {} of {}, '{}' {}{}", k, graph_.num_arguments,
                     graph_.parameters[k].name, graph_.parameters[k].type.to_string(),
                     value_of(leaves_[k]));
}

void CallArguments::refuse(std::size_t k, ErrorCode code, std::string_view why,
                           Status cause) const {
  throw Error(code, fmt::format("{}: {} {}", user(), name_of(k), why), std::move(cause));
}

/// Null: a host value, to be converted by bring(). `ledger`: the device's.
inline void CallArguments::add(const Array* array, bool donated, const Ledger* ledger) {
  const ArrayState* const state = array != nullptr ? Inside::of(*array).get() : nullptr;
  Argument& added = arguments_.emplace_back();
  added.array = state;
  added.donated = donated;
  has_donated_ |= donated;
  are_plain_ = are_plain_ && state != nullptr && buffer_of(*state).ledger.get() == ledger &&
               !state->is_awaited();
}

CallArguments::CallArguments(const CallTarget& target, const PassedArguments& passed,
                             const OtherArguments& others)
    : target_(target),
      graph_(target.graph()),
      leaves_(passed.leaves),
      others_(others),
      are_plain_(target.site.is_plain) {
  const Ledger* const ledger = target_.execution().ledger.get();
  for (const executors::Leaf& leaf : leaves_) add(leaf.array, leaf.donated, ledger);
  note_donated(passed.first_of);
  for (const OtherArgument& each : others_) add(&each.array, each.donated, ledger);
  for (std::size_t k = 0; has_donated_ && are_plain_ && k < size(); ++k)
    are_plain_ = !arguments_[k].donated || is_plain_gift(k);
  if (are_plain_) return;
  check_spaces();
  check();
  bring();
}

void CallArguments::note_donated(std::span<const std::size_t> first_of) {
  for (const std::size_t argument : target_.executor.options.donate) {
    if (argument >= first_of.size()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: ExecutorOptions::donate names argument {}, and it is called with "
                      "{}",
                      user(), argument, first_of.size()));
    }
    const std::size_t end =
        argument + 1 < first_of.size() ? first_of[argument + 1] : leaves_.size();
    for (std::size_t k = first_of[argument]; k < end; ++k) arguments_[k].donated = true;
    has_donated_ |= first_of[argument] < end;
  }
}

BufferState& CallArguments::buffer(std::size_t k) const noexcept {
  return buffer_of(*arguments_[k].array);
}

/// Tells whether a donated argument is a whole buffer, given once.
bool CallArguments::is_plain_gift(std::size_t k) const {
  return graph_.parameters[k].bytes == buffer(k).bytes && num_in(buffer(k)) == 1;
}

/// Tells whether the argument is in memory that the device can address.
bool CallArguments::is_reached(std::size_t k) const {
  return !is_host_value(k) && reaches(target_.execution(), buffer(k));
}

/// Arguments must lie in memory that the device reaches, or be allowed to be copied.
void CallArguments::check_spaces() const {
  if (target_.executor.options.other_devices == OtherDevices::copy) return;
  for (std::size_t k = 0; k < size(); ++k) {
    if (is_host_value(k) || is_reached(k)) continue;
    refuse(k, ErrorCode::invalid_argument,
           fmt::format("lies in memory of {}, which {} cannot address; copy it with "
                       "Array::copy_to(), or allow copies with ExecutorOptions::other_devices",
                       arguments_[k].array->device.name(), target_.device.name()));
  }
}

void CallArguments::check() const {
  for (std::size_t k = 0; k < size(); ++k) {
    if (is_host_value(k)) continue;
    {
      const std::lock_guard lock(*buffer(k).ledger);
      if (!buffer(k).memory) refuse(k, ErrorCode::failed_precondition, buffer(k).absence());
    }
    if (const Status status = arguments_[k].array->event.status(); !status.ok())
      refuse(k, ErrorCode::failed_precondition,
             "did not come: what should have filled it failed; make it anew", status);
    if (arguments_[k].donated) check_donation(k);
  }
}

void CallArguments::check_donation(std::size_t k) const {
  const BufferState& given = buffer(k);
  if (view(k).num_bytes() != given.bytes) {
    refuse(k, ErrorCode::failed_precondition,
           "cannot be donated: it is a part of a " + view(k).buffer().to_string() +
               "; pass it without donate()");
  }
  if (!given.constant.empty()) {
    refuse(k, ErrorCode::failed_precondition,
           "cannot be donated: it is a hosted constant, which stays as it is; pass it without "
           "donate()");
  }
  for (std::size_t other = 0; num_in(given) > 1 && other < size(); ++other) {
    if (other == k || is_host_value(other) || &buffer(other) != &given) continue;
    refuse(k, ErrorCode::invalid_argument,
           fmt::format("is donated, and is {} too{}; pass a copy() of one", name_of(other),
                       arguments_[other].donated ? ", donated again" : ""));
  }
}

/// Converts host values, and copies arrays of other devices. Only the call has the new arrays,
/// hence results may take their memory.
void CallArguments::bring() {
  for (std::size_t k = 0; k < size(); ++k) {
    if (is_reached(k)) continue;
    try {
      rare().made.push_back(brought(k));
    } catch (const Error& error) {
      refuse(k, error.code(), "cannot be copied there", error.status());
    }
    arguments_[k] = {Inside::of(rare().made.back()).get(), true, true};
    has_donated_ = true;
    rare().buffers.clear();
  }
}

Array CallArguments::brought(std::size_t k) {
  ExecutorState& executor = target_.executor;
  const Device& device = target_.device;
  if (!is_host_value(k)) {
    const Array& from = k < leaves_.size() ? *leaves_[k].array : others_[k - leaves_.size()].array;
    if (arguments_[k].donated) rare().copied.push_back(from);
    executor.copies.add();
    return from.copy_to(device, executor.where);
  }
  const executors::Leaf& leaf = leaves_[k];
  if (leaf.array != nullptr)
    refuse(k, ErrorCode::failed_precondition, "is an Array without a value, which Array() made");
  if (leaf.host != nullptr) return {device, *leaf.host, executor.where};
  const std::size_t count = leaf.count < 0 ? 1 : static_cast<std::size_t>(leaf.count);
  return Inside::make<Array>(device, graph_.parameters[k].type, leaf.data, count, executor.where);
}

std::size_t CallArguments::num_in(const BufferState& buffer) const {
  const auto buffer_in = [](const Argument& each) -> const BufferState* {
    return each.array != nullptr ? &buffer_of(*each.array) : nullptr;
  };
  if (size() <= 16)
    return static_cast<std::size_t>(std::ranges::count(arguments_, &buffer, buffer_in));
  std::vector<const BufferState*>& buffers = rare().buffers;
  if (buffers.empty()) {
    buffers.reserve(size());
    std::ranges::transform(arguments_, std::back_inserter(buffers), buffer_in);
    std::ranges::sort(buffers, std::less<>());
  }
  return std::ranges::equal_range(buffers, &buffer, std::less<>()).size();
}

void CallArguments::refuse_donated() const {
  for (std::size_t k = 0; k < size(); ++k) {
    if (arguments_[k].donated && !arguments_[k].made)
      refuse(k, ErrorCode::invalid_argument,
             "cannot be donated to a call that is recorded, as a run would take it once; pass it "
             "without donate()");
  }
}

void CallArguments::refuse_awaited() const {
  for (std::size_t k = 0; k < size(); ++k) {
    if (arguments_[k].array->is_awaited())
      refuse(k, ErrorCode::failed_precondition,
             "is still being filled by what no recording knows; wait() for it first");
  }
}

void CallArguments::take_copied() const {
  if (rare_ == nullptr) return;
  for (const Array& array : rare_->copied) {
    try {
      static_cast<void>(array.view().buffer().donate(target_.executor.where));
    } catch (...) {  // another thread took the buffer meanwhile, or memory for the note is missing
    }
  }
}

}  // namespace heddle::rt
