// Primitive functions as C text: the shared vocabulary of emitted units. Not thread-safe: one
// object per unit being emitted.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/value/primitives.hpp"

namespace heddle::jit {

/// A scalar as a C expression that has its exact value and needs no parentheses.
[[nodiscard]] std::string c_literal(const Scalar& scalar);
/// The entries of a table, with commas between.
[[nodiscard]] std::string c_literals(std::span<const float> entries);
/// An expression for a whole side of an assignment: outer parentheses dropped.
[[nodiscard]] std::string_view c_bare(std::string_view expression) noexcept;
/// The operator of an instruction on two operands.
[[nodiscard]] std::string_view c_infix(PrimOp op) noexcept;
/// The C name of a machine type: the unit's own typedefs, equal to name(DType).
[[nodiscard]] std::string_view c_type(DType type) noexcept;

/// The primitive functions a unit uses, in order of first use.
class CPrimitives {
 public:
  /// The expression that applies `function` to `args`, which are expressions that need no
  /// parentheses.
  [[nodiscard]] std::string apply(PrimFunction function, const std::vector<std::string>& args);
  /// Declarations of the C library's functions in use.
  [[nodiscard]] std::string declarations() const;
  /// Definitions of the primitive functions in use.
  [[nodiscard]] std::string definitions() const;

 private:
  std::string define(const PrimFunction& function);

  std::map<std::string, std::string> used_;     // name -> definition
  std::map<std::string, std::string> library_;  // name -> declaration
};

}  // namespace heddle::jit
