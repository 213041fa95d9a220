// Tensor declarations, and the refinement of memory modes by requests.
#include "jit/describe/tensor.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "heddle/status.hpp"
#include "jit/value/element.hpp"

namespace heddle {
namespace {

using enum MemoryMode;

std::string place(const std::source_location& where) {
  return fmt::format("{}:{}", where.file_name(), where.line());
}

}  // namespace

std::string_view name(MemoryMode mode) noexcept {
  switch (mode) {
    case unset:
      return "unset";
    case effectively_constant:
      return "effectively_constant";
    case virtual_:
      return "virtual";
    case never_virtual:
      return "never_virtual";
    case local:
      return "local";
    case device_only:
      return "device_only";
    case on_device:
      return "on_device";
    case materialized:
      return "materialized";
    case hosted_constant:
      return "hosted(constant)";
    case hosted_nonconstant:
      return "hosted(nonconstant)";
    case hosted_changed_on_devices:
      return "hosted(changed_on_devices)";
    case hosted_volatile:
      return "hosted(volatile)";
  }
  return "unknown";
}

namespace jit {

constinit sched::ProcessMutex wishes_mutex;

bool is_hosted(MemoryMode mode) noexcept { return mode >= hosted_constant; }

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // relaxed: pairs with no other access; the id only has to be unique.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// One row per rule, most special first.
std::optional<MemoryMode> try_refine(MemoryMode current, MemoryMode wanted) noexcept {
  if (current == wanted || wanted == unset) return current;
  if (current == unset) return wanted;
  const auto either = [&](MemoryMode a, MemoryMode b) {
    return (current == a && wanted == b) || (current == b && wanted == a);
  };
  if (either(never_virtual, virtual_)) return std::nullopt;
  if (either(never_virtual, effectively_constant)) return hosted_constant;
  if (either(materialized, effectively_constant)) return hosted_constant;
  if (either(hosted_constant, effectively_constant)) return hosted_constant;
  if (either(virtual_, effectively_constant)) return virtual_;
  if (either(device_only, materialized)) return on_device;
  if (current == hosted_nonconstant &&
      (wanted == hosted_changed_on_devices || wanted == hosted_volatile)) {
    return wanted;
  }
  if (wanted == hosted_nonconstant &&
      (current == hosted_changed_on_devices || current == hosted_volatile)) {
    return current;
  }
  // A general and a specific request give the specific mode, in either order.
  const auto specialises = [](MemoryMode general, MemoryMode specific) {
    switch (general) {
      case never_virtual:
        return specific != virtual_ && specific != effectively_constant;
      case device_only:
        return specific == local || specific == on_device;
      case materialized:
        return specific == on_device || is_hosted(specific);
      default:
        return false;
    }
  };
  if (specialises(current, wanted)) return wanted;
  if (specialises(wanted, current)) return current;
  return std::nullopt;
}

MemoryMode refine(std::string_view tensor, MemoryMode current, std::string_view current_provenance,
                  MemoryMode wanted, std::string_view wanted_provenance) {
  if (const auto mode = try_refine(current, wanted)) return *mode;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("tensor '{}' cannot be {} (asked for at {}): it is {} already (set at {}); "
                  "drop one of the two requests, or use two tensors",
                  tensor, name(wanted), wanted_provenance, name(current), current_provenance));
}

}  // namespace jit

Tensor::Tensor(std::string label, DType dtype, Dims dims) {
  jit::require_dtype(fmt::format("tensor '{}'", label), dtype);
  ArrayType type{dtype, std::move(dims)};
  for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
    if (type.dims[axis] < 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("tensor '{}': axis {} has extent {} (expected 0 or more)", label,
                              axis, type.dims[axis]));
    }
  }
  if (!type.num_bytes()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tensor '{}': {} has more bytes than 63 bits can count; use smaller extents",
                    label, type.to_string()));
  }
  state_ = std::make_shared<jit::TensorState>();
  state_->id = jit::next_id();
  state_->label = std::move(label);
  state_->type = std::move(type);
}

Tensor::Tensor(std::string label, HostArray host, MemoryMode mode, std::source_location where)
    : Tensor(std::move(label), host.type().dtype, host.type().dims) {
  set_host(std::move(host), mode, where);
}

std::uint64_t Tensor::id() const noexcept { return state_->id; }
const std::string& Tensor::label() const noexcept { return state_->label; }
const ArrayType& Tensor::type() const noexcept { return state_->type; }

const Tensor& Tensor::set_mode(MemoryMode mode, std::source_location where) const {
  const std::lock_guard lock(jit::wishes_mutex);
  const MemoryMode before = state_->mode;
  const std::string asked = place(where);
  const MemoryMode after = jit::refine(state_->label, before, state_->provenance, mode, asked);
  if (jit::is_hosted(after) && !state_->host) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "tensor '{}' cannot be {} (asked for at {}): it has no host storage; give it some "
            "with set_host()",
            state_->label, name(after), asked));
  }
  if (after != before) {
    state_->mode = after;
    state_->provenance = asked;
  }
  return *this;
}

MemoryMode Tensor::mode() const {
  const std::lock_guard lock(jit::wishes_mutex);
  return state_->mode;
}

std::string Tensor::mode_provenance() const {
  const std::lock_guard lock(jit::wishes_mutex);
  return state_->provenance;
}

const Tensor& Tensor::set_host(HostArray host, MemoryMode mode, std::source_location where) const {
  if (host.type() != state_->type) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor '{}' is {}, its host storage is {}; the types must be equal",
                            state_->label, state_->type.to_string(), host.type().to_string()));
  }
  if (!jit::is_hosted(mode)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor '{}': host storage needs a hosted mode, not {}", state_->label,
                            name(mode)));
  }
  // destroyed after the unlock, since its destruction may free much memory
  std::optional<HostArray> gone(std::move(host));
  const std::lock_guard lock(jit::wishes_mutex);
  const std::string asked = place(where);
  const MemoryMode after =
      jit::refine(state_->label, state_->mode, state_->provenance, mode, asked);
  if (after != state_->mode) {
    state_->mode = after;
    state_->provenance = asked;
  }
  state_->host.swap(gone);
  return *this;
}

std::optional<HostArray> Tensor::host() const {
  const std::lock_guard lock(jit::wishes_mutex);
  return state_->host;
}

std::string Tensor::to_string() const {
  return fmt::format("{}#{} {} {}", label(), id(), type().to_string(), name(mode()));
}

}  // namespace heddle
