// A kernel through libgccjit: the same hooks as emit/c_dialect.hpp, hook by hook. libgccjit creates
// code in the order of the calls: operands come first. Linked into heddle-compile only. One object
// per kernel being emitted; one thread.
#pragma once

#include <fmt/format.h>

#include <climits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jit/emit/emit.hpp"
#include "jit/emit/gccjit_abi.hpp"
#include "jit/emit/gccjit_primitives.hpp"
#include "jit/vector/lane_prims.hpp"

namespace heddle::jit {

class GccjitDialect {
 public:
  using Made = gcc_jit_rvalue*;
  using Place = gcc_jit_lvalue*;  ///< the element at which the lanes of a vector begin
  static constexpr int expression_depth_max = INT_MAX;

  GccjitDialect(GccjitContext& in, const KernelAbi& abi, const Loop& loop, const Target& target)
      : in_(in), abi_(abi), loop_(loop), target_(target) {}

  // The kernel.
  void begin_kernel(const KernelSource& kernel);
  void take_address(const KernelSource& kernel, BufferId k);
  void end_kernel() { gcc_jit_block_end_with_void_return(block_, nullptr); }
  void declare_zero();
  [[nodiscard]] Made zero() const { return gcc_jit_lvalue_as_rvalue(zero_); }
  void declare_stop() { stop_word_.emplace(in_, abi_, args_, block_); }
  void check_stop() { block_ = stop_word_->check(block_); }
  void end_stops() { block_ = stop_word_->end(block_); }
  void leave_to_first_part();
  template <class Body>
  void by_first_part(const Body& body) {
    when(is_first_part(), body);
  }
  [[nodiscard]] std::pair<Made, Made> slice(const Stmt& loop);
  void end_streams();

  // Statements.
  static void comment(const std::string&) {}
  template <class Body>
  static void scoped(const Body& body) {
    body();
  }
  void bind(VarId var, Made value) {
    vars_[var] = variable(in_.type(DType::i64), fmt::format("i{}", var), value);
  }
  template <class Body>
  void when(Made condition, const Body& body) {
    gcc_jit_block* inside = new_block();
    gcc_jit_block* after = new_block();
    gcc_jit_block_end_with_conditional(block_, nullptr, condition, inside, after);
    block_ = inside;
    body();
    gcc_jit_block_end_with_jump(block_, nullptr, after);
    block_ = after;
  }
  template <class Body>
  static void unrolled_copy(VarId, std::int64_t, const Body& body) {
    body();
  }
  template <class Body>
  void loop(VarId var, Made from, Made to, bool, const Body& body) {
    counted(fmt::format("i{}", var), from, to, [&](gcc_jit_lvalue* counter) {
      vars_[var] = counter;
      body();
    });
  }
  template <class Body>
  void stop_loop(VarId, Made from, Made to, std::int64_t period, const Body& body) {
    block_ =
        stop_word_->loop(block_, from, to, period, [&](gcc_jit_block* block, Made first, Made end) {
          block_ = block;
          body(first, end);
          return block_;
        });
  }
  template <class Body>
  void each_element(std::int64_t count, const Body& body) {
    counted("at", number(0), number(count),
            [&](gcc_jit_lvalue* at) { body(gcc_jit_lvalue_as_rvalue(at)); });
  }
  void zero_buffer(BufferId buffer);
  void declare(LocalId local, DType type, Made start) {
    locals_[local] = variable(in_.type(type), fmt::format("x{}", local), start);
  }
  void assign(LocalId local, Made value) { set(locals_.at(local), value); }
  void assign_element(LocalId local, Made at, Made value) { set(in_block(local, at), value); }
  void store(BufferId buffer, Made at, Made value);
  void prefetch(const PrefetchGroup& group);
  void empty_asm() { instruction(""); }
  void tell(std::uint32_t assignment, BufferId buffer, Made at, Made before, Made after);

