// Contexts: their contents, and transfers between host and device.
#include <fmt/format.h>

#include <cstring>

#include "heddle/status.hpp"
#include "jit/describe/wishes.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/context_state.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/inherited_uses.hpp"
#include "runtime/device/route.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle {
namespace rt {

ContextState::~ContextState() {
  // The pending parent of this thread's outermost destructor. Destructors of ancestors move their
  // parent there; at most one is pending at a time.
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

std::shared_ptr<const Contents> ContextState::contents() const noexcept {
  const auto lock = mutex_.lock_or_fork();
  return lock ? contents_ : nullptr;
}

std::shared_ptr<const Linked> ContextState::routine() const noexcept {
  const auto lock = mutex_.lock_or_fork();
  return lock && contents_ ? contents_->routine : nullptr;
}

void ContextState::finalize() const noexcept {
  // destroyed after the unlock: many objects may be destroyed with the contents
  std::shared_ptr<const Contents> gone;
  const auto lock = mutex_.lock_or_fork();
  if (!lock) return;
  const std::lock_guard launches(*device->execution->ledger);
  gone.swap(contents_);
}

std::shared_ptr<Linked> make_linked(Loaded loaded, std::vector<std::optional<BufferView>> entries,
                                    std::shared_ptr<Execution> execution) {
  struct LetGo {
    void operator()(Linked* linked) const noexcept {
      linked->accesses.clear();
      linked->entries.clear();
      if (is_torn(*linked->execution->ledger, linked->launches)) return;
      if (linked->launches.let_go()) delete linked;
    }
  };
  const auto label = sched::Label::intern(loaded.code.name());
  std::shared_ptr<Linked> linked(
      new Linked{std::move(loaded), std::move(entries), std::move(execution), label}, LetGo());
  linked->accesses.add(*linked->execution->ledger);
  return linked;
}

std::shared_ptr<ContextState> child_of(const std::shared_ptr<const ContextState>& parent,
                                       std::shared_ptr<const Contents> contents,
                                       std::optional<Tensor> expected_merge) {
  auto child = std::make_shared<ContextState>();
  child->device = parent->device;
  child->parent = parent;
  child->label = parent->label;
  child->expected_merge = std::move(expected_merge);
  child->fill(std::move(contents));
  return child;
}

void ContextState::refuse_finalised() const {
  throw_if_failed(device->backend->fork_status());
  throw Error(ErrorCode::failed_precondition,
              fmt::format("context '{}' was finalised; link into another", label));
}

std::shared_ptr<const Contents> require_usable(const ContextState& context) {
  auto contents = context.contents();
  if (!contents) context.refuse_finalised();
  return contents;
}

std::string hidden_text(const ContextState& context, const Tensor& tensor, const Hidden& hidden) {
  if (!hidden.taker.empty()) {
    return fmt::format(
        "tensor '{}' gives its memory to tensor '{}' in routine '{}', so context '{}' does not "
        "hold it; use it in the contexts before, until '{}' is scheduled",
        tensor.label(), hidden.taker, hidden.routine, context.label, hidden.routine);
  }
  return fmt::format(
      "tensor '{}' is {} in routine '{}', which assigns it, so context '{}' does not hold its "
      "values; ask for them with set_mode(MemoryMode::on_device) before compiling '{}'",
      tensor.label(), name(hidden.mode), hidden.routine, context.label, hidden.routine);
}

namespace {

/// Null: `contents`, the contents of `context`, have no entry for the tensor.
const Held* look_up(const Contents& contents, const ContextState& context, const Tensor& tensor) {
  if (const auto at = contents.held.find(tensor.id()); at != contents.held.end())
    return &at->second;
  if (const auto at = contents.hidden.find(tensor.id()); at != contents.hidden.end())
    throw Error(ErrorCode::failed_precondition, hidden_text(context, tensor, at->second));
  return nullptr;
}

}  // namespace

std::optional<Held> find_held(const ContextState& context, const Tensor& tensor) {
  const auto contents = require_usable(context);
  const Held* const held = look_up(*contents, context, tensor);
  return held == nullptr ? std::nullopt : std::optional(*held);
}

std::shared_ptr<const BufferView> find_view(const ContextState& context, const Tensor& tensor) {
  auto contents = require_usable(context);
  const Held* const held = look_up(*contents, context, tensor);
  if (held == nullptr) return nullptr;
  return {std::move(contents), &held->view};
}

}  // namespace rt

namespace {

BufferView require_held(const rt::ContextState& context, const Tensor& tensor) {
  if (const auto view = rt::find_view(context, tensor)) return *view;
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
  state->device = Inside::of(device);
  state->label = device.name();
  state->fill(std::make_shared<const rt::Contents>());
  state_ = std::move(state);
}

Device Context::device() const { return Inside::make<Device>(state_->device); }
const std::string& Context::label() const noexcept { return state_->label; }

std::optional<Context> Context::parent() const {
  if (!state_->parent) return std::nullopt;
  return Inside::make<Context>(state_->parent);
}

bool Context::contains(const Tensor& tensor) const {
  const auto contents = state_->contents();
  return contents && contents->held.contains(tensor.id());
}

std::vector<Tensor> Context::tensors() const {
  std::vector<Tensor> result;
  if (const auto contents = state_->contents()) {
    for (const auto& [id, held] : contents->held) result.push_back(held.tensor);
  }
  return result;
}

std::size_t Context::num_bytes() const {
  std::size_t bytes = 0;
  if (const auto contents = state_->contents()) {
    for (const auto& [id, held] : contents->held) bytes += held.view.num_bytes();
  }
  return bytes;
}

BufferView Context::view(const Tensor& tensor) const { return require_held(*state_, tensor); }

Context Context::with(const Tensor& tensor, const BufferView& view) const {
  rt::require_open(*state_->device);
  const bool held = rt::find_view(*state_, tensor) != nullptr;
  if (view.type() != tensor.type()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor '{}' {} cannot be put into a {}; the types must be equal",
                            tensor.label(), tensor.type().to_string(), view.to_string()));
  }
  rt::require_reach(view, *state_->device->execution);
  rt::require_live({&view, rt::Use::read, &tensor}, fmt::format("context '{}'", label()));
  if (held) {
    throw Error(
        ErrorCode::failed_precondition,
        fmt::format(
            "tensor '{}' is in context '{}' already, and related contexts use one buffer for it; "
            "for another begin with Context(device), put its tensors in by with(), and link again",
            tensor.label(), label()));
  }
  auto more = std::make_shared<rt::Contents>(*rt::require_usable(*state_));
  more->routine = nullptr;
  jit::Wish wish = jit::wish_of(tensor);
  more->held.emplace(tensor.id(), rt::Held{tensor, view, wish.mode, std::move(wish.host)});
  auto child = rt::child_of(state_, std::move(more), state_->expected_merge);
  return Inside::make<Context>(std::move(child));
}

