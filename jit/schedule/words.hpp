// Terms in words: where both factors of a product have few bits, several terms lie in a word of 32
// bits, and a single instruction multiplies and adds them all. Integer sums wrap, so their order
// changes no bit; sums of bf16 lose subnormal numbers, and need fast_math. Pure; any thread.
#pragma once

#include <vector>

#include "jit/loop/interval.hpp"
#include "jit/loop/loop.hpp"
#include "jit/schedule/contraction.hpp"

namespace heddle::jit {

/// The possible values of an integer, whatever the loads return.
[[nodiscard]] Interval range_of(const Value& value);

[[nodiscard]] Words words_for(const Contraction& c, const Target& target, bool fast_math);

/// The word of 1 to `words.terms` values; missing values are 0.
[[nodiscard]] ValuePtr word_of(const Words& words, const std::vector<ValuePtr>& values);
/// The part of a that is packed into words: `value`, raised where the plan raises a.
[[nodiscard]] ValuePtr raised(const Words& words, const ValuePtr& value);
/// `so_far` plus the amount that raising a adds, for a word of b.
[[nodiscard]] ValuePtr add_raised(const ValuePtr& b, const ValuePtr& so_far);

/// `so_far` plus the products of the terms of two words.
[[nodiscard]] ValuePtr add_products(const Words& words, const ValuePtr& a, const ValuePtr& b,
                                    const ValuePtr& so_far);

}  // namespace heddle::jit
