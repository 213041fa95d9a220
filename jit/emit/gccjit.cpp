// See emit/gccjit.hpp. Statement for statement what emit/c.cpp prints.
#include "jit/emit/gccjit.hpp"

#include <fmt/format.h>

#include <optional>

#include "jit/emit/gccjit_abi.hpp"
#include "jit/emit/gccjit_lanes.hpp"
#include "jit/emit/gccjit_primitives.hpp"
#include "jit/emit/workarounds.hpp"
#include "jit/loop/address.hpp"
#include "jit/lower/stop_checks.hpp"

namespace heddle::jit {
namespace {

class GccjitKernel {
 public:
  // Each single assignment is told to a tracer: no vectors.
  GccjitKernel(GccjitContext& in, const KernelAbi& abi, const KernelSource& kernel, bool trace,
               const Target& target)
      : in_(in),
        abi_(abi),
        kernel_(kernel),
        loop_(*kernel.loop),
        nested_sums_(nested_sums(loop_.body)),
        hidden_(loop_.body),
        stops_(stop_checks(loop_)),
        trace_(trace),
        plan_(lane_plan_of(kernel, trace ? Target() : target)),
        lanes_(in, loop_, *plan_, trace ? Target() : target),
        scalar_loops_(loop_, *plan_) {
    gcc_jit_context* c = in.get();
    gcc_jit_param* args = gcc_jit_context_new_param(c, nullptr, abi.args_ptr, "args");
    args_ = gcc_jit_param_as_rvalue(args);
    function_ = gcc_jit_context_new_function(c, nullptr, GCC_JIT_FUNCTION_EXPORTED,
                                             gcc_jit_context_get_type(c, GCC_JIT_TYPE_VOID),
                                             kernel_symbol(kernel.name).c_str(), 1, &args, 0);
    block_ = new_block();
    lanes_.set_scalars({function_, [this] { return block_; },
                        [this](const Value& v) { return value(v); },
                        [this](const Affine& a) { return affine(a); },
                        [this](BufferId k) { return gcc_jit_lvalue_as_rvalue(buffers_[k]); }});
  }
  GccjitKernel(const GccjitKernel&) = delete;
  GccjitKernel& operator=(const GccjitKernel&) = delete;

  void emit() {
    for (std::size_t k = 0; k < loop_.buffers.size(); ++k) buffer(k);
    for (std::size_t k = 0; k < loop_.statics.size(); ++k) {
      gcc_jit_rvalue* value = gcc_jit_lvalue_as_rvalue(gcc_jit_context_new_array_access(
          in_.get(), nullptr, argument(abi_.statics), i64(static_cast<std::int64_t>(k))));
      statics_.push_back(local(in_.type(DType::i64), fmt::format("s{}", k), value));
    }
    if (hidden_.any()) {
      zero_ = local(in_.type(DType::u64), "zero", in_.integer(DType::u64, 0));
      gcc_jit_extended_asm* hidden = gcc_jit_block_add_extended_asm(block_, nullptr, "");
      gcc_jit_extended_asm_add_output_operand(hidden, nullptr, "+r", zero_);
    }
    if (stops_.any) stop_word_.emplace(in_, abi_, args_, block_);
    const bool split = has_parallel_loops(loop_);
    if (!split) {
      gcc_jit_block* whole = new_block();
      gcc_jit_block* done = new_block();
      gcc_jit_block_end_with_conditional(block_, nullptr, is_first_part(), whole, done);
      gcc_jit_block_end_with_void_return(done, nullptr);
      block_ = whole;
    }
    for (const StmtPtr& stmt : loop_.body) {
      if (stops_.before(*stmt)) block_ = stop_word_->check(block_);
      const bool assigns = stmt->kind == StmtKind::loop || stmt->kind == StmtKind::zero ||
                           stmt->kind == StmtKind::store;
      if (!split || !assigns) {
        statement(*stmt);
      } else if (stmt->kind == StmtKind::loop && stmt->mark == LoopMark::parallel) {
        counted_loop(*stmt, slice(*stmt, 0), slice(*stmt, 1));
      } else {
        gcc_jit_block* mine = new_block();
        gcc_jit_block* after = new_block();
        gcc_jit_block_end_with_conditional(block_, nullptr, is_first_part(), mine, after);
        block_ = mine;
        statement(*stmt);
        gcc_jit_block_end_with_jump(block_, nullptr, after);
        block_ = after;
      }
    }
    if (stop_word_) block_ = stop_word_->end(block_);
    lanes_.end();
    gcc_jit_block_end_with_void_return(block_, nullptr);
  }