std::optional<Tensor> Context::expected_merge_tensor() const { return state_->expected_merge; }

namespace {

enum class HostTransfer : std::uint8_t { from_host, to_host };

/// Refuses changes of constants, as devices may be reading the host storage in place. The host
/// storage of a constant may be uploaded again to the constant's own copy.
void require_unchanged_constants(const rt::Held& held, HostTransfer what) {
  const Tensor& tensor = held.tensor;
  if (what == HostTransfer::from_host) {
    const rt::BufferState& buffer = *Inside::of(held.view.buffer());
    if (buffer.borrowed || buffer.constant_id != tensor.id()) rt::require_writable(held.view);
  } else if (held.mode == MemoryMode::hosted_constant) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("the host storage of tensor '{}' {} cannot be written: devices may be "
                            "reading it in place; give it mode hosted(nonconstant) to change it",
                            tensor.label(), name(MemoryMode::hosted_constant)));
  }
}

/// The common rules of from_host and to_host (O39, O40).
Transfer host_transfer(const rt::ContextState& context, const Tensor& tensor,
                       const TransferOptions& options, const std::source_location& where,
                       HostTransfer what) {
  const std::string_view verb = what == HostTransfer::from_host ? "from_host" : "to_host";
  rt::require_open(*context.device);
  const auto held = rt::find_held(context, tensor);
  if (!held || !held->host) {
    return {TransferOutcome::nothing_to_do,
            {},
            !held ? fmt::format("tensor '{}' is not in context '{}'", tensor.label(), context.label)
                  : fmt::format("tensor '{}' has no host storage", tensor.label())};
  }
  const BufferView& view = held->view;
  const HostArray& host = *held->host;
  rt::require_live({&view, rt::Use::read, &tensor},
                   fmt::format("{} on {}", verb, context.device->execution->name));
  if (Inside::of(view.buffer())->borrowed && rt::place_of(view).data == host.data())
    return {TransferOutcome::in_place, {}, "the device uses the host memory itself"};
  require_unchanged_constants(*held, what);
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("{} '{}' on {}", verb, tensor.label(), context.device->execution->name);
  });
  const auto submit = what == HostTransfer::from_host ? &rt::submit_from_host : &rt::submit_to_host;
  Event event = submit(*context.device, view,
                       {host.data(), host.num_bytes(), std::make_shared<const HostArray>(host)},
                       &tensor, rt::submit_options(options, where));
  return {TransferOutcome::scheduled, std::move(event), {}};
}

}  // namespace

