// Indices and subscripts; a subscript is an affine sum of indices.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/status.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/describe/tensor.hpp"

namespace heddle {
namespace {

void require_extent(const std::string& label, std::string_view what,
                    std::optional<std::int64_t> extent) {
  if (extent && *extent < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("index '{}' has {} {} (expected 0 or more)", label, what, *extent));
}

}  // namespace

Index::Index() : Index(std::string()) {}
Index::Index(std::string label, std::optional<std::int64_t> extent) {
  require_extent(label, "extent", extent);
  state_ = std::make_shared<const State>(State{jit::next_id(), std::move(label), extent});
}

StaticIndex::StaticIndex(std::string label, std::optional<std::int64_t> range) {
  require_extent(label, "range", range);
  state_ = std::make_shared<const State>(State{jit::next_id(), std::move(label), range});
}

Subscript::Subscript(const Index& index) : terms_{{index, 1}} {}
Subscript::Subscript(const StaticIndex& index) : terms_{{index, 1}} {}

Subscript Subscript::combine(const Subscript& a, std::int64_t factor, const Subscript& b) {
  if (!a.overflow_.empty()) return a;
  if (!b.overflow_.empty()) return b;
  const auto refuse = [](std::string text) {
    throw Error(ErrorCode::invalid_argument, std::move(text));
  };
  if (b.position_ && factor != 1) {
    refuse(
        fmt::format("a subscript takes {} times the computed position {}; compute that in the "
                    "position, at(factor * e)",
                    factor, jit::print_subscript(b)));
  }
  if (a.position_ && b.position_) {
    refuse(
        fmt::format("a subscript adds two computed positions, {} and {}; add their values, "
                    "at(a + b)",
                    jit::print_subscript(a), jit::print_subscript(b)));
  }
  const auto id = [](const Term& term) {
    return std::visit([](const auto& index) { return index.id(); }, term.index);
  };
  bool fits = true;
  const auto multiply_add = [&fits](std::int64_t& sum, std::int64_t x, std::int64_t y) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(x, y, &product) || __builtin_add_overflow(sum, product, &sum))
      fits = false;
  };
  Subscript result = a;
  if (b.position_) result.position_ = b.position_;
  multiply_add(result.constant_, factor, b.constant_);
  for (const Term& term : b.terms_) {
    auto at = std::ranges::find(result.terms_, id(term), id);
    if (at == result.terms_.end()) {
      result.terms_.push_back({term.index, 0});
      at = std::prev(result.terms_.end());
    }
    multiply_add(at->coefficient, factor, term.coefficient);
  }
  std::erase_if(result.terms_, [](const Term& term) { return term.coefficient == 0; });
  if (!fits) {
    const std::string left = jit::print_subscript(a);
    result.overflow_ =
        fmt::format("{}{}*({})", left == "0" ? "" : left + " + ", factor, jit::print_subscript(b));
  }
  return result;
}

}  // namespace heddle
