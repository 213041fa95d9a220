// Linking: gives code its memory in a context.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/context_state.hpp"
#include "runtime/context/giving.hpp"
#include "runtime/context/launch.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/compiling.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/host_uses.hpp"
#include "runtime/launch/parts.hpp"
#include "runtime/launch/steps.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle {
namespace rt {
namespace {

/// Builds the child context of a link. An exception leaves nothing changed but pooled memory.
class Linker {
 public:
  Linker(const std::shared_ptr<const ContextState>& parent, const Code& code,
         const LinkOptions& options, const std::source_location& where)
      : parent_(parent),
        code_(code),
        data_(*Inside::of(code)),
        options_(options),
        where_(where),
        prior_(require_usable(*parent)),
        giving_(*parent, *prior_, code, options.donate),
        child_(std::make_shared<ContextState>()),
        contents_(std::make_shared<Contents>()) {}

  Routine run() {
    require_open(*parent_->device);
    require_well(*parent_->device, fmt::format("a link of '{}' on {}", code_.name(),
                                               parent_->device->execution->name));
    check_compiler();
    check_prior();
    check_hidden();
    child_->device = parent_->device;
    child_->parent = parent_;
    child_->label = fmt::format("{}/{}", parent_->device->execution->name, code_.name());
    contents_->held = prior_->held;
    contents_->hidden = prior_->hidden;
    child_->expected_merge = code_.merge_tensor();
    std::vector<std::optional<BufferView>> entries = place_entries();
    note_hidden();
    giving_.check(entries);
    check_overlaps(entries);
    auto scratch = parent_->device->execution->scratch.take(
        *parent_->device->execution, scratch_bytes(*parent_->device->execution, *data_.core),
        fmt::format("the scratch of routine '{}'", code_.name()));
    const std::vector<heddle_kernel_buffer> buffers = buffers_of(entries, scratch.get());
    BackendState& backend = *parent_->device->backend;
    auto linked =
        make_linked(load(backend, *parent_->device->execution, code_,
                         jit::specialise(data_, addresses(buffers), spread_over(backend.compiles))),
                    std::move(entries), parent_->device->execution);
    linked->scratch = std::move(scratch);
    linked->tables.begin(*linked, linked->scratch.get());
    linked->tables.entries() = buffers;
    linked->tables.end(*linked);
    note_accesses(*linked);
    giving_.hide(*contents_);
    contents_->routine = std::move(linked);
    child_->fill(std::move(contents_));
    sched::log_made(LogLevel::debug, [&] {
      return fmt::format("linked '{}' on {}", code_.name(), parent_->device->execution->name);
    });
    return Inside::make<Routine>(std::make_shared<const RoutineState>(RoutineState{
        code_, child_, giving_.empty() && is_small(code_, *child_->device->execution)}));
  }

 private:
  /// The code of the null compiler does nothing: on a real backend the results would silently be
  /// zeros.
  void check_compiler() const {
    if (data_.compiler->name() != "null" || parent_->device->backend->spec.compiler == "null")
      return;
    throw Error(ErrorCode::failed_precondition,
                fmt::format("routine '{}' was compiled by the null backend and cannot run on {}; "
                            "compile it with backend '{}'",
                            code_.name(), parent_->device->execution->name,
                            parent_->device->backend->spec.name));
  }

  /// Tensors listed in from_prior_context must be in the context, if the code uses them (O29).
  void check_prior() const {
    for (const Tensor& tensor : options_.from_prior_context) {
      if (!entry_of(data_, tensor)) continue;
      if (find_view(*parent_, tensor)) continue;
      throw Error(ErrorCode::not_found,
                  fmt::format("routine '{}' needs tensor '{}' from the prior context, and context "
                              "'{}' does not hold it; link the "
                              "routine that makes it first",
                              code_.name(), tensor.label(), parent_->label));
    }
  }

  /// Refuses tensors that an earlier routine computed without storing, unless this routine stores
  /// the whole tensor: the rest would hold zeros or older values.
  void check_hidden() const {
    for (std::size_t k = 0; k < data_.signature().entries.size(); ++k) {
      const jit::SignatureEntry& entry = data_.signature().entries[k];
      if (!is_stored(data_, k) || entry.overwrites_whole) continue;
      const Tensor& tensor = *data_.tensor(k);
      const auto at = prior_->hidden.find(tensor.id());
      if (at == prior_->hidden.end()) continue;
      throw Error(
          ErrorCode::failed_precondition,
          fmt::format("routine '{}' {}: {}", code_.name(),
                      entry.reads_before_writing ? "reads what the context lacks"
                                                 : "stores only a part of what the context lacks",
                      hidden_text(*parent_, tensor, at->second)));
    }
  }

