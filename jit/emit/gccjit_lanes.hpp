// Lanes loops through libgccjit: statement for statement what emit/c_lanes.cpp prints. Linked into
// heddle-compile only. One object per kernel being emitted; one thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/emit/gccjit_primitives.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// What the scalar emitter lends to that of lanes.
struct GccjitScalars {
  gcc_jit_function* function = nullptr;
  std::function<gcc_jit_block*()> block;  ///< where code goes now
  std::function<gcc_jit_rvalue*(const Value&)> value;
  std::function<gcc_jit_rvalue*(const Affine&)> index;
  std::function<gcc_jit_rvalue*(BufferId)> buffer;  ///< pointer to its first element
};

class GccjitLanes {
 public:
  GccjitLanes(GccjitContext& in, const Loop& loop, const LanePlan& plan, const Target& target)
      : in_(in), loop_(loop), target_(target), plan_(plan) {}
  void set_scalars(GccjitScalars scalars) { scalars_ = std::move(scalars); }

  [[nodiscard]] bool is_vector_loop(const Stmt& loop) const {
    return plan_.vectors.contains(loop.var);
  }
  /// A local block as vector variables, or as the array that it gives back: still to be filled.
  gcc_jit_lvalue* declare(const Stmt& stmt);
  void loop(const Stmt& stmt);
  /// Code may be repeated or skipped from here on: what was computed for other statements before
  /// holds no longer.
  void forget() { turned_.clear(); }
  /// Before the kernel returns.
  void end();
  /// An element of a block that is an array.
  [[nodiscard]] gcc_jit_lvalue* element(LocalId local, const std::vector<Affine>& at);

 private:
  /// The types of a vector, and of one in memory that has the alignment of its elements alone.
  struct VectorType {
    gcc_jit_type* vector = nullptr;
    gcc_jit_type* in_memory = nullptr;
  };
  VectorType type(DType t);
  gcc_jit_lvalue* variable(gcc_jit_type* type, const std::string& name);
  void set(gcc_jit_lvalue* to, gcc_jit_rvalue* value);
  gcc_jit_rvalue* splat(DType t, gcc_jit_rvalue* value);
  void share(const ValuePtr& value);
  void part(const Stmt& loop, const LanePart& part);
  gcc_jit_rvalue* value(const Value& v, const LanePart& part);
  gcc_jit_rvalue* operation(const Value& v, const LanePart& part);
  gcc_jit_lvalue* column(const Value& v, const LanePart& part);
  void transpose(LocalId local, const LanePart& part);
  gcc_jit_lvalue* place(LocalId local, const std::vector<Affine>& at, const LanePart& part);
  /// The element that these lanes begin with.
  gcc_jit_lvalue* of_buffer(BufferId buffer, const std::vector<Affine>& at, const LanePart& part);
  gcc_jit_lvalue* of_array(LocalId local, const std::vector<Affine>& at, const LanePart& part);
  gcc_jit_lvalue* at_lane(gcc_jit_rvalue* array, const ArrayType& type,
                          const std::vector<Affine>& at, const LanePart& part);
  /// The vector in memory that begins with this element.
  gcc_jit_lvalue* in_memory(DType t, gcc_jit_lvalue* first);
  gcc_jit_rvalue* load(DType t, gcc_jit_lvalue* first, const LanePart& part);
  void store(DType t, gcc_jit_lvalue* first, gcc_jit_rvalue* value, const LanePart& part);
  void stream(DType t, gcc_jit_lvalue* first, gcc_jit_rvalue* value);
  gcc_jit_extended_asm* instruction(const std::string& text);
  void copy_bytes(gcc_jit_rvalue* to, gcc_jit_rvalue* from, std::int64_t bytes);
  gcc_jit_rvalue* mask(DType t, const LanePart& part);
  gcc_jit_type* mask_type(DType t);
  /// Of values in the lanes at hand: a bool is a mask.
  gcc_jit_type* value_type(DType t);
  gcc_jit_rvalue* mask_splat(gcc_jit_rvalue* value);
  /// An instruction of a primitive function on vectors; `values` are those before it.
  void compute(const Prim& prim, const PrimFunction& function, gcc_jit_type* made,
               gcc_jit_lvalue* result, const std::vector<gcc_jit_lvalue*>& values);
  void spell(const Prim& prim, const PrimFunction& function, gcc_jit_lvalue* result,
             const std::vector<gcc_jit_lvalue*>& values);

  GccjitContext& in_;
  const Loop& loop_;
  const Target target_;
  const LanePlan& plan_;
  GccjitScalars scalars_;
  std::map<DType, VectorType> types_;
  std::map<LocalId, ArrayType> blocks_;
  std::map<LocalId, gcc_jit_lvalue*> arrays_;
  // Blocks whose columns are those of their rows now, and from which lane on.
  std::set<std::pair<LocalId, std::int64_t>> turned_;
  std::map<std::string, gcc_jit_lvalue*> variables_;  // by the names of emit/c_lanes.cpp
  // Of the loop at hand:
  const Stmt* lanes_ = nullptr;
  std::int64_t width_ = 0;
  DType word_ = DType::u32;
  std::set<LocalId> own_;
  std::vector<std::pair<ValuePtr, gcc_jit_lvalue*>> splat_;  // values that all lanes share
};

}  // namespace heddle::jit
