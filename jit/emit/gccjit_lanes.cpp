// See emit/gccjit_lanes.hpp. libgccjit 12 has vector types and arithmetic on them; what else is
// needed of vectors are instructions spelt out, the same as in the C text.
#include "jit/emit/gccjit_lanes.hpp"

#include <fmt/format.h>

#include "jit/emit/emit.hpp"
#include "jit/loop/address.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lane_transpose.hpp"

namespace heddle::jit {
namespace {

gcc_jit_rvalue* read(gcc_jit_lvalue* lvalue) { return gcc_jit_lvalue_as_rvalue(lvalue); }

std::string_view letter(DType t) { return size_of(t) == 8 ? "d" : "s"; }

}  // namespace

GccjitLanes::VectorType GccjitLanes::type(DType t) {
  VectorType& made = types_[t];
  if (made.vector == nullptr) {
    made.vector = gcc_jit_type_get_vector(in_.type(t), static_cast<std::size_t>(target_.lanes(t)));
    made.in_memory = gcc_jit_type_get_aligned(made.vector, size_of(t));
  }
  return made;
}

gcc_jit_lvalue* GccjitLanes::variable(gcc_jit_type* type, const std::string& name) {
  return gcc_jit_function_new_local(scalars_.function, nullptr, type, name.c_str());
}

void GccjitLanes::set(gcc_jit_lvalue* to, gcc_jit_rvalue* value) {
  gcc_jit_block_add_assignment(scalars_.block(), nullptr, to, value);
}

gcc_jit_rvalue* GccjitLanes::splat(DType t, gcc_jit_rvalue* value) {
  gcc_jit_lvalue* scalar = variable(in_.type(t), "lane");
  set(scalar, value);
  std::vector<gcc_jit_rvalue*> lanes;
  for (std::int64_t k = 0; k < target_.lanes(t); ++k) lanes.push_back(read(scalar));
  return gcc_jit_context_new_rvalue_from_vector(in_.get(), nullptr, type(t).vector, lanes.size(),
                                                lanes.data());
}

gcc_jit_lvalue* GccjitLanes::declare(const Stmt& stmt) {
  const DType t = stmt.value->dtype;
  const ArrayType& block = blocks_[stmt.local] = {t, stmt.dims};
  const std::int64_t count = *block.num_elements();
  if (!plan_.in_registers.contains(stmt.local)) {
    gcc_jit_type* array =
        gcc_jit_context_new_array_type(in_.get(), nullptr, in_.type(t), static_cast<int>(count));
    gcc_jit_lvalue* made = variable(array, fmt::format("x{}", stmt.local));
    gcc_jit_lvalue_set_alignment(made, 64);
    return arrays_[stmt.local] = made;
  }
  forget();
  gcc_jit_lvalue* start = variable(type(t).vector, fmt::format("x{}_start", stmt.local));
  set(start, splat(t, scalars_.value(*stmt.value)));
  const std::int64_t row = stmt.dims.back();
  const std::size_t vectors = lane_parts(row, target_.lanes(t)).size();
  for (std::int64_t k = 0; k < count / row; ++k) {
    for (std::size_t part = 0; part < vectors; ++part) {
      const std::string name = fmt::format("x{}_{}_{}", stmt.local, k, part);
      set(variables_[name] = variable(type(t).vector, name), read(start));
    }
  }
  return nullptr;
}

gcc_jit_lvalue* GccjitLanes::element(LocalId local, const std::vector<Affine>& at) {
  return gcc_jit_context_new_array_access(in_.get(), nullptr, read(arrays_.at(local)),
                                          scalars_.index(flatten(blocks_.at(local), at)));
}

void GccjitLanes::loop(const Stmt& stmt) {
  lanes_ = &stmt;
  const DType of = *lane_type(stmt.body);
  width_ = target_.lanes(of);
  word_ = lane_word(size_of(of));
  own_.clear();
  splat_.clear();
  for (const StmtPtr& inner : stmt.body) {
    if (inner->kind == StmtKind::declare) own_.insert(inner->local);
  }
  for (const StmtPtr& inner : stmt.body) {
    if (inner->value) share(inner->value);
  }
  for (const LanePart& each : lane_parts(stmt.to - stmt.from, width_)) part(stmt, each);
}

void GccjitLanes::share(const ValuePtr& v) {
  if (!is_uniform(*v, lanes_->var, own_)) {
    for (const ValuePtr& arg : v->args) share(arg);
    return;
  }
  for (const auto& [known, variable] : splat_) {
    if (equal(*known, *v)) return;
  }
  gcc_jit_lvalue* made = variable(value_type(v->dtype), "u");
  gcc_jit_rvalue* scalar = scalars_.value(*v);
  set(made, v->dtype == DType::bool_ ? mask_splat(scalar) : splat(v->dtype, scalar));
  splat_.emplace_back(v, made);
}

void GccjitLanes::part(const Stmt& loop, const LanePart& part) {
  for (const StmtPtr& stmt : loop.body) {
    if (!stmt->value) continue;
    const DType t = stmt->value->dtype;
    gcc_jit_rvalue* made = value(*stmt->value, part);
    if (stmt->kind == StmtKind::declare) {
      const std::string name = fmt::format("x{}_{}", stmt->local, part.first);
      set(variables_[name] = variable(value_type(t), name), made);
    } else if (stmt->kind == StmtKind::store && stmt->stream && part.whole &&
               !stream_instruction(t, target_).empty()) {
      stream(t, of_buffer(stmt->buffer, stmt->subscripts, part), made);
    } else if (stmt->kind == StmtKind::store) {
      store(t, of_buffer(stmt->buffer, stmt->subscripts, part), made, part);
    } else if (stmt->subscripts.empty() || plan_.in_registers.contains(stmt->local)) {
      set(place(stmt->local, stmt->subscripts, part), made);
      if (plan_.turned.contains(stmt->local)) forget();
    } else {
      store(t, of_array(stmt->local, stmt->subscripts, part), made, part);
    }
  }
}

gcc_jit_lvalue* GccjitLanes::place(LocalId local, const std::vector<Affine>& at,
                                   const LanePart& part) {
  if (at.empty()) return variables_.at(fmt::format("x{}_{}", local, part.first));
  std::vector<Affine> row(at.begin(), at.end() - 1);
  ArrayType rows = blocks_.at(local);
  rows.dims.pop_back();
  return variables_.at(
      fmt::format("x{}_{}_{}", local, flatten(rows, row).constant, part.first / width_));
}

/// These lanes of a column of a block in registers; those of all columns are made where one is
/// asked for.
gcc_jit_lvalue* GccjitLanes::column(const Value& v, const LanePart& part) {
  if (turned_.emplace(v.local, part.first).second) transpose(v.local, part);
  const std::int64_t at = part.first + v.subscripts[1].constant;
  return variables_.at(fmt::format("x{}_columns[{}]", v.local, at));
}

void GccjitLanes::transpose(LocalId local, const LanePart& part) {
  const ArrayType& block = blocks_.at(local);
  std::vector<gcc_jit_lvalue*> values;
  for (std::int64_t k = part.first; k < part.first + width_; ++k) {
    const std::int64_t row = k < block.dims[0] ? k : part.first;
    values.push_back(variables_.at(fmt::format("x{}_{}_0", local, row)));
  }
  const char* const operand = lane_constraint(block.dtype, target_);
  const std::string result = fmt::format("={}", operand);
  for (const LaneShuffle& each : lane_transpose(block.dtype, target_)) {
    gcc_jit_lvalue* made = variable(type(block.dtype).vector, "turned");
    gcc_jit_extended_asm* spelt = instruction(each.instruction);
    gcc_jit_extended_asm_add_output_operand(spelt, nullptr, result.c_str(), made);
    gcc_jit_extended_asm_add_input_operand(spelt, nullptr, operand, read(values[each.first]));
    gcc_jit_extended_asm_add_input_operand(spelt, nullptr, operand, read(values[each.second]));
    values.push_back(made);
  }
  const std::size_t columns = values.size() - static_cast<std::size_t>(width_);
  for (std::int64_t k = 0; k < block.dims[1]; ++k) {
    variables_[fmt::format("x{}_columns[{}]", local, part.first + k)] =
        values[columns + static_cast<std::size_t>(k)];
  }
}

gcc_jit_lvalue* GccjitLanes::at_lane(gcc_jit_rvalue* array, const ArrayType& type,
                                     const std::vector<Affine>& at, const LanePart& part) {
  auto [offset, step] = split_lane(flatten(type, at), lanes_->var);
  offset.constant += step * (lanes_->from + part.first);
  return gcc_jit_context_new_array_access(in_.get(), nullptr, array, scalars_.index(offset));
}

gcc_jit_lvalue* GccjitLanes::of_buffer(BufferId buffer, const std::vector<Affine>& at,
                                       const LanePart& part) {
  return at_lane(scalars_.buffer(buffer), loop_.buffers[buffer].type, at, part);
}

gcc_jit_lvalue* GccjitLanes::of_array(LocalId local, const std::vector<Affine>& at,
                                      const LanePart& part) {
  return at_lane(read(arrays_.at(local)), blocks_.at(local), at, part);
}

gcc_jit_lvalue* GccjitLanes::in_memory(DType t, gcc_jit_lvalue* first) {
  return gcc_jit_rvalue_dereference(in_.cast(gcc_jit_lvalue_get_address(first, nullptr),
                                             gcc_jit_type_get_pointer(type(t).in_memory)),
                                    nullptr);
}

/// libgccjit makes things in the order in which they were asked for: operands come first.
gcc_jit_extended_asm* GccjitLanes::instruction(const std::string& text) {
  return gcc_jit_block_add_extended_asm(scalars_.block(), nullptr, text.c_str());
}

/// The lanes of a part as the bits of a mask register.
gcc_jit_rvalue* GccjitLanes::mask(DType t, const LanePart& part) {
  const auto bits = (std::int64_t{1} << part.count) - 1;
  return gcc_jit_context_new_rvalue_from_long(in_.get(), mask_type(t), bits);
}

gcc_jit_type* GccjitLanes::mask_type(DType t) {
  return in_.type(target_.lanes(t) > 8 ? DType::u16 : DType::u8);
}

gcc_jit_type* GccjitLanes::value_type(DType t) {
  if (t != DType::bool_) return type(t).vector;
  return has_mask_registers(target_) ? mask_type(word_) : type(word_).vector;
}

gcc_jit_rvalue* GccjitLanes::mask_splat(gcc_jit_rvalue* value) {
  const bool masks = has_mask_registers(target_);
  gcc_jit_type* whole = masks ? mask_type(word_) : in_.type(word_);
  gcc_jit_rvalue* ones = gcc_jit_context_new_unary_op(in_.get(), nullptr, GCC_JIT_UNARY_OP_MINUS,
                                                      whole, in_.cast(value, whole));
  return masks ? ones : splat(word_, ones);
}

void GccjitLanes::copy_bytes(gcc_jit_rvalue* to, gcc_jit_rvalue* from, std::int64_t bytes) {
  gcc_jit_context* c = in_.get();
  gcc_jit_type* pointer = gcc_jit_context_get_type(c, GCC_JIT_TYPE_VOID_PTR);
  gcc_jit_rvalue* args[] = {in_.cast(to, pointer), in_.cast(from, pointer),
                            gcc_jit_context_new_rvalue_from_long(
                                c, gcc_jit_context_get_type(c, GCC_JIT_TYPE_SIZE_T), bytes)};
  gcc_jit_block_add_eval(
      scalars_.block(), nullptr,
      gcc_jit_context_new_call(
          c, nullptr, gcc_jit_context_get_builtin_function(c, "__builtin_memcpy"), 3, args));
}

gcc_jit_rvalue* GccjitLanes::load(DType t, gcc_jit_lvalue* first, const LanePart& part) {
  if (part.whole) return read(in_memory(t, first));
  gcc_jit_lvalue* made = variable(type(t).vector, "part");
  if (target_.isa == Isa::avx512) {
    gcc_jit_rvalue* from = read(in_memory(t, first));
    gcc_jit_rvalue* lanes = mask(t, part);
    gcc_jit_extended_asm* masked =
        instruction(fmt::format("vmovup{} %1, %0%{{%2%}}%{{z%}}", letter(t)));
    gcc_jit_extended_asm_add_output_operand(masked, nullptr, "=v", made);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "m", from);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "Yk", lanes);
  } else {
    set(made,
        splat(t, in_.literal(is_floating(t) ? Scalar::of_float(t, 0) : Scalar::of_int(t, 0))));
    copy_bytes(gcc_jit_lvalue_get_address(made, nullptr),
               gcc_jit_lvalue_get_address(first, nullptr),
               part.count * static_cast<std::int64_t>(size_of(t)));
  }
  return read(made);
}

