// Random programs that schedules recognise: sums of products, and permutations, with any order of
// axes. The seed decides everything. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/host_array.hpp"
#include "heddle/program.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit::testing {

/// One statement or two: transposed, batched, strided and sliding factors, sums that start from the
/// target's values, and operations on the sums before the store.
[[nodiscard]] Program random_contraction(std::uint64_t seed);

/// Chains of elementwise statements and of reductions along rows, columns and whole matrices; some
/// of them can be fused.
[[nodiscard]] Program random_rows(std::uint64_t seed);

/// Elementwise statements of rank 2 to 4, of any type, that read permuted tensors, whole or at
/// strides and offsets.
[[nodiscard]] Program random_transpose(std::uint64_t seed);

/// Small whole numbers, whose sums are exact in any order.
[[nodiscard]] HostArray small_numbers(const ArrayType& type, std::uint64_t seed);

/// Factors of a product in i32, as users compute them from loaded values.
enum class FactorForm { plain, shifted, doubled, negative };
struct WordFactors {
  DType a, b;
  FactorForm a_form = FactorForm::plain, b_form = FactorForm::plain;
};
/// c(i, j) += a(i, k) b(k, j)
[[nodiscard]] Program word_product(const WordFactors& of, std::int64_t rows, std::int64_t terms,
                                   std::int64_t lanes);
/// A word product with narrow factors, of any shape.
[[nodiscard]] Program random_word_product(std::uint64_t seed);
/// Sums in f32 of products of bf16, of any shape, read along rows or across them, some negated.
[[nodiscard]] Program random_bf16_product(std::uint64_t seed);
/// Random bits; truth values are 0 or 1.
[[nodiscard]] HostArray any_bits(const ArrayType& type, std::uint64_t seed);

/// A processor with so little cache that schedules split small shapes like large shapes.
[[nodiscard]] Target tiny_target(Isa isa);

}  // namespace heddle::jit::testing
