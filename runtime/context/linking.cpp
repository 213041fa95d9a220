// The calls that link.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/context_state.hpp"

namespace heddle {
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
