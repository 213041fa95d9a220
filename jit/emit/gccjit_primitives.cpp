// See emit/gccjit_primitives.hpp. The same functions as in emit/c_primitives.cpp; libgccjit has no
// conditional expression, so a select is an assignment behind a branch.
#include "jit/emit/gccjit_primitives.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace heddle::jit {
namespace {

gcc_jit_comparison comparison(PrimOp op) {
  switch (op) {
    case PrimOp::lt:
      return GCC_JIT_COMPARISON_LT;
    case PrimOp::le:
      return GCC_JIT_COMPARISON_LE;
    case PrimOp::eq:
      return GCC_JIT_COMPARISON_EQ;
    default:
      return GCC_JIT_COMPARISON_NE;
  }
}

/// The straight line of blocks that a primitive function is written into.
struct Body {
  gcc_jit_function* function;
  gcc_jit_block* block;
  std::vector<gcc_jit_rvalue*> values;  // per position
  std::map<std::uint32_t, gcc_jit_lvalue*> variables;
  gcc_jit_block* loop_head = nullptr;
  gcc_jit_block* loop_exit = nullptr;

  /// `if (condition) goto where;`, and continues in a new block.
  void branch(gcc_jit_rvalue* condition, gcc_jit_block* where) {
    gcc_jit_block* next = gcc_jit_function_new_block(function, nullptr);
    gcc_jit_block_end_with_conditional(block, nullptr, condition, where, next);
    block = next;
  }
  void go_to(gcc_jit_block* next) {
    gcc_jit_block_end_with_jump(block, nullptr, next);
    block = next;
  }
  /// The value of the next position, in a variable.
  gcc_jit_lvalue* store(gcc_jit_type* type, gcc_jit_rvalue* value) {
    const auto position = static_cast<std::uint32_t>(values.size());
    gcc_jit_lvalue* local =
        gcc_jit_function_new_local(function, nullptr, type, fmt::format("v{}", position).c_str());
    gcc_jit_block_add_assignment(block, nullptr, local, value);
    values.push_back(gcc_jit_lvalue_as_rvalue(local));
    return variables[position] = local;
  }
  void choose(gcc_jit_type* type, gcc_jit_rvalue* condition, gcc_jit_rvalue* yes,
              gcc_jit_rvalue* no) {
    gcc_jit_lvalue* local = store(type, no);
    gcc_jit_block* chosen = gcc_jit_function_new_block(function, nullptr);
    branch(condition, chosen);
    gcc_jit_block_add_assignment(chosen, nullptr, local, yes);
    gcc_jit_block_end_with_jump(chosen, nullptr, block);
  }
};

}  // namespace

gcc_jit_binary_op gccjit_binary_op(PrimOp op) {
  switch (op) {
    case PrimOp::add:
      return GCC_JIT_BINARY_OP_PLUS;
    case PrimOp::sub:
      return GCC_JIT_BINARY_OP_MINUS;
    case PrimOp::mul:
      return GCC_JIT_BINARY_OP_MULT;
    case PrimOp::div:
      return GCC_JIT_BINARY_OP_DIVIDE;
    case PrimOp::rem:
      return GCC_JIT_BINARY_OP_MODULO;
    case PrimOp::bit_and:
      return GCC_JIT_BINARY_OP_BITWISE_AND;
    case PrimOp::bit_or:
      return GCC_JIT_BINARY_OP_BITWISE_OR;
    case PrimOp::bit_xor:
      return GCC_JIT_BINARY_OP_BITWISE_XOR;
    case PrimOp::shl:
      return GCC_JIT_BINARY_OP_LSHIFT;
    default:
      return GCC_JIT_BINARY_OP_RSHIFT;
  }
}

GccjitContext::GccjitContext(gcc_jit_context* context) : context_(context) {
  for (std::size_t k = 0; k < dtype_count; ++k) {
    const auto t = static_cast<DType>(k);
    if (t == DType::bool_) {
      types_[k] = gcc_jit_context_get_type(context, GCC_JIT_TYPE_BOOL);
    } else if (t == DType::f32) {
      types_[k] = gcc_jit_context_get_type(context, GCC_JIT_TYPE_FLOAT);
    } else if (t == DType::f64) {
      types_[k] = gcc_jit_context_get_type(context, GCC_JIT_TYPE_DOUBLE);
    } else if (is_integer(t)) {
      types_[k] = gcc_jit_context_get_int_type(context, static_cast<int>(size_of(t)),
                                               info(t).is_signed ? 1 : 0);
    }
  }
}

