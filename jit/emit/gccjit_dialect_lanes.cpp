// See emit/gccjit_dialect.hpp: vectors. libgccjit 12 has vector types and arithmetic on them; other
// vector operations are explicit instructions, the same as in the C text.
#include <fmt/format.h>

#include <algorithm>

#include "jit/emit/gccjit_dialect.hpp"
#include "jit/vector/lane_transpose.hpp"

namespace heddle::jit {
namespace {

gcc_jit_rvalue* read(gcc_jit_lvalue* lvalue) { return gcc_jit_lvalue_as_rvalue(lvalue); }

std::string_view letter(DType t) { return size_of(t) == 8 ? "d" : "s"; }

}  // namespace

GccjitDialect::VectorType GccjitDialect::vector_type(DType t) {
  VectorType& made = vector_types_[t];
  if (made.vector == nullptr) {
    made.vector =
        gcc_jit_type_get_vector(in_.type(t), static_cast<std::size_t>(target_.lanes(in_lanes(t))));
    made.in_memory = gcc_jit_type_get_aligned(made.vector, size_of(t));
  }
  return made;
}

gcc_jit_rvalue* GccjitDialect::splat(DType t, gcc_jit_rvalue* value) {
  gcc_jit_lvalue* scalar = variable(in_.type(t), "lane", value);
  std::vector<gcc_jit_rvalue*> lanes;
  for (std::int64_t k = 0; k < target_.lanes(in_lanes(t)); ++k) lanes.push_back(read(scalar));
  return gcc_jit_context_new_rvalue_from_vector(in_.get(), nullptr, vector_type(t).vector,
                                                lanes.size(), lanes.data());
}

void GccjitDialect::declare_rows(LocalId local, DType type,
                                 const std::vector<std::vector<std::string>>& rows,
                                 gcc_jit_rvalue* start) {
  gcc_jit_type* vector = vector_type(type).vector;
  gcc_jit_lvalue* first = variable(vector, fmt::format("x{}_start", local));
  set(first, splat(type, start));
  for (const std::vector<std::string>& row : rows) {
    for (const std::string& name : row) lanes_[name] = variable(vector, name, read(first));
  }
}

gcc_jit_rvalue* GccjitDialect::in_all_lanes(DType type, gcc_jit_rvalue* scalar) {
  gcc_jit_lvalue* made = variable(value_type(type), "u");
  set(made, type == DType::bool_ ? mask_splat(scalar) : splat(type, scalar));
  return read(made);
}

gcc_jit_rvalue* GccjitDialect::constant_lanes(DType type, const std::vector<Scalar>& lanes) {
  std::vector<gcc_jit_rvalue*> each;
  for (const Scalar& lane : lanes) each.push_back(in_.literal(lane));
  return gcc_jit_context_new_rvalue_from_vector(in_.get(), nullptr, vector_type(type).vector,
                                                each.size(), each.data());
}

void GccjitDialect::turn(LocalId local, const ArrayType& block, std::int64_t first,
                         const std::vector<std::string>& rows) {
  std::vector<gcc_jit_rvalue*> values;
  for (const std::string& row : rows) values.push_back(lanes(row));
  const char* const operand = lane_constraint(block.dtype, target_);
  const std::string result = fmt::format("={}", operand);
  for (const LaneShuffle& each : lane_transpose(block.dtype, target_)) {
    gcc_jit_lvalue* made = variable(vector_type(block.dtype).vector, "turned");
    gcc_jit_extended_asm* spelt = instruction(each.instruction);
    gcc_jit_extended_asm_add_output_operand(spelt, nullptr, result.c_str(), made);
    gcc_jit_extended_asm_add_input_operand(spelt, nullptr, operand, values[each.first]);
    gcc_jit_extended_asm_add_input_operand(spelt, nullptr, operand, values[each.second]);
    values.push_back(read(made));
  }
  const std::size_t columns = values.size() - rows.size();
  for (std::int64_t k = 0; k < block.dims[1]; ++k)
    columns_[{local, first + k}] = values[columns + static_cast<std::size_t>(k)];
}

gcc_jit_rvalue* GccjitDialect::permute(DType type, gcc_jit_rvalue* first, gcc_jit_rvalue* second,
                                       const std::vector<std::int64_t>& indices) {
  const DType index = size_of(type) == 8 ? DType::i64 : DType::i32;
  std::vector<Scalar> lanes;
  for (const std::int64_t lane : indices) lanes.push_back(Scalar::of_int(index, lane));
  gcc_jit_type* vector = vector_type(type).vector;
  gcc_jit_lvalue* made = variable(vector, "permuted", first);
  gcc_jit_lvalue* other = variable(vector, "other", second);
  gcc_jit_lvalue* from = variable(vector_type(index).vector, "from", constant_lanes(index, lanes));
  gcc_jit_extended_asm* spelt = instruction(fmt::format("vpermt2p{} %2, %1, %0", letter(type)));
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, "+v", made);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, "v", read(from));
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, "v", read(other));
  return read(made);
}

