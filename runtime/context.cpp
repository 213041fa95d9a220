// Contexts: what they hold, and moving values between host and device.
#include <fmt/format.h>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "runtime/context_state.hpp"

namespace heddle {
namespace rt {

ContextState::~ContextState() {
  // The outermost destructor of this thread; those of ancestors leave their parent to it. One at a
  // time is pending.
  thread_local std::shared_ptr<const ContextState>* outermost = nullptr;
  if (outermost != nullptr) {
    *outermost = std::move(parent);
    return;
  }
  std::shared_ptr<const ContextState> pending = std::move(parent);
  outermost = &pending;
  while (pending) {
    const std::shared_ptr<const ContextState> ending = std::move(pending);
    pending = nullptr;
    static_cast<void>(ending);  // its destructor may set `pending`
  }
  outermost = nullptr;
}

void require_usable(const ContextState& context) {
  // acquire: pairs with the release in Context::finalize().
  if (!context.finalized.load(std::memory_order_acquire)) return;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("context '{}' was finalised; link into another", context.label));
}

std::string hidden_text(const ContextState& context, const Tensor& tensor, const Hidden& hidden) {
  return fmt::format(
      "tensor '{}' is {} in routine '{}', which assigns it, so context '{}' does not hold its "
      "values; ask for them with set_mode(MemoryMode::on_device) before compiling '{}'",
      tensor.label(), name(hidden.mode), hidden.routine, context.label, hidden.routine);
}

const Held* find_held(const ContextState& context, const Tensor& tensor) {
  require_usable(context);
  if (const auto at = context.held.find(tensor.id()); at != context.held.end()) return &at->second;
  if (const auto at = context.hidden.find(tensor.id()); at != context.hidden.end())
    throw Error(ErrorCode::failed_precondition, hidden_text(context, tensor, at->second));
  return nullptr;
}

}  // namespace rt

namespace {

const rt::Held& require_held(const rt::ContextState& context, const Tensor& tensor) {
  if (const rt::Held* const held = rt::find_held(context, tensor)) return *held;
  throw Error(
      ErrorCode::not_found,
      fmt::format(
          "tensor '{}' is not in context '{}' on {}; link code that uses it, or add it with "
          "Context::with",
          tensor.label(), context.label, context.device->execution->name));
}

}  // namespace

std::string_view name(TransferOutcome outcome) noexcept {
  switch (outcome) {
    case TransferOutcome::scheduled:
      return "scheduled";
    case TransferOutcome::nothing_to_do:
      return "nothing_to_do";
    case TransferOutcome::in_place:
      return "in_place";
    case TransferOutcome::copied:
      return "copied";
    case TransferOutcome::streamed:
      return "streamed";
  }
  return "unknown";
}

Context::Context(const Device& device) {
  auto state = std::make_shared<rt::ContextState>();
  state->device = device.state();
  state->label = device.name();
  state_ = std::move(state);
}

Device Context::device() const { return Device(state_->device); }
const std::string& Context::label() const noexcept { return state_->label; }

std::optional<Context> Context::parent() const {
  if (!state_->parent) return std::nullopt;
  return Context(state_->parent);
}

bool Context::contains(const Tensor& tensor) const { return state_->held.contains(tensor.id()); }

std::vector<Tensor> Context::tensors() const {
  std::vector<Tensor> result;
  for (const auto& [id, held] : state_->held) result.push_back(held.tensor);
  return result;
}

std::size_t Context::num_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [id, held] : state_->held) bytes += held.view.num_bytes();
  return bytes;
}

BufferView Context::view(const Tensor& tensor) const { return require_held(*state_, tensor).view; }