  // Values.
  [[nodiscard]] Made named(const char* name, DType type, Made value) {
    return gcc_jit_lvalue_as_rvalue(variable(in_.type(type), name, value));
  }
  [[nodiscard]] Made temporary(DType type, Made value) { return named("y", type, value); }
  [[nodiscard]] Made hidden(DType type, Made value);
  [[nodiscard]] Made number(std::int64_t v) { return in_.integer(DType::i64, v); }
  [[nodiscard]] Made index(const Affine& a);
  [[nodiscard]] Made embed(const Affine& a) { return index(a); }
  [[nodiscard]] Made literal(const Scalar& scalar) { return in_.literal(scalar); }
  [[nodiscard]] Made zero_of(DType t) {
    return in_.literal(is_floating(t) ? Scalar::of_float(t, 0) : Scalar::of_int(t, 0));
  }
  [[nodiscard]] Made load(BufferId buffer, Made at);
  [[nodiscard]] Made local(LocalId local) const {
    return gcc_jit_lvalue_as_rvalue(locals_.at(local));
  }
  [[nodiscard]] Made element(LocalId local, Made at) {
    return gcc_jit_lvalue_as_rvalue(in_block(local, at));
  }
  [[nodiscard]] Made apply(const PrimFunction& function, std::vector<Made> args) {
    return in_.apply(function, std::move(args));
  }

  // Local blocks.
  void declare_array(LocalId local, const ArrayType& type, Made start);
  void declare_rows(LocalId local, DType type, const std::vector<std::vector<std::string>>& rows,
                    Made start);
  static void declare_columns(LocalId, DType, std::int64_t) {}  // turn() makes variables

  // Vectors.
  void begin_lanes(DType type) { word_ = lane_word(size_of(type)); }
  [[nodiscard]] Made in_all_lanes(DType type, Made scalar);
  [[nodiscard]] Made constant_lanes(DType type, const std::vector<Scalar>& lanes);
  [[nodiscard]] Place in_buffer(BufferId buffer, const Affine& at) {
    return of_buffer(buffer, index(at));
  }
  [[nodiscard]] Place in_array(LocalId local, const Affine& at) {
    return in_block(local, index(at));
  }
  [[nodiscard]] Made load_lanes(DType type, Place from, const LanePart& part);
  void store_lanes(DType type, Place to, Made value, const LanePart& part);
  [[nodiscard]] Made round_to_half(Made value) {
    return widened(DType::f16, narrowed(value), lane_constraint(DType::f32, target_));
  }
  void stream_lanes(DType type, Place to, Made value);
  /// Lanes of two vectors, with AVX-512. See CDialect::permute().
  [[nodiscard]] Made permute(DType type, Made first, Made second,
                             const std::vector<std::int64_t>& indices);
  void declare_lanes(const std::string& name, DType type, Made value) {
    lanes_[name] = variable(value_type(type), name, value);
  }
  void assign_lanes(const std::string& name, Made value) { set(lanes_.at(name), value); }
  [[nodiscard]] Made lanes(const std::string& name) const {
    return gcc_jit_lvalue_as_rvalue(lanes_.at(name));
  }
  void turn(LocalId local, const ArrayType& type, std::int64_t first,
            const std::vector<std::string>& rows);
  [[nodiscard]] Made column(LocalId local, std::int64_t k) const { return columns_.at({local, k}); }
  /// A variable with the operand: functions use operands several times.
  [[nodiscard]] Made lane_operand(DType type, Made value) {
    return gcc_jit_lvalue_as_rvalue(variable(value_type(type), "v", value));
  }
  [[nodiscard]] Made apply_lanes(const PrimFunction& function, std::vector<Made> values);

 private:
  [[nodiscard]] gcc_jit_block* new_block() {
    return gcc_jit_function_new_block(function_, nullptr);
  }
  [[nodiscard]] Made argument(gcc_jit_field* field) {
    return gcc_jit_lvalue_as_rvalue(gcc_jit_rvalue_dereference_field(args_, nullptr, field));
  }
  [[nodiscard]] Made is_first_part() {
    return in_.compare(GCC_JIT_COMPARISON_EQ, argument(abi_.part), in_.integer(DType::u32, 0));
  }
  [[nodiscard]] gcc_jit_type* any_pointer() {
    return gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_VOID_PTR);
  }
  void set(gcc_jit_lvalue* to, Made value) {
    gcc_jit_block_add_assignment(block_, nullptr, to, value);
  }
  gcc_jit_lvalue* variable(gcc_jit_type* type, const std::string& name) {
    return gcc_jit_function_new_local(function_, nullptr, type, name.c_str());
  }
  gcc_jit_lvalue* variable(gcc_jit_type* type, const std::string& name, Made value) {
    gcc_jit_lvalue* made = variable(type, name);
    set(made, value);
    return made;
  }
  /// An explicit instruction; the caller adds its operands.
  gcc_jit_extended_asm* instruction(const std::string& text) {
    return gcc_jit_block_add_extended_asm(block_, nullptr, text.c_str());
  }
  void call(const char* builtin, std::vector<Made> args);
  [[nodiscard]] gcc_jit_type* storage_type(BufferId buffer);
  [[nodiscard]] gcc_jit_lvalue* of_buffer(BufferId buffer, Made at) {
    return gcc_jit_context_new_array_access(in_.get(), nullptr,
                                            gcc_jit_lvalue_as_rvalue(buffers_[buffer]), at);
  }
  [[nodiscard]] gcc_jit_lvalue* in_block(LocalId local, Made at) {
    return gcc_jit_context_new_array_access(in_.get(), nullptr,
                                            gcc_jit_lvalue_as_rvalue(locals_.at(local)), at);
  }

