// See emit/gccjit_dialect.hpp: all hooks except those for vectors.
#include "jit/emit/gccjit_dialect.hpp"

#include <fmt/format.h>

#include "jit/emit/workarounds.hpp"

namespace heddle::jit {

void GccjitDialect::begin_kernel(const KernelSource& kernel) {
  gcc_jit_context* c = in_.get();
  gcc_jit_param* args = gcc_jit_context_new_param(c, nullptr, abi_.args_ptr, "args");
  args_ = gcc_jit_param_as_rvalue(args);
  function_ = gcc_jit_context_new_function(c, nullptr, GCC_JIT_FUNCTION_EXPORTED,
                                           gcc_jit_context_get_type(c, GCC_JIT_TYPE_VOID),
                                           kernel_symbol(kernel.name).c_str(), 1, &args, 0);
  block_ = new_block();
  buffers_.resize(loop_.buffers.size());
  for (std::size_t k = 0; k < loop_.statics.size(); ++k) {
    Made value = gcc_jit_lvalue_as_rvalue(gcc_jit_context_new_array_access(
        c, nullptr, argument(abi_.statics), number(static_cast<std::int64_t>(k))));
    statics_.push_back(variable(in_.type(DType::i64), fmt::format("s{}", k), value));
  }
}

/// Bytes of bool buffers may hold more than 0 and 1, so they are not bool to the compiler.
gcc_jit_type* GccjitDialect::storage_type(BufferId buffer) {
  const DType t = loop_.buffers[buffer].type.dtype;
  return in_.type(t == DType::bool_ ? DType::u8 : t);
}

void GccjitDialect::take_address(const KernelSource& kernel, BufferId k) {
  gcc_jit_type* pointer = gcc_jit_type_get_pointer(storage_type(k));
  const auto address = embedded_address(kernel, k);
  Made value = nullptr;
  if (address) {
    value =
        gcc_jit_context_new_rvalue_from_ptr(in_.get(), pointer, reinterpret_cast<void*>(*address));
  } else {
    gcc_jit_lvalue* entry =
        gcc_jit_context_new_array_access(in_.get(), nullptr, argument(abi_.buffers), number(k));
    value = in_.cast(
        gcc_jit_rvalue_access_field(gcc_jit_lvalue_as_rvalue(entry), nullptr, abi_.data), pointer);
  }
  buffers_[k] = variable(pointer, fmt::format("t{}", k), value);
}

void GccjitDialect::declare_zero() {
  zero_ = variable(in_.type(DType::u64), "zero", in_.integer(DType::u64, 0));
  gcc_jit_extended_asm_add_output_operand(instruction(""), nullptr, "+r", zero_);
}

void GccjitDialect::leave_to_first_part() {
  gcc_jit_block* whole = new_block();
  gcc_jit_block* done = new_block();
  gcc_jit_block_end_with_conditional(block_, nullptr, is_first_part(), whole, done);
  gcc_jit_block_end_with_void_return(done, nullptr);
  block_ = whole;
}

std::pair<GccjitDialect::Made, GccjitDialect::Made> GccjitDialect::slice(const Stmt& loop) {
  gcc_jit_type* wide = gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_UINT128_T);
  const auto binary = [&](gcc_jit_binary_op op, Made a, Made b) {
    return gcc_jit_context_new_binary_op(in_.get(), nullptr, op, wide, a, b);
  };
  const auto count = static_cast<std::int64_t>(static_cast<std::uint64_t>(loop.to) -
                                               static_cast<std::uint64_t>(loop.from));
  const auto begin_of = [&](std::int64_t next) {
    Made part = binary(GCC_JIT_BINARY_OP_PLUS, in_.cast(argument(abi_.part), wide),
                       in_.cast(number(next), wide));
    Made offset =
        binary(GCC_JIT_BINARY_OP_DIVIDE,
               binary(GCC_JIT_BINARY_OP_MULT, in_.cast(in_.integer(DType::u64, count), wide), part),
               in_.cast(argument(abi_.num_parts), wide));
    return in_.binary(GCC_JIT_BINARY_OP_PLUS, DType::i64, number(loop.from),
                      in_.cast(offset, in_.type(DType::i64)));
  };
  return {begin_of(0), begin_of(1)};
}

void GccjitDialect::end_streams() {
  gcc_jit_extended_asm* spelt = instruction(after_streaming);
  gcc_jit_extended_asm_set_volatile_flag(spelt, 1);
  gcc_jit_extended_asm_add_clobber(spelt, "memory");
}