void GccjitLanes::store(DType t, gcc_jit_lvalue* first, gcc_jit_rvalue* value,
                        const LanePart& part) {
  if (part.whole) return set(in_memory(t, first), value);
  if (target_.isa == Isa::avx512) {
    gcc_jit_lvalue* to = in_memory(t, first);
    gcc_jit_rvalue* lanes = mask(t, part);
    gcc_jit_extended_asm* masked = instruction(fmt::format("vmovup{} %1, %0%{{%2%}}", letter(t)));
    gcc_jit_extended_asm_add_output_operand(masked, nullptr, "+m", to);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "v", value);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "Yk", lanes);
  } else {
    gcc_jit_lvalue* whole = variable(type(t).vector, "part");
    set(whole, value);
    copy_bytes(gcc_jit_lvalue_get_address(first, nullptr),
               gcc_jit_lvalue_get_address(whole, nullptr),
               part.count * static_cast<std::int64_t>(size_of(t)));
  }
}

void GccjitLanes::stream(DType t, gcc_jit_lvalue* first, gcc_jit_rvalue* value) {
  gcc_jit_lvalue* to = in_memory(t, first);
  gcc_jit_rvalue* address = gcc_jit_lvalue_get_address(first, nullptr);
  gcc_jit_extended_asm* spelt = instruction(stream_instruction(t, target_));
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, "=m", to);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, "r", address);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, lane_constraint(t, target_), value);
  gcc_jit_extended_asm_add_clobber(spelt, "cc");
}