gcc_jit_rvalue* GccjitContext::integer(DType t, std::int64_t value) {
  if (t == DType::bool_) return cast(integer(DType::i32, value), type(t));
  return gcc_jit_context_new_rvalue_from_long(context_, type(t), value);
}

gcc_jit_rvalue* GccjitContext::literal(const Scalar& scalar) {
  switch (scalar.dtype) {
    case DType::f16:
      return integer(DType::u16, Float16(static_cast<float>(scalar.f)).bits);
    case DType::bf16:
      return integer(DType::u16, BFloat16(static_cast<float>(scalar.f)).bits);
    case DType::f32:
    case DType::f64:
      return gcc_jit_context_new_rvalue_from_double(context_, type(scalar.dtype), scalar.f);
    default:
      return integer(scalar.dtype, scalar.i);
  }
}

gcc_jit_rvalue* GccjitContext::cast_number(gcc_jit_rvalue* value, DType from, DType to) {
  // libgccjit converts bool to integers only.
  if (from == DType::bool_ && is_floating(to)) value = cast(value, type(DType::i32));
  return cast(value, type(to));
}

gcc_jit_rvalue* GccjitContext::call(const Prim& prim, std::vector<gcc_jit_rvalue*> args) {
  const std::string name(prim.function);
  auto [at, is_new] = functions_.try_emplace(name, nullptr);
  if (is_new) {
    if (prim.function.starts_with("__builtin_")) {
      at->second = gcc_jit_context_get_builtin_function(context_, name.c_str());
    } else {
      std::vector<gcc_jit_param*> params;
      for (std::size_t k = 0; k < args.size(); ++k) {
        params.push_back(gcc_jit_context_new_param(context_, nullptr, type(prim.type), "x"));
      }
      at->second = gcc_jit_context_new_function(context_, nullptr, GCC_JIT_FUNCTION_IMPORTED,
                                                type(prim.type), name.c_str(),
                                                static_cast<int>(params.size()), params.data(), 0);
    }
  }
  return gcc_jit_context_new_call(context_, nullptr, at->second, static_cast<int>(args.size()),
                                  args.data());
}

gcc_jit_rvalue* GccjitContext::instruction(const Prim& prim,
                                           const std::vector<gcc_jit_rvalue*>& args,
                                           DType operand) {
  switch (prim.op) {
    case PrimOp::lt:
    case PrimOp::le:
    case PrimOp::eq:
    case PrimOp::ne:
      return compare(comparison(prim.op), args[0], args[1]);
    case PrimOp::neg:
      return gcc_jit_context_new_unary_op(context_, nullptr, GCC_JIT_UNARY_OP_MINUS,
                                          type(prim.type), args[0]);
    case PrimOp::cast:
      return cast_number(args[0], operand, prim.type);
    case PrimOp::bits:
      return gcc_jit_context_new_bitcast(context_, nullptr, args[0], type(prim.type));
    case PrimOp::call:
      return call(prim, args);
    default:
      return binary(gccjit_binary_op(prim.op), prim.type, args[0], args[1]);
  }
}

gcc_jit_rvalue* GccjitContext::apply(const PrimFunction& function,
                                     std::vector<gcc_jit_rvalue*> args) {
  if (function.is_pass_through()) return args[function.value];
  if (function.is_single()) return instruction(function.code[0], args, function.params[0]);
  auto [at, is_new] = functions_.try_emplace(function.name, nullptr);
  if (is_new) at->second = define(function);
  return gcc_jit_context_new_call(context_, nullptr, at->second, static_cast<int>(args.size()),
                                  args.data());
}