 private:
  gcc_jit_block* new_block() { return gcc_jit_function_new_block(function_, nullptr); }
  gcc_jit_rvalue* i64(std::int64_t value) { return in_.integer(DType::i64, value); }
  gcc_jit_rvalue* argument(gcc_jit_field* field) {
    return gcc_jit_lvalue_as_rvalue(gcc_jit_rvalue_dereference_field(args_, nullptr, field));
  }
  gcc_jit_rvalue* is_first_part() {
    return in_.compare(GCC_JIT_COMPARISON_EQ, argument(abi_.part), in_.integer(DType::u32, 0));
  }
  gcc_jit_lvalue* local(gcc_jit_type* type, const std::string& name, gcc_jit_rvalue* value) {
    gcc_jit_lvalue* made = gcc_jit_function_new_local(function_, nullptr, type, name.c_str());
    gcc_jit_block_add_assignment(block_, nullptr, made, value);
    return made;
  }

  /// Bytes of bool buffers may hold more than 0 and 1, so they are not bool to the compiler.
  gcc_jit_type* storage_type(BufferId k) {
    const DType t = loop_.buffers[k].type.dtype;
    return in_.type(t == DType::bool_ ? DType::u8 : t);
  }

  void buffer(std::size_t k) {
    gcc_jit_type* pointer = gcc_jit_type_get_pointer(storage_type(static_cast<BufferId>(k)));
    const auto address = embedded_address(kernel_, k);
    gcc_jit_rvalue* value = nullptr;
    if (address) {
      value = gcc_jit_context_new_rvalue_from_ptr(in_.get(), pointer,
                                                  reinterpret_cast<void*>(*address));
    } else {
      gcc_jit_lvalue* entry = gcc_jit_context_new_array_access(
          in_.get(), nullptr, argument(abi_.buffers), i64(static_cast<std::int64_t>(k)));
      value =
          in_.cast(gcc_jit_rvalue_access_field(gcc_jit_lvalue_as_rvalue(entry), nullptr, abi_.data),
                   pointer);
    }
    buffers_.push_back(local(pointer, fmt::format("t{}", k), value));
  }

  void statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::comment:
        return;
      case StmtKind::loop:
        loop(stmt);
        return;
      case StmtKind::zero:
        zero(stmt);
        return;
      case StmtKind::prefetch:
        prefetches(stmt);
        return;
      case StmtKind::store:
        store(stmt);
        return;
      case StmtKind::declare:
        if (!stmt.dims.empty()) return block(stmt);
        locals_[stmt.local] =
            local(in_.type(stmt.value->dtype), fmt::format("x{}", stmt.local), value(*stmt.value));
        return;
      case StmtKind::assign:
        gcc_jit_block_add_assignment(block_, nullptr, local_at(stmt.local, stmt.subscripts),
                                     value(*stmt.value));
        if (nested_sums_.contains(stmt.local)) gcc_jit_block_add_extended_asm(block_, nullptr, "");
        return;
    }
  }