void GccjitDialect::call(const char* builtin, std::vector<Made> args) {
  gcc_jit_function* function = gcc_jit_context_get_builtin_function(in_.get(), builtin);
  gcc_jit_block_add_eval(block_, nullptr,
                         gcc_jit_context_new_call(in_.get(), nullptr, function,
                                                  static_cast<int>(args.size()), args.data()));
}

void GccjitDialect::zero_buffer(BufferId buffer) {
  call("__builtin_memset", {in_.cast(gcc_jit_lvalue_as_rvalue(buffers_[buffer]), any_pointer()),
                            in_.integer(DType::i32, 0),
                            in_.cast(number(*loop_.buffers[buffer].type.num_bytes()),
                                     gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_SIZE_T))});
}

void GccjitDialect::store(BufferId buffer, Made at, Made value) {
  if (loop_.buffers[buffer].type.dtype == DType::bool_)
    value = in_.cast(value, storage_type(buffer));
  set(of_buffer(buffer, at), value);
}

void GccjitDialect::prefetch(const PrefetchGroup& group) {
  Made address = gcc_jit_lvalue_get_address(of_buffer(group.buffer, index(group.first)), nullptr);
  gcc_jit_lvalue* first = variable(gcc_jit_rvalue_get_type(address), "p", address);
  for (const std::int64_t distance : group.distances) {
    gcc_jit_lvalue* at = gcc_jit_context_new_array_access(
        in_.get(), nullptr, gcc_jit_lvalue_as_rvalue(first), number(distance));
    call("__builtin_prefetch", {in_.cast(gcc_jit_lvalue_get_address(at, nullptr), any_pointer()),
                                in_.integer(DType::i32, group.next == Prefetch::store ? 1 : 0),
                                in_.integer(DType::i32, locality(group.next))});
  }
}

void GccjitDialect::tell(std::uint32_t assignment, BufferId buffer, Made at, Made before,
                         Made after) {
  gcc_jit_block* tell = new_block();
  gcc_jit_block* next = new_block();
  gcc_jit_block_end_with_conditional(block_, nullptr, in_.is_null(argument(abi_.trace)), next,
                                     tell);
  Made args[] = {argument(abi_.trace_context),
                 in_.integer(DType::u32, assignment),
                 in_.integer(DType::u32, buffer),
                 at,
                 before,
                 after};
  gcc_jit_block_add_eval(
      tell, nullptr,
      gcc_jit_context_new_call_through_ptr(in_.get(), nullptr, argument(abi_.trace), 6, args));
  gcc_jit_block_end_with_jump(tell, nullptr, next);
  block_ = next;
}

GccjitDialect::Made GccjitDialect::hidden(DType type, Made value) {
  gcc_jit_lvalue* made = variable(in_.type(type), "value", value);
  const std::string constraint = fmt::format("+{}", asm_register(type));
  gcc_jit_extended_asm_add_output_operand(instruction(""), nullptr, constraint.c_str(), made);
  return gcc_jit_lvalue_as_rvalue(made);
}

GccjitDialect::Made GccjitDialect::index(const Affine& a) {
  Made sum = nullptr;
  const auto add = [&](Made term) {
    sum = sum == nullptr ? term : in_.binary(GCC_JIT_BINARY_OP_PLUS, DType::i64, sum, term);
  };
  for (const AffineTerm& term : a.terms) {
    Made variable = gcc_jit_lvalue_as_rvalue(
        term.kind == AffineTerm::Kind::loop ? vars_.at(term.id) : statics_.at(term.id));
    add(term.coefficient == 1
            ? variable
            : in_.binary(GCC_JIT_BINARY_OP_MULT, DType::i64, variable, number(term.coefficient)));
  }
  if (sum == nullptr || a.constant != 0) add(number(a.constant));
  return sum;
}

GccjitDialect::Made GccjitDialect::load(BufferId buffer, Made at) {
  Made raw = gcc_jit_lvalue_as_rvalue(of_buffer(buffer, at));
  if (loop_.buffers[buffer].type.dtype != DType::bool_) return raw;
  return in_.compare(GCC_JIT_COMPARISON_NE, raw, in_.integer(DType::u8, 0));
}

void GccjitDialect::declare_array(LocalId local, const ArrayType& type, Made start) {
  const std::int64_t count = *type.num_elements();
  gcc_jit_type* array = gcc_jit_context_new_array_type(in_.get(), nullptr, in_.type(type.dtype),
                                                       static_cast<int>(count));
  gcc_jit_lvalue* made = locals_[local] = variable(array, fmt::format("x{}", local));
  gcc_jit_lvalue_set_alignment(made, 64);
  Made first = named("start", type.dtype, start);
  each_element(count, [&](Made at) { assign_element(local, at, first); });
}

}  // namespace heddle::jit