gcc_jit_lvalue* GccjitDialect::in_memory(DType t, gcc_jit_lvalue* first) {
  return gcc_jit_rvalue_dereference(in_.cast(gcc_jit_lvalue_get_address(first, nullptr),
                                             gcc_jit_type_get_pointer(vector_type(t).in_memory)),
                                    nullptr);
}

/// The lanes of a part as the bits of a mask register, or of a vector.
gcc_jit_rvalue* GccjitDialect::mask(DType t, const LanePart& part) {
  if (!has_mask_registers(target_)) {
    const DType integer = size_of(t) == 8 ? DType::i64 : DType::i32;
    const auto number = [&](long value) {
      return read(
          variable(in_.type(integer), "lane",
                   gcc_jit_context_new_rvalue_from_long(in_.get(), in_.type(integer), value)));
    };
    std::vector<gcc_jit_rvalue*> lanes(static_cast<std::size_t>(target_.lanes(t)), number(0));
    std::fill_n(lanes.begin(), part.count, number(-1));
    gcc_jit_lvalue* made = variable(vector_type(integer).vector, "mask");
    set(made, gcc_jit_context_new_rvalue_from_vector(
                  in_.get(), nullptr, vector_type(integer).vector, lanes.size(), lanes.data()));
    return read(made);
  }
  const auto bits = (std::int64_t{1} << part.count) - 1;
  return gcc_jit_context_new_rvalue_from_long(in_.get(), mask_type(t), bits);
}

std::pair<std::string, bool> GccjitDialect::register_of(DType t, const LanePart& part) const {
  const std::int64_t bytes = part.count * static_cast<std::int64_t>(size_of(t));
  const PartRegister found = part_register(target_, bytes);
  return {std::string(found.letter == 0 ? 0 : 1, found.letter), found.bytes == bytes};
}

GccjitDialect::Pieces GccjitDialect::pieces(DType t, gcc_jit_lvalue* first) {
  gcc_jit_type* pointer = gcc_jit_type_get_pointer(in_.type(t));
  gcc_jit_lvalue* from =
      variable(pointer, "from", in_.cast(gcc_jit_lvalue_get_address(first, nullptr), pointer));
  gcc_jit_rvalue* two = gcc_jit_context_new_rvalue_from_int(
      in_.get(), gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_INT), 2);
  return {in_memory(t, gcc_jit_rvalue_dereference(read(from), nullptr)),
          gcc_jit_context_new_array_access(in_.get(), nullptr, read(from), two)};
}

gcc_jit_type* GccjitDialect::mask_type(DType t) {
  return in_.type(target_.lanes(in_lanes(t)) > 8 ? DType::u16 : DType::u8);
}

gcc_jit_type* GccjitDialect::value_type(DType t) {
  if (t != DType::bool_) return vector_type(t).vector;
  return has_mask_registers(target_) ? mask_type(word_) : vector_type(word_).vector;
}

gcc_jit_rvalue* GccjitDialect::mask_splat(gcc_jit_rvalue* value) {
  const bool masks = has_mask_registers(target_);
  gcc_jit_type* whole = masks ? mask_type(word_) : in_.type(word_);
  gcc_jit_rvalue* ones = gcc_jit_context_new_unary_op(in_.get(), nullptr, GCC_JIT_UNARY_OP_MINUS,
                                                      whole, in_.cast(value, whole));
  return masks ? ones : splat(word_, ones);
}

void GccjitDialect::copy_bytes(gcc_jit_rvalue* to, gcc_jit_rvalue* from, std::int64_t bytes) {
  gcc_jit_type* size = gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_SIZE_T);
  call("__builtin_memcpy", {in_.cast(to, any_pointer()), in_.cast(from, any_pointer()),
                            gcc_jit_context_new_rvalue_from_long(in_.get(), size, bytes)});
}

gcc_jit_rvalue* GccjitDialect::narrowed(gcc_jit_rvalue* value) {
  const std::string constraint = lane_constraint(DType::f32, target_);
  gcc_jit_lvalue* made = variable(vector_type(DType::f16).vector, "half");
  gcc_jit_extended_asm* spelt = instruction(narrow_to_half);
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, ("=" + constraint).c_str(), made);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, constraint.c_str(), value);
  return read(made);
}