/// A constant array of the unit. Its initializer is a constructor: libgccjit 12 takes a blob of
/// bytes for text, and folds reads of f32 from it to 0.
gcc_jit_rvalue* GccjitContext::table(std::span<const float> entries, const std::string& name) {
  gcc_jit_type* const array =
      gcc_jit_context_new_array_type(context_, nullptr, gcc_jit_type_get_const(type(DType::f32)),
                                     static_cast<int>(entries.size()));
  std::vector<gcc_jit_rvalue*> values;
  for (const float each : entries)
    values.push_back(literal(Scalar::of_float(DType::f32, double{each})));
  gcc_jit_lvalue* const made =
      gcc_jit_context_new_global(context_, nullptr, GCC_JIT_GLOBAL_INTERNAL, array, name.c_str());
  gcc_jit_global_set_initializer_rvalue(
      made, gcc_jit_context_new_array_constructor(context_, nullptr, array, values.size(),
                                                  values.data()));
  return gcc_jit_lvalue_as_rvalue(made);
}

gcc_jit_rvalue* GccjitContext::lookup(gcc_jit_rvalue* table, gcc_jit_rvalue* index,
                                      const Prim& made_by) {
  const auto last = static_cast<std::int64_t>(made_by.entries.size() - 1);
  return gcc_jit_lvalue_as_rvalue(gcc_jit_context_new_array_access(
      context_, nullptr, table,
      binary(GCC_JIT_BINARY_OP_BITWISE_AND, DType::u32, index, integer(DType::u32, last))));
}

gcc_jit_function* GccjitContext::define(const PrimFunction& function) {
  std::vector<gcc_jit_param*> params;
  for (std::size_t k = 0; k < function.params.size(); ++k) {
    const std::string name(1, "abc"[k]);
    params.push_back(
        gcc_jit_context_new_param(context_, nullptr, type(function.params[k]), name.c_str()));
  }
  Body body{gcc_jit_context_new_function(context_, nullptr, GCC_JIT_FUNCTION_ALWAYS_INLINE,
                                         type(function.result), function.name.c_str(),
                                         static_cast<int>(params.size()), params.data(), 0),
            nullptr,
            {},
            {}};
  body.block = gcc_jit_function_new_block(body.function, nullptr);
  for (gcc_jit_param* param : params) body.values.push_back(gcc_jit_param_as_rvalue(param));
  for (const Prim& prim : function.code) {
    std::vector<gcc_jit_rvalue*> args;
    for (std::uint32_t k = 0; k < num_operands(prim); ++k)
      args.push_back(body.values[prim.args[k]]);
    gcc_jit_type* const made = type(prim.type);
    switch (prim.op) {
      case PrimOp::constant:
        body.values.push_back(literal(prim.scalar));
        break;
      case PrimOp::table:
        body.values.push_back(
            table(prim.entries, fmt::format("{}_v{}", function.name, body.values.size())));
        break;
      case PrimOp::lookup:
        body.store(made, lookup(args[0], args[1], function.code[prim.args[0] - params.size()]));
        break;
      case PrimOp::larger:
        body.choose(made, compare(GCC_JIT_COMPARISON_LT, args[0], args[1]), args[1], args[0]);
        break;
      case PrimOp::smaller:
        body.choose(made, compare(GCC_JIT_COMPARISON_LT, args[1], args[0]), args[1], args[0]);
        break;
      case PrimOp::select:
        body.choose(made, args[0], args[1], args[2]);
        break;
      case PrimOp::variable:
        body.store(made, args[0]);
        break;
      case PrimOp::assign:
        gcc_jit_block_add_assignment(body.block, nullptr, body.variables[prim.args[0]], args[1]);
        body.values.push_back(nullptr);
        break;
      case PrimOp::loop:
        body.loop_head = gcc_jit_function_new_block(body.function, nullptr);
        body.loop_exit = gcc_jit_function_new_block(body.function, nullptr);
        body.go_to(body.loop_head);
        body.values.push_back(nullptr);
        break;
      case PrimOp::leave_if:
        body.branch(args[0], body.loop_exit);
        body.values.push_back(nullptr);
        break;
      case PrimOp::end_loop:
        gcc_jit_block_end_with_jump(body.block, nullptr, body.loop_head);
        body.block = body.loop_exit;
        body.values.push_back(nullptr);
        break;
      default:
        body.store(made, instruction(prim, args,
                                     args.empty() ? prim.type : function.type_of(prim.args[0])));
    }
  }
  gcc_jit_block_end_with_return(body.block, nullptr, body.values[function.value]);
  return body.function;
}

}  // namespace heddle::jit