void GccjitLanes::end() {
  if (!has_streams(loop_, target_)) return;
  gcc_jit_extended_asm* spelt = instruction(after_streaming);
  gcc_jit_extended_asm_set_volatile_flag(spelt, 1);
  gcc_jit_extended_asm_add_clobber(spelt, "memory");
}

gcc_jit_rvalue* GccjitLanes::value(const Value& v, const LanePart& part) {
  for (const auto& [known, variable] : splat_) {
    if (equal(*known, v)) return read(variable);
  }
  switch (v.kind) {
    case ValueKind::load:
      return load(v.dtype, of_buffer(v.buffer, v.subscripts, part), part);
    case ValueKind::local:
      if (plan_.is_column(v, lanes_->var)) return read(column(v, part));
      if (v.subscripts.empty() || plan_.in_registers.contains(v.local))
        return read(place(v.local, v.subscripts, part));
      return load(v.dtype, of_array(v.local, v.subscripts, part), part);
    default:
      return operation(v, part);
  }
}

gcc_jit_rvalue* GccjitLanes::operation(const Value& v, const LanePart& part) {
  const PrimFunction function = lane_function(v, target_);
  std::vector<gcc_jit_lvalue*> values;  // each is used several times
  for (const ValuePtr& arg : v.args) {
    gcc_jit_rvalue* made = value(*arg, part);
    values.push_back(variable(value_type(arg->dtype), "v"));
    set(values.back(), made);
  }
  for (const Prim& prim : function.code) {
    gcc_jit_type* made = value_type(prim.type);
    gcc_jit_lvalue* result = variable(made, "v");
    compute(prim, function, made, result, values);
    values.push_back(result);
  }
  return read(values[function.value]);
}