/// Elements of `t`, of 8 or 16 bits, as f32.
gcc_jit_rvalue* GccjitDialect::widened(DType t, gcc_jit_rvalue* halves, const char* constraint) {
  gcc_jit_lvalue* made = variable(vector_type(DType::f32).vector, "wide");
  const std::string result = fmt::format("={}", lane_constraint(DType::f32, target_));
  gcc_jit_extended_asm* spelt = instruction(widening(t));
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, result.c_str(), made);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, constraint, halves);
  return raised(t, made);
}

gcc_jit_rvalue* GccjitDialect::raised(DType t, gcc_jit_lvalue* words) {
  if (in_lanes(t) == t || after_widening(t) == nullptr) return read(words);
  const std::string constraint = lane_constraint(DType::f32, target_);
  gcc_jit_lvalue* made = variable(vector_type(DType::f32).vector, "raised");
  gcc_jit_extended_asm* spelt = instruction(after_widening(t));
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, ("=" + constraint).c_str(), made);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, constraint.c_str(), read(words));
  return read(made);
}

gcc_jit_rvalue* GccjitDialect::load_lanes(DType t, gcc_jit_lvalue* first, const LanePart& part) {
  if (t == DType::bool_) t = DType::u8;  // in memory
  const bool narrow = in_lanes(t) != t;
  if (part.whole) {
    gcc_jit_rvalue* from = read(in_memory(t, first));
    return narrow ? widened(t, from, "m") : from;
  }
  if (in_pieces(part, t, target_)) {  // see `pieces` in emit/c_vectors.cpp
    gcc_jit_lvalue* made = variable(vector_type(t).vector, "part");
    const Pieces from = pieces(t, first);
    gcc_jit_extended_asm* two = instruction("vmovsd %1, %x0");
    gcc_jit_extended_asm_add_output_operand(two, nullptr, "=v", made);
    gcc_jit_extended_asm_add_input_operand(two, nullptr, "m", read(from.two));
    gcc_jit_extended_asm* one = instruction("vinsertps $32, %1, %x0, %x0");
    gcc_jit_extended_asm_add_output_operand(one, nullptr, "+v", made);
    gcc_jit_extended_asm_add_input_operand(one, nullptr, "m", read(from.one));
    return read(made);
  }
  if (has_mask_registers(target_)) {
    const auto [in, fills] = register_of(t, part);
    gcc_jit_lvalue* made = variable(vector_type(in_lanes(t)).vector, "part");
    gcc_jit_rvalue* from = read(in_memory(t, first));
    if (fills && !narrow) {  // see define_parts() in emit/c_vectors.cpp
      gcc_jit_extended_asm* load = instruction(fmt::format("vmovup{} %1, %{}0", letter(t), in));
      gcc_jit_extended_asm_add_output_operand(load, nullptr, "=v", made);
      gcc_jit_extended_asm_add_input_operand(load, nullptr, "m", from);
      return read(made);
    }
    gcc_jit_rvalue* lanes = mask(t, part);
    const std::string load = narrow ? widening(t) : fmt::format("vmovup{} %1, %{}0", letter(t), in);
    gcc_jit_extended_asm* masked = instruction(load + "%{%2%}%{z%}");
    gcc_jit_extended_asm_add_output_operand(masked, nullptr, "=v", made);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "m", from);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "Yk", lanes);
    return raised(t, made);
  }
  gcc_jit_lvalue* made = variable(vector_type(t).vector, "part");
  if (target_.isa == Isa::avx2 && !narrow) {
    // See avx2_load in emit/c_vectors.cpp.
    gcc_jit_rvalue* from = read(in_memory(t, first));
    gcc_jit_rvalue* lanes = mask(t, part);
    gcc_jit_extended_asm* masked = instruction(fmt::format("vmaskmovp{} %2, %1, %0", letter(t)));
    gcc_jit_extended_asm_add_output_operand(masked, nullptr, "=x", made);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "x", lanes);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "m", from);
    return read(made);
  }
  set(made, splat(t, zero_of(t)));
  copy_bytes(gcc_jit_lvalue_get_address(made, nullptr), gcc_jit_lvalue_get_address(first, nullptr),
             part.count * static_cast<std::int64_t>(size_of(t)));
  if (!narrow) return read(made);
  return widened(t, read(made), size_of(t) == 1 ? "m" : lane_constraint(DType::f32, target_));
}