  /// Hides tensors that the code assigns and keeps to itself. The memory stays known: the next
  /// routine that stores the whole tensor reuses the memory, as related contexts share one buffer.
  void note_hidden() {
    const std::vector<MemoryMode>& placements = data_.core->placements;
    for (std::size_t k = 0; k < placements.size(); ++k) {
      if (placements[k] != MemoryMode::virtual_ && placements[k] != MemoryMode::local) continue;
      const Tensor& tensor = data_.tensors[k];
      Hidden hidden{code_.name(), placements[k], {}};
      if (const auto at = contents_->held.find(tensor.id()); at != contents_->held.end()) {
        hidden.view = at->second.view;
        contents_->held.erase(at);
      } else if (const auto before = contents_->hidden.find(tensor.id());
                 before != contents_->hidden.end()) {
        hidden.view = before->second.view;
      }
      contents_->hidden.insert_or_assign(tensor.id(), std::move(hidden));
    }
  }

  /// Memory for an entry: `make` gets bytes, text and tensor id.
  template <class Make>
  BufferView make_buffer(std::size_t k, const Make& make) const {
    const ArrayType& type = data_.signature().entries[k].type;
    const Tensor* const tensor = data_.tensor(k);
    return {
        Inside::make<Buffer>(make(static_cast<std::size_t>(*type.num_bytes()),
                                  fmt::format("tensor '{}' {}", data_.label(k), type.to_string()),
                                  tensor == nullptr ? 0 : tensor->id())),
        type};
  }
  BufferView make_buffer(std::size_t k, dev::LastUses may_have = dev::LastUses::ordered) const {
    return make_buffer(k, [&](std::size_t bytes, const std::string& what, std::uint64_t tensor) {
      return allocate(*parent_->device->execution, bytes, what, tensor, may_have);
    });
  }

  void require_assignable(const Tensor& tensor, const BufferView& view) const {
    const std::string& constant = Inside::of(view.buffer())->constant;
    if (constant.empty()) return;
    throw Error(ErrorCode::failed_precondition,
                fmt::format("routine '{}' assigns tensor '{}', but context '{}' has it in the "
                            "memory of {}, whose host storage devices may be reading in place; "
                            "give it mode hosted(nonconstant) before compiling",
                            code_.name(), tensor.label(), parent_->label, constant));
  }

  /// The view of an entry's tensor in the child context, made where missing. The mode and the host
  /// storage are those of the code from here on.
  const BufferView& place(std::size_t k) {
    const Tensor& tensor = *data_.tensor(k);
    const jit::SignatureEntry& entry = data_.signature().entries[k];
    if (const auto at = contents_->held.find(tensor.id()); at != contents_->held.end()) {
      at->second.mode = entry.mode;
      at->second.host = data_.host(k);
      return checked(tensor, at->second.view);
    }
    // A hidden tensor is visible again, as this routine stores the whole tensor.
    const auto hidden = contents_->hidden.extract(tensor.id());
    const bool known = hidden && hidden.mapped().view;
    Held held{tensor, known ? *hidden.mapped().view : make_view(k), entry.mode, data_.host(k)};
    const BufferView& view =
        contents_->held.emplace(tensor.id(), std::move(held)).first->second.view;
    return known ? checked(tensor, view) : view;
  }

  const BufferView& checked(const Tensor& tensor, const BufferView& view) const {
    require_live({&view, Use::read, &tensor},
                 fmt::format("routine '{}' on {}", code_.name(), parent_->device->execution->name));
    return view;
  }

