// Linking: giving code its memory in a context.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "runtime/backend_state.hpp"
#include "runtime/context_state.hpp"

namespace heddle {
namespace rt {
namespace {

/// Building the child context of a link. On any throw nothing has changed but pooled memory.
class Linker {
 public:
  Linker(const std::shared_ptr<const ContextState>& parent, const Code& code,
         const LinkOptions& options)
      : parent_(parent),
        code_(code),
        data_(code.data()),
        options_(options),
        child_(std::make_shared<ContextState>()) {}

  Routine run() {
    require_usable(*parent_);
    if (Status status = parent_->device->timeline->status(); !status.ok()) throw Error(status);
    check_compiler();
    check_prior();
    check_hidden();
    child_->device = parent_->device;
    child_->parent = parent_;
    child_->label = fmt::format("{}/{}", parent_->device->execution->name, code_.name());
    child_->held = parent_->held;
    child_->hidden = parent_->hidden;
    child_->expected_merge = code_.merge_tensor();
    std::vector<std::optional<BufferView>> entries = place_entries();
    note_hidden();
    jit::KernelStep step = jit::specialise(data_, addresses(entries));
    for (const auto& buffer : fresh_) zero_fill(*parent_->device, buffer);
    auto linked = std::make_shared<const Linked>(Linked{code_, std::move(step), std::move(entries),
                                                        parent_->device->execution,
                                                        sched::Label::intern(code_.name())});
    log(LogLevel::debug,
        fmt::format("linked '{}' on {}", code_.name(), parent_->device->execution->name));
    return Routine(std::make_shared<const RoutineState>(RoutineState{std::move(linked), child_}));
  }

 private:
  bool stored(std::size_t entry) const {
    const jit::Role role = data_.signature.entries[entry].role;
    return role != jit::Role::merge && role != jit::Role::scratch;
  }

  /// What the null compiler makes does nothing: elsewhere its results would silently be zeros.
  void check_compiler() const {
    if (data_.compiler->name() != "null" || parent_->device->backend->spec.compiler == "null")
      return;
    throw Error(ErrorCode::failed_precondition,
                fmt::format("routine '{}' was compiled by the null backend and cannot run on {}; "
                            "compile it with backend '{}'",
                            code_.name(), parent_->device->execution->name,
                            parent_->device->backend->spec.name));
  }

  /// Listed tensors that the code uses must be there (O29).
  void check_prior() const {
    for (const Tensor& tensor : options_.from_prior_context) {
      const auto& tensors = data_.lowered.tensors;
      const auto at = std::ranges::find(tensors, tensor);
      if (at == tensors.end() || !stored(static_cast<std::size_t>(at - tensors.begin()))) continue;
      if (find_held(*parent_, tensor) != nullptr) continue;
      throw Error(ErrorCode::not_found,
                  fmt::format("routine '{}' needs tensor '{}' from the prior context, and context "
                              "'{}' does not hold it; link the "
                              "routine that makes it first",
                              code_.name(), tensor.label(), parent_->label));
    }
  }

  /// Of what an earlier routine computed but did not keep, anything that this one does not store
  /// itself would be zeros or values from before.
  void check_hidden() const {
    for (std::size_t k = 0; k < data_.signature.entries.size(); ++k) {
      const Tensor& tensor = data_.lowered.tensors[k];
      const jit::SignatureEntry& entry = data_.signature.entries[k];
      if (!stored(k) || entry.overwrites_whole) continue;
      const auto at = parent_->hidden.find(tensor.id());
      if (at == parent_->hidden.end()) continue;
      throw Error(
          ErrorCode::failed_precondition,
          fmt::format("routine '{}' {}: {}", code_.name(),
                      entry.reads_before_writing ? "reads what the context lacks"
                                                 : "stores only a part of what the context lacks",
                      hidden_text(*parent_, tensor, at->second)));
    }
  }

  /// What the code assigns and keeps to itself is hidden in the child. Its memory stays known: who
  /// stores it whole next uses that again, as related contexts share one buffer.
  void note_hidden() {
    for (const auto& [tensor, placement] : data_.lowered.placements) {
      if (placement.mode != MemoryMode::virtual_ && placement.mode != MemoryMode::local) continue;
      Hidden hidden{code_.name(), placement.mode, {}};
      if (const auto at = child_->held.find(tensor.id()); at != child_->held.end()) {
        hidden.view = at->second.view;
        child_->held.erase(at);
      } else if (const auto before = child_->hidden.find(tensor.id());
                 before != child_->hidden.end()) {
        hidden.view = before->second.view;
      }
      child_->hidden.insert_or_assign(tensor.id(), std::move(hidden));
    }
  }

  /// Visible again, where an earlier routine hid it: this one stores it whole.
  std::optional<BufferView> unhide(const Tensor& tensor) {
    const auto at = child_->hidden.find(tensor.id());
    if (at == child_->hidden.end()) return std::nullopt;
    std::optional<BufferView> view = std::move(at->second.view);
    child_->hidden.erase(at);
    return view;
  }

  std::shared_ptr<BufferState> make_buffer(const Tensor& tensor, bool overwritten) {
    auto buffer = allocate(
        *parent_->device->execution, static_cast<std::size_t>(tensor.num_bytes()),
        fmt::format("tensor '{}' {}", tensor.label(), tensor.type().to_string()), tensor.id());
    if (!overwritten) fresh_.push_back(buffer);
    return buffer;
  }