  template <class Body>
  void counted(const std::string& name, Made from, Made to, const Body& body) {
    gcc_jit_type* type = in_.type(DType::i64);
    gcc_jit_lvalue* end = variable(type, name + "_to", to);
    gcc_jit_lvalue* counter = variable(type, name, from);
    gcc_jit_block* head = new_block();
    gcc_jit_block* inside = new_block();
    gcc_jit_block* after = new_block();
    gcc_jit_block_end_with_jump(block_, nullptr, head);
    gcc_jit_block_end_with_conditional(
        head, nullptr,
        in_.compare(GCC_JIT_COMPARISON_LT, gcc_jit_lvalue_as_rvalue(counter),
                    gcc_jit_lvalue_as_rvalue(end)),
        inside, after);
    block_ = inside;
    body(counter);
    gcc_jit_block_add_assignment_op(block_, nullptr, counter, GCC_JIT_BINARY_OP_PLUS, number(1));
    gcc_jit_block_end_with_jump(block_, nullptr, head);
    block_ = after;
  }

  /// The types of a vector, and of a vector in memory with only the alignment of its elements.
  struct VectorType {
    gcc_jit_type* vector = nullptr;
    gcc_jit_type* in_memory = nullptr;
  };
  VectorType vector_type(DType t);
  /// The type of values in the current lanes: a bool is a mask.
  gcc_jit_type* value_type(DType t);
  gcc_jit_type* mask_type(DType t);
  Made mask(DType t, const LanePart& part);
  /// The letter of the smallest register that holds the part, and whether the part fills it.
  [[nodiscard]] std::pair<std::string, bool> register_of(DType t, const LanePart& part) const;
  /// Three elements in memory, as two and one. libgccjit 12 dies where statements share a tree,
  /// hence their address is in a variable.
  struct Pieces {
    gcc_jit_lvalue* two;  ///< a vector, whose first two elements they are
    gcc_jit_lvalue* one;
  };
  [[nodiscard]] Pieces pieces(DType t, gcc_jit_lvalue* first);
  Made splat(DType t, Made value);
  Made mask_splat(Made value);
  /// The vector in memory that begins with this element.
  gcc_jit_lvalue* in_memory(DType t, Place first);
  void copy_bytes(Made to, Made from, std::int64_t bytes);
  /// f32 lanes to as many f16 in a narrower vector, and back from an operand with `constraint`.
  Made narrowed(Made value);
  Made widened(DType t, Made halves, const char* constraint);
  Made raised(DType t, gcc_jit_lvalue* words);
  /// An instruction of a primitive function on vectors; `values` are the results before it.
  void compute(const Prim& prim, const PrimFunction& function, gcc_jit_lvalue* result,
               const std::vector<Made>& values);
  void spell(const Prim& prim, const PrimFunction& function, gcc_jit_lvalue* result,
             const std::vector<Made>& values);

  GccjitContext& in_;
  const KernelAbi& abi_;
  const Loop& loop_;
  const Target target_;
  gcc_jit_function* function_ = nullptr;
  gcc_jit_block* block_ = nullptr;  // current block, to which code is added
  Made args_ = nullptr;
  gcc_jit_lvalue* zero_ = nullptr;
  std::optional<GccjitStopWord> stop_word_;
  std::vector<gcc_jit_lvalue*> buffers_, statics_;
  std::map<VarId, gcc_jit_lvalue*> vars_;
  std::map<LocalId, gcc_jit_lvalue*> locals_;  // scalars, and blocks that are arrays
  std::map<std::string, gcc_jit_lvalue*> lanes_;
  std::map<std::pair<LocalId, std::int64_t>, Made> columns_;
  std::map<DType, VectorType> vector_types_;
  DType word_ = DType::u32;  // the size of lanes
};

}  // namespace heddle::jit
