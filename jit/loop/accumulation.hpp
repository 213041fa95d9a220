// Accumulations: stores t[at] = op(t[at], term). Marked atomic (Stmt::atomic), the store takes what
// the element holds then, combines it with the term and stores the result in one step that no other
// thread sees in part; run one after the other, the marked stores do what plain stores do. Pure;
// any thread.
#pragma once

#include <optional>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

struct Accumulation {
  Op op = Op::add;
  ValuePtr term;  ///< does not read the store's buffer
};

/// The accumulation that a store makes, if a GPU can make it atomically: sums of i32, u32, i64,
/// u64, f32 and f64, the least and the greatest of i32 and u32. Nothing for other statements.
[[nodiscard]] std::optional<Accumulation> accumulation_of(const Stmt& stmt);

}  // namespace heddle::jit