  void require_assignable(const Tensor& tensor, const BufferView& view) const {
    const std::string& constant = view.buffer().state()->constant;
    if (constant.empty()) return;
    throw Error(ErrorCode::failed_precondition,
                fmt::format("routine '{}' assigns tensor '{}', but context '{}' has it in the "
                            "memory of {}, whose host storage devices may be reading in place; "
                            "give it mode hosted(nonconstant) before compiling",
                            code_.name(), tensor.label(), parent_->label, constant));
  }

  MemoryMode mode_of(const Tensor& tensor) const {
    return code_.placement(tensor).value_or(tensor.mode());
  }

  /// The tensor's view in the child context, made when it is new.
  const BufferView& place(const Tensor& tensor, bool overwritten) {
    if (const auto at = child_->held.find(tensor.id()); at != child_->held.end())
      return at->second.view;
    if (auto view = unhide(tensor))
      return child_->held.emplace(tensor.id(), Held{tensor, *std::move(view)}).first->second.view;
    const bool host_memory =
        parent_->device->execution->physical->properties().memory_space == dev::host_memory_space;
    const auto host = tensor.host();
    std::shared_ptr<BufferState> buffer;
    if (host && mode_of(tensor) == MemoryMode::hosted_constant) {
      buffer = host_memory ? borrow(*host) : upload(tensor, *host);
      buffer->constant =
          fmt::format("tensor '{}' {}", tensor.label(), name(MemoryMode::hosted_constant));
    } else if (host && !overwritten) {
      buffer = host_memory ? copied(tensor, *host) : upload(tensor, snapshot(*host));
    } else {
      buffer = make_buffer(tensor, overwritten);
    }
    const auto at = child_->held
                        .emplace(tensor.id(),
                                 Held{tensor, BufferView(Buffer(std::move(buffer)), tensor.type())})
                        .first;
    return at->second.view;
  }

  std::shared_ptr<BufferState> borrow(const HostArray& host) const {
    auto buffer = std::make_shared<BufferState>();
    buffer->physical = parent_->device->execution->physical;
    buffer->host = host;
    buffer->data = host.data();
    buffer->bytes = host.num_bytes();
    return buffer;
  }

  static HostArray snapshot(const HostArray& host) {
    HostArray values(host.type());
    if (host.num_bytes() > 0) std::memcpy(values.data(), host.data(), host.num_bytes());
    return values;
  }

  /// Values as they are now, at no device's pace: nobody else knows this memory yet.
  std::shared_ptr<BufferState> copied(const Tensor& tensor, const HostArray& host) {
    auto buffer = make_buffer(tensor, true);
    if (host.num_bytes() > 0) std::memcpy(buffer->data, host.data(), host.num_bytes());
    return buffer;
  }

  std::shared_ptr<BufferState> upload(const Tensor& tensor, const HostArray& host) {
    auto buffer = make_buffer(tensor, true);
    submit_from_host(*parent_->device->timeline, parent_->device->execution,
                     BufferView(Buffer(buffer), host.type()),
                     {host.data(), host.num_bytes(), std::make_shared<const HostArray>(host)});
    return buffer;
  }

  std::vector<std::optional<BufferView>> place_entries() {
    std::vector<std::optional<BufferView>> entries;
    for (std::size_t k = 0; k < data_.signature.entries.size(); ++k) {
      const jit::SignatureEntry& entry = data_.signature.entries[k];
      const Tensor& tensor = data_.lowered.tensors[k];
      if (entry.role == jit::Role::merge) {
        entries.emplace_back();
      } else if (entry.role == jit::Role::scratch) {
        entries.emplace_back(
            BufferView(Buffer(make_buffer(tensor, entry.overwrites_whole)), tensor.type()));
      } else {
        entries.emplace_back(place(tensor, entry.overwrites_whole));
        if (entry.writes) require_assignable(tensor, *entries.back());
      }
    }
    return entries;
  }

  /// Postponed code may have its addresses built in, where the device's memory is the host's (O23).
  std::vector<std::optional<std::uint64_t>> addresses(
      const std::vector<std::optional<BufferView>>& entries) const {
    const bool host_memory =
        parent_->device->execution->physical->properties().memory_space == dev::host_memory_space;
    std::vector<std::optional<std::uint64_t>> result;
    for (const auto& view : entries) {
      if (!view || !host_memory || view->num_bytes() == 0) {
        result.emplace_back();
      } else {
        result.emplace_back(reinterpret_cast<std::uintptr_t>(view->buffer().state()->address()) +
                            view->offset());
      }
    }
    return result;
  }

  std::shared_ptr<const ContextState> parent_;
  const Code& code_;
  const jit::CodeData& data_;
  const LinkOptions& options_;
  std::shared_ptr<ContextState> child_;
  std::vector<std::shared_ptr<BufferState>> fresh_;  // to be zero-filled
};

}  // namespace

Routine link(const std::shared_ptr<const ContextState>& context, const Code& code,
             const LinkOptions& options) {
  return Linker(context, code, options).run();
}

}  // namespace rt

Routine Context::link(const Code& code, const LinkOptions& options) const {
  return rt::link(state_, code, options);
}

Routine Context::link(const PendingCode& code, const LinkOptions& options) const {
  return link(code.get(), options);
}

std::vector<std::optional<Routine>> Context::link_batch(const CodeBatch& batch,
                                                        const LinkOptions& options) const {
  std::vector<std::optional<Routine>> routines;
  std::shared_ptr<const rt::ContextState> at = state_;
  for (const std::optional<Code>& code : batch) {
    if (!code) {
      routines.emplace_back();
      continue;
    }
    routines.emplace_back(rt::link(at, *code, options));
    at = routines.back()->state()->context;
  }
  return routines;
}

}  // namespace heddle