  BufferView make_view(std::size_t k) {
    const Tensor& tensor = *data_.tensor(k);
    const jit::SignatureEntry& entry = data_.signature().entries[k];
    if (const auto* const pair = giving_.to(k)) return giving_.promise(*pair);
    const std::optional<HostArray> host = data_.host(k);
    if (host && entry.mode == MemoryMode::hosted_constant) {
      BufferView view =
          host_memory()
              ? BufferView(Inside::make<Buffer>(borrow(*parent_->device->execution, *host)),
                           tensor.type())
              : upload(k, *host, true);
      BufferState& buffer = *Inside::of(view.buffer());
      buffer.constant =
          fmt::format("tensor '{}' {}", tensor.label(), name(MemoryMode::hosted_constant));
      buffer.constant_id = tensor.id();
      if (buffer.borrowed)
        note_constant(*parent_->device->execution, *host, buffer, tensor, where_);
      return view;
    }
    if (host && !entry.overwrites_whole) return upload(k, *host, false);
    return make_buffer(k, [&](std::size_t bytes, const std::string& what, std::uint64_t id) {
      return allocate_zeros(*parent_->device, bytes, what, id);
    });
  }

  bool host_memory() const {
    return parent_->device->execution->physical->properties().memory_space ==
           dev::host_memory_space;
  }

  BufferView upload(std::size_t k, const HostArray& host, bool constant) {
    // In host memory the values are written now, hence earlier uses must have ended.
    BufferView view = make_buffer(k, host_memory() ? dev::LastUses::over : dev::LastUses::ordered);
    submit_first_values(*parent_->device, view, host, *data_.tensor(k), constant, where_);
    return view;
  }

  std::vector<std::optional<BufferView>> place_entries() {
    std::vector<std::optional<BufferView>> entries;
    for (std::size_t k = 0; k < data_.signature().entries.size(); ++k) {
      const jit::SignatureEntry& entry = data_.signature().entries[k];
      if (!is_stored(data_, k)) {
        entries.emplace_back();
      } else {
        entries.emplace_back(place(k));
        if (entry.writes) require_assignable(*data_.tensor(k), *entries.back());
      }
    }
    return entries;
  }

  /// Refuses overlaps: code is compiled for separate arrays, unless its signature declares an
  /// alias.
  void check_overlaps(const std::vector<std::optional<BufferView>>& entries) const {
    const auto& signature = data_.signature().entries;
    for (std::size_t a = 0; a < entries.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (!entries[a] || !entries[b] || !(signature[a].writes || signature[b].writes)) continue;
        if (!overlap(*entries[a], *entries[b]) || giving_.pairs(a, b)) continue;
        const bool same = place_of(*entries[a]).data == place_of(*entries[b]).data &&
                          entries[a]->type() == entries[b]->type();
        if (same && (signature[a].alias_of == b || signature[b].alias_of == a)) continue;
        throw Error(
            ErrorCode::failed_precondition,
            fmt::format("routine '{}' writes tensor '{}', which shares memory with tensor '{}' in "
                        "context '{}' ({} and {}); give them separate memory",
                        code_.name(), data_.label(signature[a].writes ? a : b),
                        data_.label(signature[a].writes ? b : a), parent_->label,
                        entries[b]->to_string(), entries[a]->to_string()));
      }
    }
  }

  /// The buffers that a launch passes to its kernels.
  std::vector<heddle_kernel_buffer> buffers_of(
      const std::vector<std::optional<BufferView>>& entries, const Memory* scratch) const {
    std::vector<heddle_kernel_buffer> buffers = scratch_entries(data_, scratch);
    for (std::size_t k = 0; k < entries.size(); ++k) {
      if (entries[k]) buffers[k] = {place_of(*entries[k]).data, entries[k]->num_bytes()};
    }
    return buffers;
  }

  /// Notes the launch's accesses to memory that other tasks may use.
  void note_accesses(Linked& linked) const {
    const std::vector<jit::SignatureEntry>& entries = data_.signature().entries;
    for (std::size_t k = 0; k < linked.entries.size(); ++k) {
      const std::optional<BufferView>& view = linked.entries[k];
      if (!view || giving_.to(k) != nullptr) continue;
      const Use use = use_of(entries[k]);
      const bool only_writes = use == Use::change && !entries[k].reads_before_writing;
      Access access{&*view, use, data_.tensor(k), only_writes};
      if (entries[k].slice) access.slice = &*entries[k].slice;  // linked.code keeps the slice alive
      linked.accesses.add(giving_.told(access, k, linked));
      const BufferState& buffer = *Inside::of(view->buffer());
      const std::lock_guard lock(*buffer.ledger);
      // null: donated, and then every launch is refused
      linked.memories.push_back(buffer.expected());
    }
  }

