// Types, literals and primitive functions through libgccjit. Linked into heddle-compile only. One
// thread: libgccjit compiles one context at a time.
#pragma once

#include <libgccjit.h>

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "jit/value/primitives.hpp"

namespace heddle::jit {

/// The operator of an arithmetic or bitwise instruction.
[[nodiscard]] gcc_jit_binary_op gccjit_binary_op(PrimOp op);

/// A libgccjit context, with names for its objects. Errors stay in the context: its calls return
/// null after the first error, and compiling reports the error.
class GccjitContext {
 public:
  explicit GccjitContext(gcc_jit_context* context);

  [[nodiscard]] gcc_jit_context* get() const noexcept { return context_; }
  /// The type of a value of (machine type of) `t`.
  [[nodiscard]] gcc_jit_type* type(DType t) const noexcept {
    return types_[static_cast<std::size_t>(machine_type(t))];
  }
  [[nodiscard]] gcc_jit_rvalue* is_null(gcc_jit_rvalue* pointer) {
    return compare(GCC_JIT_COMPARISON_EQ, pointer,
                   gcc_jit_context_null(context_, gcc_jit_rvalue_get_type(pointer)));
  }
  [[nodiscard]] gcc_jit_rvalue* literal(const Scalar& scalar);
  [[nodiscard]] gcc_jit_rvalue* integer(DType t, std::int64_t value);
  [[nodiscard]] gcc_jit_rvalue* binary(gcc_jit_binary_op op, DType t, gcc_jit_rvalue* a,
                                       gcc_jit_rvalue* b) {
    return gcc_jit_context_new_binary_op(context_, nullptr, op, type(t), a, b);
  }
  [[nodiscard]] gcc_jit_rvalue* compare(gcc_jit_comparison op, gcc_jit_rvalue* a,
                                        gcc_jit_rvalue* b) {
    return gcc_jit_context_new_comparison(context_, nullptr, op, a, b);
  }
  [[nodiscard]] gcc_jit_rvalue* cast(gcc_jit_rvalue* value, gcc_jit_type* to) {
    return gcc_jit_context_new_cast(context_, nullptr, value, to);
  }
  /// The expression that applies `function` to `args`; an argument may be used only once.
  [[nodiscard]] gcc_jit_rvalue* apply(const PrimFunction& function,
                                      std::vector<gcc_jit_rvalue*> args);

 private:
  gcc_jit_function* define(const PrimFunction& function);
  gcc_jit_rvalue* table(std::span<const float> entries, const std::string& name);
  gcc_jit_rvalue* lookup(gcc_jit_rvalue* table, gcc_jit_rvalue* index, const Prim& made_by);
  gcc_jit_rvalue* instruction(const Prim& prim, const std::vector<gcc_jit_rvalue*>& args,
                              DType operand);
  gcc_jit_rvalue* call(const Prim& prim, std::vector<gcc_jit_rvalue*> args);
  gcc_jit_rvalue* cast_number(gcc_jit_rvalue* value, DType from, DType to);

  gcc_jit_context* context_;
  std::array<gcc_jit_type*, dtype_count> types_{};
  std::map<std::string, gcc_jit_function*> functions_;  // defined primitives and imported functions
};

}  // namespace heddle::jit