  /// Where part + `next` of num_parts begins in the range of a parallel loop.
  gcc_jit_rvalue* slice(const Stmt& stmt, std::int64_t next) {
    gcc_jit_type* wide = gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_UINT128_T);
    const auto binary = [&](gcc_jit_binary_op op, gcc_jit_rvalue* a, gcc_jit_rvalue* b) {
      return gcc_jit_context_new_binary_op(in_.get(), nullptr, op, wide, a, b);
    };
    const auto count = static_cast<std::int64_t>(static_cast<std::uint64_t>(stmt.to) -
                                                 static_cast<std::uint64_t>(stmt.from));
    gcc_jit_rvalue* part = binary(GCC_JIT_BINARY_OP_PLUS, in_.cast(argument(abi_.part), wide),
                                  in_.cast(i64(next), wide));
    gcc_jit_rvalue* offset =
        binary(GCC_JIT_BINARY_OP_DIVIDE,
               binary(GCC_JIT_BINARY_OP_MULT, in_.cast(in_.integer(DType::u64, count), wide), part),
               in_.cast(argument(abi_.num_parts), wide));
    return in_.binary(GCC_JIT_BINARY_OP_PLUS, DType::i64, i64(stmt.from),
                      in_.cast(offset, in_.type(DType::i64)));
  }

  void loop(const Stmt& stmt) {
    if (stmt.mark == LoopMark::lanes && lanes_.is_vector_loop(stmt)) return lanes_.loop(stmt);
    if (stmt.mark != LoopMark::unroll) return counted_loop(stmt, i64(stmt.from), i64(stmt.to));
    if (prefetches(stmt)) return;
    for (std::int64_t k = stmt.from; k < stmt.to; ++k) {
      for (const StmtPtr& inner : unrolled(stmt, k)) statement(*inner);
    }
  }

  /// A local block; one that is an array is filled here.
  void block(const Stmt& stmt) {
    gcc_jit_lvalue* array = lanes_.declare(stmt);
    if (array == nullptr) return;
    gcc_jit_lvalue* start = local(in_.type(stmt.value->dtype), "start", value(*stmt.value));
    const std::int64_t count = *ArrayType{stmt.value->dtype, stmt.dims}.num_elements();
    loop("at", i64(0), i64(count), [&](gcc_jit_lvalue* at) {
      gcc_jit_block_add_assignment(
          block_, nullptr,
          gcc_jit_context_new_array_access(in_.get(), nullptr, gcc_jit_lvalue_as_rvalue(array),
                                           gcc_jit_lvalue_as_rvalue(at)),
          gcc_jit_lvalue_as_rvalue(start));
    });
  }

  gcc_jit_lvalue* local_at(LocalId id, const std::vector<Affine>& subscripts) {
    return subscripts.empty() ? locals_.at(id) : lanes_.element(id, subscripts);
  }

  void counted_loop(const Stmt& stmt, gcc_jit_rvalue* from, gcc_jit_rvalue* to) {
    const std::int64_t period = stops_.period(stmt);
    if (period <= 1) return plain_loop(stmt, from, to);
    block_ =
        stop_word_->loop(block_, from, to, period,
                         [&](gcc_jit_block* block, gcc_jit_rvalue* first, gcc_jit_rvalue* end) {
                           block_ = block;
                           plain_loop(stmt, first, end);
                           return block_;
                         });
  }

  void plain_loop(const Stmt& stmt, gcc_jit_rvalue* from, gcc_jit_rvalue* to) {
    loop(fmt::format("i{}", stmt.var), from, to, [&](gcc_jit_lvalue* counter) {
      vars_[stmt.var] = counter;
      if (stops_.period(stmt) == 1) block_ = stop_word_->check(block_);
      hidden_stores_ = scalar_loops_.hidden_stores(stmt);
      for (const StmtPtr& inner : stmt.body) statement(*inner);
      hidden_stores_.clear();
      if (scalar_loops_.ends_with_asm(stmt)) gcc_jit_block_add_extended_asm(block_, nullptr, "");
    });
  }

  template <class Body>
  void loop(const std::string& name, gcc_jit_rvalue* from, gcc_jit_rvalue* to, Body&& fill) {
    gcc_jit_type* index = in_.type(DType::i64);
    gcc_jit_lvalue* end = local(index, name + "_to", to);
    gcc_jit_lvalue* counter = local(index, name, from);
    gcc_jit_block* head = new_block();
    gcc_jit_block* body = new_block();
    gcc_jit_block* after = new_block();
    gcc_jit_block_end_with_jump(block_, nullptr, head);
    gcc_jit_block_end_with_conditional(
        head, nullptr,
        in_.compare(GCC_JIT_COMPARISON_LT, gcc_jit_lvalue_as_rvalue(counter),
                    gcc_jit_lvalue_as_rvalue(end)),
        body, after);
    block_ = body;
    lanes_.forget();
    fill(counter);
    lanes_.forget();
    gcc_jit_block_add_assignment_op(block_, nullptr, counter, GCC_JIT_BINARY_OP_PLUS, i64(1));
    gcc_jit_block_end_with_jump(block_, nullptr, head);
    block_ = after;
  }

  void zero(const Stmt& stmt) {
    const ArrayType& type = loop_.buffers[stmt.buffer].type;
    if (trace_) {
      loop("at", i64(0), i64(*type.num_elements()), [&](gcc_jit_lvalue* at) {
        traced_store(stmt.buffer, at, in_.literal(Scalar::of_int(type.dtype, 0)));
      });
      return;
    }
    call("__builtin_memset",
         {in_.cast(gcc_jit_lvalue_as_rvalue(buffers_[stmt.buffer]), any_pointer()),
          in_.integer(DType::i32, 0),
          in_.cast(i64(*type.num_bytes()),
                   gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_SIZE_T))});
  }

  gcc_jit_type* any_pointer() { return gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_VOID_PTR); }
  void call(const char* builtin, std::vector<gcc_jit_rvalue*> args) {
    gcc_jit_function* function = gcc_jit_context_get_builtin_function(in_.get(), builtin);
    gcc_jit_block_add_eval(block_, nullptr,
                           gcc_jit_context_new_call(in_.get(), nullptr, function,
                                                    static_cast<int>(args.size()), args.data()));
  }

  /// False where that is not all that it does.
  bool prefetches(const Stmt& stmt) {
    const std::vector<PrefetchGroup> groups = prefetch_groups(loop_, stmt);
    for (const PrefetchGroup& group : groups) prefetch(group);
    return !groups.empty();
  }

  void prefetch(const PrefetchGroup& group) {
    gcc_jit_rvalue* address =
        gcc_jit_lvalue_get_address(element(group.buffer, affine(group.first)), nullptr);
    gcc_jit_lvalue* first = local(gcc_jit_rvalue_get_type(address), "p", address);
    for (const std::int64_t distance : group.distances) {
      gcc_jit_lvalue* at = gcc_jit_context_new_array_access(
          in_.get(), nullptr, gcc_jit_lvalue_as_rvalue(first), i64(distance));
      call("__builtin_prefetch", {in_.cast(gcc_jit_lvalue_get_address(at, nullptr), any_pointer()),
                                  in_.integer(DType::i32, group.next == Prefetch::store ? 1 : 0),
                                  in_.integer(DType::i32, locality(group.next))});
    }
  }

  void store(const Stmt& stmt) {
    const ArrayType& type = loop_.buffers[stmt.buffer].type;
    gcc_jit_rvalue* at = affine(flatten(type, stmt.subscripts));
    gcc_jit_rvalue* stored = value(*stmt.value);
    if (!trace_ && hidden_stores_.contains(stmt.buffer)) {
      gcc_jit_lvalue* hidden = local(in_.type(type.dtype), "value", stored);
      gcc_jit_extended_asm* hides = gcc_jit_block_add_extended_asm(block_, nullptr, "");
      const std::string constraint = fmt::format("+{}", asm_register(type.dtype));
      gcc_jit_extended_asm_add_output_operand(hides, nullptr, constraint.c_str(), hidden);
      stored = gcc_jit_lvalue_as_rvalue(hidden);
    }
    if (trace_) {
      traced_store(stmt.buffer, local(in_.type(DType::i64), "at", at), stored);
    } else {
      assign_element(stmt.buffer, at, stored);
    }
  }

  void assign_element(BufferId k, gcc_jit_rvalue* at, gcc_jit_rvalue* value) {
    if (loop_.buffers[k].type.dtype == DType::bool_) value = in_.cast(value, storage_type(k));
    gcc_jit_block_add_assignment(block_, nullptr, element(k, at), value);
  }

  gcc_jit_lvalue* element(BufferId k, gcc_jit_rvalue* at) {
    return gcc_jit_context_new_array_access(in_.get(), nullptr,
                                            gcc_jit_lvalue_as_rvalue(buffers_[k]), at);
  }

  gcc_jit_rvalue* loaded(BufferId k, gcc_jit_rvalue* at) {
    gcc_jit_rvalue* raw = gcc_jit_lvalue_as_rvalue(element(k, at));
    if (loop_.buffers[k].type.dtype != DType::bool_) return raw;
    return in_.compare(GCC_JIT_COMPARISON_NE, raw, in_.integer(DType::u8, 0));
  }

  /// buffer[at] = value, told to the tracer.
  void traced_store(BufferId k, gcc_jit_lvalue* at, gcc_jit_rvalue* value) {
    const DType t = loop_.buffers[k].type.dtype;
    const auto offset = [at] { return gcc_jit_lvalue_as_rvalue(at); };
    const auto widened = [&](gcc_jit_lvalue* v) {
      gcc_jit_rvalue* r = gcc_jit_lvalue_as_rvalue(v);
      return t == DType::f64 ? r : in_.apply(cast_function(t, DType::f64), {r});
    };
    gcc_jit_lvalue* before = local(in_.type(t), "before", loaded(k, offset()));
    gcc_jit_lvalue* after = local(in_.type(t), "after", value);
    assign_element(k, offset(), gcc_jit_lvalue_as_rvalue(after));
    gcc_jit_block* tell = new_block();
    gcc_jit_block* next = new_block();
    gcc_jit_block_end_with_conditional(block_, nullptr, in_.is_null(argument(abi_.trace)), next,
                                       tell);
    gcc_jit_rvalue* args[] = {argument(abi_.trace_context),
                              in_.integer(DType::u32, assignments_++),
                              in_.integer(DType::u32, k),
                              offset(),
                              widened(before),
                              widened(after)};
    gcc_jit_block_add_eval(
        tell, nullptr,
        gcc_jit_context_new_call_through_ptr(in_.get(), nullptr, argument(abi_.trace), 6, args));
    gcc_jit_block_end_with_jump(tell, nullptr, next);
    block_ = next;
  }

  gcc_jit_rvalue* affine(const Affine& a) {
    gcc_jit_rvalue* sum = nullptr;
    const auto add = [&](gcc_jit_rvalue* term) {
      sum = sum == nullptr ? term : in_.binary(GCC_JIT_BINARY_OP_PLUS, DType::i64, sum, term);
    };
    for (const AffineTerm& term : a.terms) {
      gcc_jit_rvalue* variable = gcc_jit_lvalue_as_rvalue(
          term.kind == AffineTerm::Kind::loop ? vars_.at(term.id) : statics_.at(term.id));
      add(term.coefficient == 1
              ? variable
              : in_.binary(GCC_JIT_BINARY_OP_MULT, DType::i64, variable, i64(term.coefficient)));
    }
    if (sum == nullptr || a.constant != 0) add(i64(a.constant));
    return sum;
  }

  gcc_jit_rvalue* value(const Value& v) { return nested(v).value; }

  struct Nested {
    gcc_jit_rvalue* value;
    TermFacts facts;
  };
  Nested nested(const Value& v) {
    std::vector<gcc_jit_rvalue*> args;
    std::vector<TermFacts> facts;
    for (const ValuePtr& arg : v.args) {
      const Nested operand = nested(*arg);
      args.push_back(operand.value);
      facts.push_back(operand.facts);
    }
    if (subtracts_unsigned_zero(v))
      args[1] = gcc_jit_lvalue_as_rvalue(local(in_.type(v.dtype), "y", args[1]));
    for (std::size_t k = 0; k < args.size(); ++k) {
      if (HiddenTerms::hides(v, k, facts))
        args[k] = in_.apply(hide_function(v.dtype), {args[k], gcc_jit_lvalue_as_rvalue(zero_)});
    }
    return {applied(v, std::move(args)), hidden_.facts(v, facts)};
  }

  gcc_jit_rvalue* applied(const Value& v, std::vector<gcc_jit_rvalue*> args) {
    switch (v.kind) {
      case ValueKind::constant:
        return in_.literal(v.scalar);
      case ValueKind::load:
        return loaded(v.buffer, affine(flatten(loop_.buffers[v.buffer].type, v.subscripts)));
      case ValueKind::local:
        return gcc_jit_lvalue_as_rvalue(local_at(v.local, v.subscripts));
      case ValueKind::embed:
        return affine(v.index);
      case ValueKind::op:
        return in_.apply(op_function(v.op, v.args.back()->dtype), std::move(args));
      case ValueKind::cast:
        return in_.apply(cast_function(v.args[0]->dtype, v.dtype), std::move(args));
    }
    return nullptr;
  }

  GccjitContext& in_;
  const KernelAbi& abi_;
  const KernelSource& kernel_;
  const Loop& loop_;
  const std::set<LocalId> nested_sums_;
  const HiddenTerms hidden_;
  const StopChecks stops_;
  gcc_jit_lvalue* zero_ = nullptr;  // of hidden terms
  std::optional<GccjitStopWord> stop_word_;
  const bool trace_;
  const std::shared_ptr<const LanePlan> plan_;
  GccjitLanes lanes_;
  const ScalarLoops scalar_loops_;
  std::set<BufferId> hidden_stores_;  // of the loop at hand
  gcc_jit_function* function_ = nullptr;
  gcc_jit_block* block_ = nullptr;
  gcc_jit_rvalue* args_ = nullptr;
  std::vector<gcc_jit_lvalue*> buffers_;
  std::vector<gcc_jit_lvalue*> statics_;
  std::map<VarId, gcc_jit_lvalue*> vars_;
  std::map<LocalId, gcc_jit_lvalue*> locals_;
  int assignments_ = 0;
};

}  // namespace

void emit_gccjit(gcc_jit_context* context, const CompileUnit& unit, const Target& target) {
  check_unit(unit);
  GccjitContext in(context);
  const KernelAbi abi(in);
  gcc_jit_global_set_initializer_rvalue(
      gcc_jit_context_new_global(context, nullptr, GCC_JIT_GLOBAL_EXPORTED, in.type(DType::u32),
                                 unit_abi_symbol),
      in.integer(DType::u32, HEDDLE_KERNEL_ABI));
  for (const KernelSource& kernel : unit.kernels)
    GccjitKernel(in, abi, kernel, unit.trace_values, target).emit();
}

}  // namespace heddle::jit