Transfer Context::from_host(const Tensor& tensor, const TransferOptions& options,
                            std::source_location where) const {
  return host_transfer(*state_, tensor, options, where, HostTransfer::from_host);
}

Transfer Context::to_host(const Tensor& tensor, const TransferOptions& options,
                          std::source_location where) const {
  return host_transfer(*state_, tensor, options, where, HostTransfer::to_host);
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

namespace {

/// Host memory for a transfer for which the caller waits. The wait of a task may end before the
/// transfer: a task therefore gets separate memory, which the transfer keeps alive.
rt::HostMemory waited_for(const rt::DeviceState& device, const Tensor& tensor, void* data,
                          std::size_t bytes) {
  constexpr std::uint64_t any_ticket = ~std::uint64_t{0};
  if (sched::waits_for_itself(device.timeline->id(), any_ticket)) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("task '{}' of {} would wait for a transfer of tensor '{}' on that "
                            "device, which can only run after it; use to_host() or from_host(), "
                            "which do not wait",
                            this_task::label(), device.execution->name, tensor.label()));
  }
  if (sched::TellsEnds::in_callback()) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("a callback would wait for a transfer of tensor '{}' on the thread "
                            "that tells the ends of a completion domain, and hold all of them up; "
                            "use to_host() or from_host(), which do not wait, or have it called by "
                            "an executor: Event::then(executor, callback)",
                            tensor.label()));
  }
  if (!this_task::running()) return {data, bytes, nullptr};
  auto own = std::make_shared<const HostArray>(tensor.type());
  return {own->data(), bytes, own};
}

/// Copies between the caller's memory and the transfer's memory.
void move_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

void Context::write_bytes(const Tensor& tensor, DType dtype, std::span<const std::byte> bytes,
                          std::size_t count, const std::source_location& where) const {
  const BufferView target = view(tensor);
  require_access(tensor, dtype, count);
  rt::require_writable(target);
  // The cast is safe: from_host tasks only read the host memory.
  auto* const data = const_cast<std::byte*>(bytes.data());
  const rt::HostMemory host = waited_for(*state_->device, tensor, data, bytes.size());
  move_bytes(host.data, data, bytes.size());
  const rt::SubmitOptions options = rt::without_events(where);
  throw_if_failed(rt::submit_from_host(*state_->device, target, host, &tensor, options).wait());
}

void Context::read_bytes(const Tensor& tensor, std::span<std::byte> bytes,
                         const std::source_location& where) const {
  const BufferView source = view(tensor);
  const rt::HostMemory host = waited_for(*state_->device, tensor, bytes.data(), bytes.size());
  const rt::SubmitOptions options = rt::without_events(where);
  throw_if_failed(rt::submit_to_host(*state_->device, source, host, &tensor, options).wait());
  move_bytes(bytes.data(), host.data, bytes.size());
}

void Context::require_readable(const Tensor& tensor, DType dtype) const {
  static_cast<void>(view(tensor));
  require_access(tensor, dtype, static_cast<std::size_t>(tensor.num_elements()));
}

void Context::finalize() const noexcept { state_->finalize(); }

std::string Context::to_string() const {
  return fmt::format("context {} on {}: {} tensors, {} bytes", label(),
                     state_->device->execution->name, tensors().size(), num_bytes());
}

}  // namespace heddle
