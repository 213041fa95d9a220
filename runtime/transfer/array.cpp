// Arrays: values on devices. Any thread.
#include "heddle/array.hpp"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/host_uses.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/memory/array_state.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle {
namespace {

std::string text_of(const Device& device, const ArrayType& type) {
  return fmt::format("array {} on {}", type.to_string(), device.name());
}

std::shared_ptr<const rt::ArrayState> state_of(Device device, BufferView view, Event event = {},
                                               bool filled_outside = false) {
  return std::make_shared<const rt::ArrayState>(
      rt::ArrayState{std::move(device), std::move(view), std::move(event), filled_outside});
}

/// Memory not shared yet, with undefined contents.
BufferView memory_for(const Device& device, const ArrayType& type, dev::LastUses may_have) {
  const rt::DeviceState& state = *Inside::of(device);
  rt::require_open(state);
  jit::require_dtype("array", type.dtype);
  const auto bytes = type.num_bytes();
  if (!bytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: extents must be 0 or more and its bytes fit 63 bits",
                            text_of(device, type)));
  }
  return {
      Inside::make<Buffer>(rt::allocate(*state.execution, static_cast<std::size_t>(*bytes),
                                        fmt::format("array {}", type.to_string()), 0, may_have)),
      type};
}

bool has_host_memory(const Device& device) {
  return Inside::of(device)->execution->physical->properties().memory_space ==
         dev::host_memory_space;
}

/// Memory with a copy of the values, which are in row-major order.
BufferView memory_with(const Device& device, const ArrayType& type, const void* values,
                       const std::source_location& where) {
  if (has_host_memory(device)) {
    BufferView view = memory_for(device, type, dev::LastUses::over);
    if (view.num_bytes() > 0) std::memcpy(rt::place_of(view).data, values, view.num_bytes());
    return view;
  }
  BufferView view = memory_for(device, type, dev::LastUses::ordered);
  const HostArray kept(type);
  if (view.num_bytes() > 0) std::memcpy(kept.data(), values, view.num_bytes());
  rt::submit_first_values(*Inside::of(device), view, kept, Tensor("array", type.dtype, type.dims),
                          true, where);
  return view;
}

}  // namespace

Array::Array(const Device& device, const ArrayType& type, const void* values, std::size_t count,
             std::source_location where) {
  const auto wanted = type.num_elements();
  if (!wanted || static_cast<std::size_t>(*wanted) != count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}, at {}:{}: {} values were given (expected {})",
                            text_of(device, type), where.file_name(), where.line(), count,
                            wanted ? fmt::to_string(*wanted) : "extents of 0 or more"));
  }
  state_ = state_of(device, memory_with(device, type, values, where));
}

Array::Array(const Device& device, const HostArray& values, std::source_location where) {
  rt::require_open(*Inside::of(device));
  const ArrayType& type = values.type();
  rt::await_values(*Inside::of(device)->execution, values, Tensor("array", type.dtype, type.dims),
                   where);
  state_ = state_of(device, memory_with(device, type, values.data(), where));
}

Array::Array(const Device& device, const BufferView& view, const Event& event) {
  rt::require_reach(view, *Inside::of(device)->execution);
  state_ = state_of(device, view, event, true);
}

Array Array::zeros(const Device& device, const ArrayType& type) {
  return Array(state_of(device, BufferView(Buffer::allocate(device, type), type)));
}

const rt::ArrayState& Array::state() const {
  if (state_ != nullptr) [[likely]]
    return *state_;
  throw Error(ErrorCode::failed_precondition,
              "an Array without a value is used: Array() made it, and nothing was assigned to it");
}

const ArrayType& Array::type() const { return state().view.type(); }
const Device& Array::device() const { return state().device; }
const BufferView& Array::view() const { return state().view; }
const Event& Array::event() const { return state().event; }

HostArray Array::to_host(std::source_location where) const {
  if (const Status closed = rt::open_status(*Inside::of(device())); !closed.ok()) {
    throw_if_failed(status());
    throw Error(closed.code(),
                fmt::format("{} cannot be read by its own device; copy_to() another one reads it",
                            text_of(device(), type())),
                closed);
  }
  throw_if_failed(status());
  // The copy task holds the array: a refused or cancelled wait ends before the copy.
  const auto values = std::make_shared<const HostArray>(type());
  rt::SubmitOptions options = rt::without_events(where);
  options.after = state_->awaited();
  const auto read_by = [&](const Device& reader) {
    return rt::submit_to_host(*Inside::of(reader), view(),
                              {values->data(), values->num_bytes(), values}, nullptr, options);
  };
  Event end;
  std::optional<Device> other;
  try {
    end = read_by(device());
  } catch (const Error&) {
    // A failed device runs no task until recovery, but earlier results are present.
    if (!done() || device().timeline().status().ok()) throw;
    options.sync = Sync::automatic;
    end = read_by(other.emplace(device().physical_device().new_virtual_device()));
  }
  throw_if_failed(end.wait());
  return *values;
}

void Array::read_bytes(std::span<std::byte> into, const std::source_location& where) const {
  if (into.size() != num_bytes()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is read to {} elements, at {}:{} (expected {})",
                            text_of(device(), type()), into.size() / size_of(dtype()),
                            where.file_name(), where.line(), num_elements()));
  }
  // A wait that is refused may end before the copy: the copy never writes to the caller's memory.
  const HostArray values = to_host(where);
  if (!into.empty()) std::memcpy(into.data(), values.data(), into.size());
}

void Array::require(DType dtype, bool one, const std::source_location& where) const {
  if (dtype == type().dtype && (!one || num_elements() == 1)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} is read as {}{}, at {}:{} (expected {})", text_of(device(), type()),
                  one ? "one " : "", heddle::name(dtype), where.file_name(), where.line(),
                  dtype != type().dtype ? heddle::name(type().dtype) : "an array of one element"));
}

Array Array::copy_to(const Device& device, std::source_location where) const {
  if (device != this->device()) return copied_to(device, where);
  if (!live()) {
    rt::BufferState& buffer = *Inside::of(view().buffer());
    const std::lock_guard lock(*buffer.ledger);
    throw Error(ErrorCode::failed_precondition,
                fmt::format("{} {}", text_of(device, type()), buffer.absence()));
  }
  return *this;
}

Array Array::copy(std::source_location where) const { return copied_to(device(), where); }

Array Array::copied_to(const Device& device, const std::source_location& where) const {
  throw_if_failed(status());
  BufferView copy = memory_for(device, type(), dev::LastUses::ordered);
  rt::SubmitOptions options = rt::without_events(where);
  options.sync = Sync::automatic;
  options.after = state_->awaited();
  Event event = rt::submit_copy(*Inside::of(device), view(), copy, nullptr, options);
  return Array(state_of(device, std::move(copy), std::move(event)));
}

std::string Array::to_string() const {
  if (!defined()) return "an array without a value";
  const std::string what = fmt::format("{} on {}", type().to_string(), device().name());
  try {
    return fmt::format("{}\n{}", what, render_array(type(), to_host().data()));
  } catch (const Error& e) {
    return fmt::format("{}: {}", what, e.what());
  }
}

}  // namespace heddle
