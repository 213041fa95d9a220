// See runtime/context/giving.hpp.
#include "runtime/context/giving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/launch/loaded.hpp"
#include "runtime/launch/taker_search.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle::rt {

Giving::Giving(const ContextState& context, const Contents& prior, const Code& code,
               const std::vector<Tensor>& donate)
    : code_(code) {
  if (donate.empty()) return;
  const jit::CodeData& data = *Inside::of(code);
  const jit::Signature& signature = data.signature();
  for (const Tensor& tensor : donate) {
    const std::optional<std::size_t> giver = entry_of(data, tensor);
    if (!giver) refuse(ErrorCode::invalid_argument, tensor, "it does not use it");
    if (from(*giver) != nullptr) refuse(ErrorCode::invalid_argument, tensor, "it is donated twice");
    const std::shared_ptr<const BufferView> view = find_view(context, tensor);
    if (!view) {
      refuse(ErrorCode::not_found, tensor,
             fmt::format("context '{}' does not hold it", context.label));
    }
    require_live({view.get(), Use::read, &tensor},
                 fmt::format("routine '{}' on {}", code.name(), context.device->execution->name));
    if (view->num_bytes() == 0) continue;  // no bytes to donate
    require_donatable(tensor, *view);
    // From the first entry on: a link refuses a donor without taker, and the circle would pass over
    // takers that later donors need.
    const auto taker = TakerSearch().next(signature.entries.size(), [&](std::size_t candidate) {
      return is_new(prior, candidate) && signature.may_take(candidate, *giver);
    });
    if (!taker) {
      refuse(ErrorCode::failed_precondition, tensor,
             fmt::format("no tensor {} that it makes is new to the context, written whole, and "
                         "known to be written in no element before that of '{}' was read",
                         tensor.type().to_string(), tensor.label()));
    }
    pairs_.push_back({*giver, *taker, *view});
  }
}

const Giving::Pair* Giving::from(std::size_t entry) const noexcept {
  const auto at = std::ranges::find(pairs_, entry, &Pair::from);
  return at == pairs_.end() ? nullptr : &*at;
}

const Giving::Pair* Giving::to(std::size_t entry) const noexcept {
  const auto at = std::ranges::find(pairs_, entry, &Pair::to);
  return at == pairs_.end() ? nullptr : &*at;
}

BufferView Giving::promise(const Pair& pair) const {
  const jit::CodeData& data = *Inside::of(code_);
  auto promised = std::make_shared<BufferState>(
      Inside::of(pair.view.buffer()),
      fmt::format("has none until routine '{}' is scheduled, which gives it that of tensor '{}'; "
                  "schedule that first",
                  code_.name(), data.label(pair.from)));
  return {Inside::make<Buffer>(std::move(promised)), pair.view.type()};
}

bool Giving::pairs(std::size_t a, std::size_t b) const noexcept {
  const Pair* const pair = from(a) != nullptr ? from(a) : from(b);
  return pair != nullptr && pair->from + pair->to == a + b;
}

Access Giving::told(Access access, std::size_t entry, const Linked& linked) const {
  if (const Pair* const pair = from(entry)) {
    access.use = Use::change;  // the taker overwrites the whole memory
    access.slice = nullptr;
    access.taker = Inside::of(linked.entries[pair->to]->buffer()).get();
    access.taker_tensor = Inside::of(code_)->tensor(pair->to);
  }
  return access;
}

void Giving::check(const std::vector<std::optional<BufferView>>& entries) const {
  const jit::CodeData& data = *Inside::of(code_);
  for (const Pair& pair : pairs_) {
    for (std::size_t k = 0; k < entries.size(); ++k) {
      if (k == pair.from || k == pair.to || !entries[k] || !overlap(*entries[k], pair.view))
        continue;
      refuse(ErrorCode::failed_precondition, *data.tensor(pair.from),
             fmt::format("it uses that for tensor '{}', too; give them separate memory",
                         data.label(k)));
    }
  }
}

void Giving::hide(Contents& contents) const {
  const jit::CodeData& data = *Inside::of(code_);
  for (const Pair& pair : pairs_) {
    const std::uint64_t id = data.tensor(pair.from)->id();
    const auto held = contents.held.extract(id);
    contents.hidden.insert_or_assign(
        id, Hidden{code_.name(), held.mapped().mode, {}, std::string(data.label(pair.to))});
  }
}

/// Tells whether the link gives the entry new memory, or memory of a donor.
bool Giving::is_new(const Contents& prior, std::size_t entry) const {
  const jit::CodeData& data = *Inside::of(code_);
  if (!is_stored(data, entry) || to(entry) != nullptr) return false;
  const std::uint64_t id = data.tensor(entry)->id();
  const auto hidden = prior.hidden.find(id);
  return !prior.held.contains(id) && (hidden == prior.hidden.end() || !hidden->second.view);
}

void Giving::require_donatable(const Tensor& tensor, const BufferView& view) const {
  const BufferState& buffer = *Inside::of(view.buffer());
  if (view.num_bytes() != buffer.bytes) {
    refuse(ErrorCode::failed_precondition, tensor,
           "it is in a part of a buffer: " + view.to_string());
  }
  if (!buffer.constant.empty()) {
    refuse(ErrorCode::failed_precondition, tensor,
           "that holds a hosted constant, and stays as it is");
  }
}

void Giving::refuse(ErrorCode code, const Tensor& tensor, std::string_view why) const {
  throw Error(code, fmt::format("routine '{}' cannot take the memory of tensor '{}': {}",
                                code_.name(), tensor.label(), why));
}

}  // namespace heddle::rt