  /// Postponed code may have addresses built in, where the device's memory is host memory (O23).
  std::vector<std::optional<std::uint64_t>> addresses(
      const std::vector<heddle_kernel_buffer>& buffers) const {
    std::vector<std::optional<std::uint64_t>> result;
    for (const heddle_kernel_buffer& buffer : buffers) {
      if (!host_memory() || buffer.bytes == 0) {
        result.emplace_back();
      } else {
        result.emplace_back(reinterpret_cast<std::uintptr_t>(buffer.data));
      }
    }
    for (const jit::Step& step : data_.core->steps) {
      const auto* const kernel = std::get_if<jit::KernelStep>(&step);
      if (kernel == nullptr) continue;
      // With several processors, the entry's address differs between processors.
      for (const jit::OwnEntry& own : kernel->own) result[kernel->entries[own.place]].reset();
    }
    return result;
  }

  std::shared_ptr<const ContextState> parent_;
  const Code& code_;
  const jit::CodeData& data_;
  const LinkOptions& options_;
  const std::source_location& where_;
  const std::shared_ptr<const Contents> prior_;  // the parent's contents
  const Giving giving_;
  std::shared_ptr<ContextState> child_;
  std::shared_ptr<Contents> contents_;  // the child's contents, until moved there
};

}  // namespace

Routine link(const std::shared_ptr<const ContextState>& context, const Code& code,
             const LinkOptions& options, const std::source_location& where) {
  return Linker(context, code, options, where).run();
}

}  // namespace rt

namespace {

/// Throws where no code uses a listed tensor, and the context does not know the tensor: the caller
/// listed a wrong tensor.
void require_known(const LinkOptions& options, const rt::ContextState& context,
                   std::span<const Code* const> codes) {
  if (options.from_prior_context.empty()) return;
  const auto prior = rt::require_usable(context);
  for (const Tensor& tensor : options.from_prior_context) {
    const bool used = std::ranges::any_of(codes, [&](const Code* code) {
      return std::ranges::find(Inside::of(*code)->tensors, tensor) !=
             Inside::of(*code)->tensors.end();
    });
    if (used || prior->held.contains(tensor.id()) || prior->hidden.contains(tensor.id())) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} uses no tensor '{}' {}, which LinkOptions::from_prior_context "
                    "lists, nor does context '{}' hold it; list the tensor that is meant, "
                    "or leave it out",
                    codes.size() == 1 ? fmt::format("routine '{}'", codes[0]->name()) : "the batch",
                    tensor.label(), tensor.type().to_string(), context.label));
  }
}

}  // namespace

Routine Context::link(const Code& code, const LinkOptions& options,
                      std::source_location where) const {
  const Code* const codes[] = {&code};
  require_known(options, *state_, codes);
  return rt::link(state_, code, options, where);
}

Routine Context::link(const PendingCode& code, const LinkOptions& options,
                      std::source_location where) const {
  return link(code.get(), options, where);
}

const std::optional<Routine>& RoutineBatch::operator[](std::size_t k) const {
  if (k < routines_.size()) return routines_[k];
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a routine batch has no position {} (expected below {})", k, size()));
}

RoutineBatch Context::link_batch(const CodeBatch& batch, const LinkOptions& options,
                                 std::source_location where) const {
  if (!options.donate.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "LinkOptions::donate is what one routine takes; link that by itself");
  }
  std::vector<const Code*> codes;
  for (const std::optional<Code>& code : batch) {
    if (code) codes.push_back(&*code);
  }
  require_known(options, *state_, codes);
  std::vector<std::optional<Routine>> routines;
  std::shared_ptr<const rt::ContextState> at = state_;
  for (const std::optional<Code>& code : batch) {
    if (!code) {
      routines.emplace_back();
      continue;
    }
    routines.emplace_back(rt::link(at, *code, options, where));
    at = Inside::of(*routines.back())->context;
  }
  if (at == state_) return {std::move(routines), *this};
  auto same = std::make_shared<rt::Contents>(*rt::require_usable(*at));
  same->routine = nullptr;
  return {std::move(routines),
          Inside::make<Context>(rt::child_of(at, std::move(same), state_->expected_merge))};
}

}  // namespace heddle