void GccjitLanes::compute(const Prim& prim, const PrimFunction& function, gcc_jit_type* made,
                          gcc_jit_lvalue* result, const std::vector<gcc_jit_lvalue*>& values) {
  const auto arg = [&](std::size_t k) { return read(values[prim.args[k]]); };
  const auto binary = [&](gcc_jit_binary_op op, gcc_jit_type* of, gcc_jit_rvalue* a,
                          gcc_jit_rvalue* b) {
    return gcc_jit_context_new_binary_op(in_.get(), nullptr, op, of, a, b);
  };
  const auto bits_of = [&](gcc_jit_rvalue* from, gcc_jit_type* to) {
    return gcc_jit_context_new_bitcast(in_.get(), nullptr, from, to);
  };
  switch (lane_form(prim, function, target_)) {
    case LaneForm::constant:
      return set(result, splat(prim.type, in_.literal(prim.scalar)));
    case LaneForm::infix:
    case LaneForm::mask_infix:
      return set(result, binary(gccjit_binary_op(prim.op), made, arg(0), arg(1)));
    case LaneForm::negate:
      return set(result, gcc_jit_context_new_unary_op(in_.get(), nullptr, GCC_JIT_UNARY_OP_MINUS,
                                                      made, arg(0)));
    case LaneForm::same_bits:
      return set(result, bits_of(arg(0), made));
    case LaneForm::magnitude: {
      const DType bits = size_of(prim.type) == 8 ? DType::u64 : DType::u32;
      gcc_jit_type* whole = type(bits).vector;
      gcc_jit_lvalue* one = variable(whole, "one");
      set(one, splat(bits, in_.integer(bits, 1)));
      gcc_jit_rvalue* up =
          binary(GCC_JIT_BINARY_OP_LSHIFT, whole, bits_of(arg(0), whole), read(one));
      return set(result, bits_of(binary(GCC_JIT_BINARY_OP_RSHIFT, whole, up, read(one)), made));
    }
    default:
      spell(prim, function, result, values);
  }
}

/// An instruction spelt out.
void GccjitLanes::spell(const Prim& prim, const PrimFunction& function, gcc_jit_lvalue* result,
                        const std::vector<gcc_jit_lvalue*>& values) {
  std::vector<gcc_jit_rvalue*> operands;
  for (std::uint32_t k = 0; k < num_operands(prim); ++k)
    operands.push_back(read(values[prim.args[k]]));
  gcc_jit_extended_asm* spelt = instruction(lane_instruction(prim, function, target_));
  const std::string output = fmt::format("={}", lane_constraint(prim.type, target_));
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, output.c_str(), result);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool begins = k == 2 && is_multiply_add(prim);
    gcc_jit_extended_asm_add_input_operand(
        spelt, nullptr, begins ? "0" : lane_constraint(function.type_of(prim.args[k]), target_),
        operands[k]);
  }
}

}  // namespace heddle::jit