Context Context::with(const Tensor& tensor, const BufferView& view) const {
  const bool held = rt::find_held(*state_, tensor) != nullptr;
  if (view.type() != tensor.type()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor '{}' {} cannot be put into a {}; the types must be equal",
                            tensor.label(), tensor.type().to_string(), view.to_string()));
  }
  rt::require_reach(view, *state_->device->execution);
  if (held) {
    throw Error(
        ErrorCode::failed_precondition,
        fmt::format(
            "tensor '{}' is in context '{}' already; related contexts use one buffer for it",
            tensor.label(), label()));
  }
  auto child = std::make_shared<rt::ContextState>();
  child->device = state_->device;
  child->parent = state_;
  child->label = state_->label;
  child->held = state_->held;
  child->hidden = state_->hidden;
  child->expected_merge = state_->expected_merge;
  child->held.emplace(tensor.id(), rt::Held{tensor, view});
  return Context(std::move(child));
}

std::optional<Tensor> Context::expected_merge_tensor() const { return state_->expected_merge; }

namespace {

using SubmitHostTransfer = Event (*)(const sched::Device&, const std::shared_ptr<rt::Execution>&,
                                     const BufferView&, rt::HostMemory,
                                     const sched::SubmitOptions&);

/// The common rule of from_host and to_host (O39, O40).
Transfer host_transfer(const rt::ContextState& context, const Tensor& tensor,
                       const TransferOptions& options, std::string_view what,
                       SubmitHostTransfer submit) {
  const rt::Held* const held = rt::find_held(context, tensor);
  const auto host = tensor.host();
  if (held == nullptr || !host) {
    return {TransferOutcome::nothing_to_do,
            {},
            held == nullptr
                ? fmt::format("tensor '{}' is not in context '{}'", tensor.label(), context.label)
                : fmt::format("tensor '{}' has no host storage", tensor.label())};
  }
  const BufferView& view = held->view;
  if (view.buffer().state()->host)
    return {TransferOutcome::in_place, {}, "the device uses the host memory itself"};
  log(LogLevel::debug,
      fmt::format("{} '{}' on {}", what, tensor.label(), context.device->execution->name));
  sched::SubmitOptions after;
  after.after = options.after;
  Event event =
      submit(*context.device->timeline, context.device->execution, view,
             {host->data(), host->num_bytes(), std::make_shared<const HostArray>(*host)}, after);
  return {TransferOutcome::scheduled, std::move(event), {}};
}

}  // namespace

Transfer Context::from_host(const Tensor& tensor, const TransferOptions& options) const {
  return host_transfer(*state_, tensor, options, "from_host", &rt::submit_from_host);
}

Transfer Context::to_host(const Tensor& tensor, const TransferOptions& options) const {
  return host_transfer(*state_, tensor, options, "to_host", &rt::submit_to_host);
}

namespace {

void require_access(const Tensor& tensor, DType dtype, std::size_t count) {
  if (dtype == tensor.dtype() && count == static_cast<std::size_t>(tensor.num_elements())) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("tensor '{}' is {} ({} elements), the host side is {} elements of {}",
                          tensor.label(), tensor.type().to_string(), tensor.num_elements(), count,
                          name(dtype)));
}

}  // namespace

void Context::write_bytes(const Tensor& tensor, DType dtype, std::span<const std::byte> bytes,
                          std::size_t count) const {
  const BufferView target = view(tensor);
  require_access(tensor, dtype, count);
  throw_if_failed(target.from_host(device(), bytes).wait());
}

void Context::read_bytes(const Tensor& tensor, DType dtype, std::span<std::byte> bytes) const {
  const BufferView source = view(tensor);
  require_access(tensor, dtype, bytes.size() / size_of(dtype));
  throw_if_failed(source.to_host(device(), bytes).wait());
}

void Context::require_readable(const Tensor& tensor, DType dtype) const {
  static_cast<void>(view(tensor));
  require_access(tensor, dtype, static_cast<std::size_t>(tensor.num_elements()));
}

void Context::finalize() const noexcept {
  // release: pairs with the acquire in require_usable().
  state_->finalized.store(true, std::memory_order_release);
}

std::string Context::to_string() const {
  return fmt::format("context {} on {}: {} tensors, {} bytes", label(),
                     state_->device->execution->name, state_->held.size(), num_bytes());
}

}  // namespace heddle
