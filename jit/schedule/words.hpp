// Terms in words: where both factors of a product have few bits, several terms lie in a word of 32
// bits, and one instruction multiplies and adds them all. Sums of integers wrap, so that their
// order changes no bit; those of bf16 lose subnormal numbers, and are for fast_math. Pure; any
// thread.
#pragma once

#include <vector>

#include "jit/loop/interval.hpp"
#include "jit/loop/loop.hpp"
#include "jit/schedule/contraction.hpp"

namespace heddle::jit {

/// What the value of an integer may be, whatever is loaded.
[[nodiscard]] Interval range_of(const Value& value);

[[nodiscard]] Words words_for(const Contraction& c, const Target& target, bool fast_math);

/// The word of at least one value, and at most `words.terms`; those that lack are 0.
[[nodiscard]] ValuePtr word_of(const Words& words, const std::vector<ValuePtr>& values);
/// Of a, what is to be in words.
[[nodiscard]] ValuePtr raised(const Words& words, const ValuePtr& value);
/// `so_far` and what raising a adds, for a word of b.
[[nodiscard]] ValuePtr add_raised(const ValuePtr& b, const ValuePtr& so_far);

/// `so_far` and the products of the terms of two words.
[[nodiscard]] ValuePtr add_products(const Words& words, const ValuePtr& a, const ValuePtr& b,
                                    const ValuePtr& so_far);

}  // namespace heddle::jit