void GccjitDialect::store_lanes(DType t, gcc_jit_lvalue* first, gcc_jit_rvalue* value,
                                const LanePart& part) {
  const bool half = t == DType::f16;
  if (part.whole) return set(in_memory(t, first), half ? narrowed(value) : value);
  if (has_mask_registers(target_)) {
    if (in_pieces(part, t, target_)) {
      gcc_jit_lvalue* made = variable(vector_type(t).vector, "part", value);
      const Pieces into = pieces(t, first);
      gcc_jit_extended_asm* two = instruction("vmovlps %x1, %0");
      gcc_jit_extended_asm_add_output_operand(two, nullptr, "+m", into.two);
      gcc_jit_extended_asm_add_input_operand(two, nullptr, "v", read(made));
      gcc_jit_extended_asm* one = instruction("vextractps $2, %x1, %0");
      gcc_jit_extended_asm_add_output_operand(one, nullptr, "=m", into.one);
      gcc_jit_extended_asm_add_input_operand(one, nullptr, "v", read(made));
      return;
    }
    gcc_jit_lvalue* to = in_memory(t, first);
    const auto [in, fills] = register_of(t, part);
    if (fills && !half) {
      gcc_jit_extended_asm* store = instruction(fmt::format("vmovup{} %{}1, %0", letter(t), in));
      gcc_jit_extended_asm_add_output_operand(store, nullptr, "+m", to);
      gcc_jit_extended_asm_add_input_operand(store, nullptr, "v", value);
      return;
    }
    gcc_jit_rvalue* lanes = mask(t, part);
    const std::string store =
        half ? narrow_to_half : fmt::format("vmovup{} %{}1, %0", letter(t), in);
    gcc_jit_extended_asm* masked = instruction(store + "%{%2%}");
    gcc_jit_extended_asm_add_output_operand(masked, nullptr, "+m", to);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "v", value);
    gcc_jit_extended_asm_add_input_operand(masked, nullptr, "Yk", lanes);
  } else {
    gcc_jit_lvalue* whole = variable(vector_type(t).vector, "part");
    set(whole, half ? narrowed(value) : value);
    copy_bytes(gcc_jit_lvalue_get_address(first, nullptr),
               gcc_jit_lvalue_get_address(whole, nullptr),
               part.count * static_cast<std::int64_t>(size_of(t)));
  }
}

void GccjitDialect::stream_lanes(DType t, gcc_jit_lvalue* first, gcc_jit_rvalue* value) {
  gcc_jit_lvalue* to = in_memory(t, first);
  gcc_jit_rvalue* address = gcc_jit_lvalue_get_address(first, nullptr);
  gcc_jit_extended_asm* spelt = instruction(stream_instruction(t, target_));
  gcc_jit_extended_asm_add_output_operand(spelt, nullptr, "=m", to);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, "r", address);
  gcc_jit_extended_asm_add_input_operand(spelt, nullptr, lane_constraint(t, target_), value);
  gcc_jit_extended_asm_add_clobber(spelt, "cc");
}

gcc_jit_rvalue* GccjitDialect::apply_lanes(const PrimFunction& function,
                                           std::vector<gcc_jit_rvalue*> values) {
  for (const Prim& prim : function.code) {
    gcc_jit_lvalue* result = variable(value_type(prim.type), "v");
    compute(prim, function, result, values);
    values.push_back(read(result));
  }
  return values[function.value];
}

void GccjitDialect::compute(const Prim& prim, const PrimFunction& function, gcc_jit_lvalue* result,
                            const std::vector<gcc_jit_rvalue*>& values) {
  gcc_jit_type* made = value_type(prim.type);
  const auto arg = [&](std::size_t k) { return values[prim.args[k]]; };
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
    case LaneForm::table: {
      std::vector<gcc_jit_rvalue*> entries;
      for (const float each : prim.entries)
        entries.push_back(in_.literal(Scalar::of_float(prim.type, double{each})));
      return set(result, gcc_jit_context_new_rvalue_from_vector(in_.get(), nullptr, made,
                                                                entries.size(), entries.data()));
    }
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
      gcc_jit_type* whole = vector_type(bits).vector;
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

/// Writes an explicit instruction.
void GccjitDialect::spell(const Prim& prim, const PrimFunction& function, gcc_jit_lvalue* result,
                          const std::vector<gcc_jit_rvalue*>& values) {
  std::vector<gcc_jit_rvalue*> operands;
  for (std::uint32_t k = 0; k < num_operands(prim); ++k) operands.push_back(values[prim.args[k]]);
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
