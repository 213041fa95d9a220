// The walk over a kernel that all emitters share: the order of computation, workarounds, stop
// checks, calls of tracers. A dialect writes each step; emit/c_dialect.hpp documents each hook. A
// dialect's Made represents a value: a text, a handle. Not thread-safe: one object per kernel being
// emitted.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/emit/emit.hpp"
#include "jit/emit/lane_walk.hpp"
#include "jit/emit/workarounds.hpp"
#include "jit/loop/accumulation.hpp"
#include "jit/loop/address.hpp"
#include "jit/loop/group_body.hpp"
#include "jit/loop/position.hpp"
#include "jit/loop/wide_access.hpp"
#include "jit/lower/stop_checks.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {

template <class Dialect>
class Walk {
 public:
  using Made = typename Dialect::Made;

  Walk(const KernelSource& kernel, const Target& target, bool trace, Dialect& to)
      : kernel_(kernel),
        loop_(*kernel.loop),
        nested_sums_(nested_sums(loop_.body)),
        ranges_(ranges_of_scratch(loop_)),
        hidden_(loop_.body),
        stops_(stop_checks(loop_)),
        trace_(trace),
        to_(to),
        plan_(lane_plan_of(kernel, target)),
        scalar_loops_(loop_, *plan_),
        lanes_(loop_, *plan_, target, to, [this](const Value& v) { return value(v); }) {}
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  void emit() {
    to_.begin_kernel(kernel_);
    if (hidden_.any()) to_.declare_zero();
    if (stops_.any) to_.declare_stop();
    const bool split = has_parallel_loops(loop_);
    if (!split) to_.leave_to_first_part();
    const std::vector<std::vector<BufferId>> used = first_uses(loop_);
    for (std::size_t k = 0; k < loop_.body.size(); ++k) {
      for (const BufferId buffer : used[k]) to_.take_address(kernel_, buffer);
      of_top_level(*loop_.body[k], split);
    }
    if (stops_.any) to_.end_stops();
    if (lanes_.streams()) to_.end_streams();
    to_.end_kernel();
  }

 private:
  void of_top_level(const Stmt& stmt, bool split) {
    if (stops_.before(stmt)) to_.check_stop();
    const bool assigns =
        binds_variable(stmt) || stmt.kind == StmtKind::zero || stmt.kind == StmtKind::store;
    if (!split || !assigns) {
      statement(stmt);
    } else if (stmt.kind == StmtKind::loop && stmt.mark == LoopMark::parallel) {
      parallel_loop(stmt);
    } else {
      to_.by_first_part([&] { statement(stmt); });
    }
  }

  void parallel_loop(const Stmt& stmt) {
    if constexpr (requires { Dialect::runs_in_groups; }) {
      std::vector<const Stmt*> loops{&stmt};
      while (loops.back()->body.size() == 1 && loops.back()->body[0]->kind == StmtKind::loop &&
             loops.back()->body[0]->mark == LoopMark::parallel)
        loops.push_back(loops.back()->body[0].get());
      const GroupBody group = group_body(loops.back()->body);
      const auto run = [&] {
        for (const StmtPtr& inner : group.statements) statement(*inner);
      };
      to_.each_group(loops, group, [&] {
        if (std::ranges::any_of(loops, [&](const Stmt* each) { return stops_.period(*each) > 0; }))
          to_.check_stop();
        if (group.has_threads) {
          run();
        } else {
          to_.by_first_thread(run);
        }
      });
    } else {
      const auto [from, to] = to_.slice(stmt);
      counted_loop(stmt, from, to);
    }
  }

  void statement(const Stmt& stmt) {
    count_step();
    switch (stmt.kind) {
      case StmtKind::comment:
        return to_.comment(stmt.text);
      case StmtKind::loop:
        return loop(stmt);
      case StmtKind::at:
        return position(stmt);
      case StmtKind::zero:
        return zero(stmt);
      case StmtKind::prefetch:
        prefetches(stmt);
        return;
      case StmtKind::store:
        return store(stmt);
      case StmtKind::declare:
        if (!stmt.dims.empty()) return lanes_.declare(stmt);
        return to_.declare(stmt.local, stmt.value->dtype, value(*stmt.value));
      case StmtKind::assign: {
        if (copied(stmt)) return;
        const Made made = value(*stmt.value);
        if (stmt.subscripts.empty()) {
          to_.assign(stmt.local, made);
        } else if (!assigned_wide(true, stmt.local, lanes_.offset(stmt.local, stmt.subscripts),
                                  made)) {
          to_.assign_element(stmt.local, lanes_.element(stmt.local, stmt.subscripts), made);
        }
        if (nested_sums_.contains(stmt.local)) to_.empty_asm();
        return;
      }
    }
  }

  /// Emits an assignment that a dialect of groups makes by a copy; false, and nothing, for others.
  bool copied(const Stmt& stmt) {
    if constexpr (requires { Dialect::runs_in_groups; }) {
      if (!to_.copies(stmt.local)) return false;
      const Value& from = *stmt.value;
      to_.copy(stmt.local, lanes_.element(stmt.local, stmt.subscripts), from.dtype, from.buffer,
               to_.index(flatten(loop_.buffers[from.buffer].type, from.subscripts)));
      return true;
    }
    return false;
  }

  void loop(const Stmt& stmt) {
    if (lanes_.is_vector_loop(stmt)) return lanes_.loop(stmt);
    if constexpr (requires { Dialect::runs_in_groups; }) {
      if (stmt.mark == LoopMark::block) {
        const std::vector<const Stmt*> threads = threads_of(stmt);
        return to_.each_thread(threads, [&] {
          if (stops_.period(*threads.back()) > 0) to_.check_stop();
          for (const StmtPtr& inner : threads.back()->body) statement(*inner);
        });
      }
      if (stmt.mark == LoopMark::lanes && wide_loop(stmt)) return;
    }
    if (stmt.mark != LoopMark::unroll)
      return counted_loop(stmt, to_.number(stmt.from), to_.number(stmt.to));
    if (prefetches(stmt)) return;
    for (std::int64_t k = stmt.from; k < stmt.to; ++k) {
      to_.unrolled_copy(stmt.var, k, [&] {
        for (const StmtPtr& inner : unrolled(stmt, k)) statement(*inner);
      });
    }
  }

  /// A lanes loop in a thread of a group: the thread loads wide accesses before the iterations,
  /// which are unrolled, and stores them afterwards. Returns false, and emits nothing, for a loop
  /// without wide accesses.
  bool wide_loop(const Stmt& stmt) {
    wide_ = wide_accesses(loop_.buffers, stmt, [this](LocalId local) {
      return to_.is_shared(local) ? &lanes_.block(local) : nullptr;
    });
    if (wide_.empty()) return false;
    wide_count_ = stmt.to;
    if (copies_wide(stmt)) return true;
    to_.scoped([&] {
      for (std::size_t k = 0; k < wide_.size(); ++k) to_.begin_wide(k, wide_[k], wide_count_);
      for (std::int64_t k = 0; k < stmt.to; ++k) {
        to_.unrolled_copy(stmt.var, k, [&] {
          for (const StmtPtr& inner : unrolled(stmt, k)) statement(*inner);
        });
      }
      for (std::size_t k = 0; k < wide_.size(); ++k) to_.end_wide(k, wide_[k], wide_count_);
    });
    wide_.clear();
    return true;
  }
  /// Where the current lanes loop copies to a shared block: emits a copy of all its elements at
  /// once, or of each alone where the block is not touched in one piece.
  bool copies_wide(const Stmt& stmt) {
    const auto copy = std::ranges::find_if(stmt.body, [this](const StmtPtr& inner) {
      return inner->kind == StmtKind::assign && to_.copies(inner->local);
    });
    if (copy == stmt.body.end()) return false;
    const auto to = std::ranges::find(wide_, true, &WideAccess::in_block);
    const auto from = std::ranges::find(wide_, false, &WideAccess::in_block);
    const bool at_once = stmt.body.size() == 1 && to != wide_.end() && from != wide_.end();
    if (at_once) to_.copy_wide(*to, *from, wide_count_);
    wide_.clear();
    return at_once;
  }
  /// The number of the current lanes loop's wide access to this element, and of the element there.
  std::optional<std::pair<std::size_t, std::int64_t>> in_wide(bool in_block, std::uint32_t id,
                                                              const Affine& offset) const {
    for (std::size_t k = 0; k < wide_.size(); ++k) {
      if (wide_[k].covers(in_block, id, offset, wide_count_))
        return std::pair(k, offset.constant - wide_[k].first.constant);
    }
    return std::nullopt;
  }
  /// The element, where a wide access covers it.
  std::optional<Made> of_wide(bool in_block, std::uint32_t id, const Affine& offset) const {
    if constexpr (requires { Dialect::runs_in_groups; }) {
      if (const auto at = in_wide(in_block, id, offset))
        return Dialect::wide_element(wide_[at->first].type, at->first, at->second);
    }
    return std::nullopt;
  }
  /// Assigns the element, and returns true, where a wide access covers it.
  bool assigned_wide(bool in_block, std::uint32_t id, const Affine& offset, const Made& made) {
    if constexpr (requires { Dialect::runs_in_groups; }) {
      if (const auto at = in_wide(in_block, id, offset)) {
        to_.assign_wide(at->first, at->second, made);
        return true;
      }
    }
    return false;
  }

  void counted_loop(const Stmt& stmt, const Made& from, const Made& to) {
    const std::int64_t period = stops_.period(stmt);
    if (period <= 1) return plain_loop(stmt, from, to);
    to_.stop_loop(stmt.var, from, to, period,
                  [&](const Made& first, const Made& end) { plain_loop(stmt, first, end); });
  }

  void plain_loop(const Stmt& stmt, const Made& from, const Made& to) {
    // Schedules decide what is unrolled: more unrolling would exceed the registers.
    const bool stays = lanes_.has_vector_loop(stmt.body) && stmt.to - stmt.from > 1;
    to_.loop(stmt.var, from, to, stays, [&] {
      lanes_.forget();
      hidden_stores_ = scalar_loops_.hidden_stores(stmt);
      if (stops_.period(stmt) == 1) to_.check_stop();
      for (const StmtPtr& inner : stmt.body) statement(*inner);
      if (scalar_loops_.ends_with_asm(stmt)) to_.empty_asm();
      hidden_stores_.clear();
      lanes_.forget();
    });
  }

  /// The value is computed once; the range check, or the choice of the nearest value, uses the
  /// value's own type.
  void position(const Stmt& stmt) {
    const auto body = [&] {
      lanes_.forget();
      for (const StmtPtr& inner : stmt.body) statement(*inner);
      lanes_.forget();
    };
    to_.scoped([&] {
      const DType type = stmt.value->dtype;
      const auto all = [&](Op op, const Made& a, const Made& b) {
        return to_.apply(op_function(op, type), {a, b});
      };
      Made found = to_.named("found", type, value(*stmt.value));
      const PositionBounds bounds =
          stays_inside(stmt, ranges_) ? PositionBounds{} : position_bounds(stmt);
      std::optional<Made> inside;
      if (stmt.nearest) {
        const bool is_signed = type == DType::i32 || type == DType::i64;
        if (bounds.lowest && is_signed && bounds.lowest->i == 0) {
          found = to_.apply(least_zero_function(type), {found});
        } else if (bounds.lowest) {
          found = all(Op::max, found, to_.literal(*bounds.lowest));
        }
        if (bounds.highest) found = all(Op::min, found, to_.literal(*bounds.highest));
      } else {
        if (bounds.lowest) inside = all(Op::le, to_.literal(*bounds.lowest), found);
        if (bounds.highest) {
          const Made below = all(Op::le, found, to_.literal(*bounds.highest));
          inside =
              inside ? to_.apply(op_function(Op::and_, DType::bool_), {*inside, below}) : below;
        }
      }
      const auto bound = [&] {
        to_.bind(stmt.var, bounds.only ? to_.literal(Scalar::of_int(DType::i64, *bounds.only))
                           : type == DType::i64
                               ? found
                               : to_.apply(cast_function(type, DType::i64), {found}));
        body();
      };
      if (bounds.only && !stmt.nearest) return;  // the type has no value in the range
      if (inside) {
        to_.when(*inside, bound);
      } else {
        bound();
      }
    });
  }

  void zero(const Stmt& stmt) {
    if (!trace_) return to_.zero_buffer(stmt.buffer);
    const ArrayType& type = loop_.buffers[stmt.buffer].type;
    to_.each_element(*type.num_elements(), [&](const Made& at) {
      traced_store(stmt.buffer, at, to_.zero_of(type.dtype));
    });
  }

  /// Emits the prefetches of a statement; returns false, and emits nothing, where the statement
  /// does anything else.
  bool prefetches(const Stmt& stmt) {
    const std::vector<PrefetchGroup> groups = prefetch_groups(loop_, stmt);
    for (const PrefetchGroup& group : groups) to_.prefetch(group);
    return !groups.empty();
  }

  void store(const Stmt& stmt) {
    const ArrayType& type = loop_.buffers[stmt.buffer].type;
    const Affine offset = flatten(type, stmt.subscripts);
    const Made at = to_.index(offset);
    if (accumulated(stmt, at)) return;
    const Made made = value(*stmt.value);
    if (assigned_wide(false, stmt.buffer, offset, made)) return;
    if (trace_) {
      to_.scoped([&] { traced_store(stmt.buffer, to_.named("at", DType::i64, at), made); });
    } else if (hidden_stores_.contains(stmt.buffer)) {
      to_.scoped([&] { to_.store(stmt.buffer, at, to_.hidden(type.dtype, made)); });
    } else {
      to_.store(stmt.buffer, at, made);
    }
  }

  /// Emits an atomic store, where other threads may store too; false, and nothing, for others. A
  /// traced kernel has a single thread, and so has every kernel without parallel loops.
  bool accumulated(const Stmt& stmt, const Made& at) {
    if (!stmt.atomic || trace_ || !has_parallel_loops(loop_)) return false;
    if constexpr (requires { Dialect::runs_in_groups; }) {
      const Accumulation made = *accumulation_of(stmt);
      to_.accumulate(made.op, made.term->dtype, stmt.buffer, at, value(*made.term));
      return true;
    } else {
      throw Error(ErrorCode::internal,
                  fmt::format("kernel '{}' stores to t{} atomically in parallel loops: only GPUs "
                              "have such stores",
                              kernel_.name, stmt.buffer));
    }
  }

  /// A store that calls the tracer.
  void traced_store(BufferId buffer, const Made& at, const Made& made) {
    const DType dtype = loop_.buffers[buffer].type.dtype;
    const Made before = to_.named("before", dtype, to_.load(buffer, at));
    const Made after = to_.named("after", dtype, made);
    to_.store(buffer, at, after);
    const auto widened = [&](const Made& v) {
      return dtype == DType::f64 ? v : to_.apply(cast_function(dtype, DType::f64), {v});
    };
    to_.tell(assignments_++, buffer, at, widened(before), widened(after));
  }

  Made value(const Value& v) { return nested(v).made; }

  struct Nested {
    Made made{};
    int depth = 0;
    TermFacts facts = 0;
  };
  Nested nested(const Value& v) {
    count_step();
    std::vector<Made> args;
    std::vector<TermFacts> facts;
    Nested result;
    const bool rounds = rounds_to_half(v);
    for (const ValuePtr& arg : v.args) {
      Nested operand = nested(rounds ? *arg->args[0] : *arg);
      if (rounds) operand.facts = hidden_.facts(*arg, std::array{operand.facts});
      result.depth = std::max(result.depth, operand.depth + 1);
      args.push_back(std::move(operand.made));
      facts.push_back(operand.facts);
    }
    result.facts = hidden_.facts(v, facts);
    if (subtracts_unsigned_zero(v)) args[1] = to_.temporary(v.dtype, args[1]);
    for (std::size_t k = 0; k < args.size(); ++k) {
      if (HiddenTerms::hides(v, k, facts))
        args[k] = to_.apply(hide_function(v.dtype), {args[k], to_.zero()});
    }
    result.made = applied(v, std::move(args));
    if (result.depth > Dialect::expression_depth_max) {
      result.made = to_.temporary(v.dtype, result.made);
      result.depth = 0;
    }
    return result;
  }

  Made applied(const Value& v, std::vector<Made> args) {
    switch (v.kind) {
      case ValueKind::constant:
        return to_.literal(v.scalar);
      case ValueKind::load: {
        const Affine offset = flatten(loop_.buffers[v.buffer].type, v.subscripts);
        if (auto made = of_wide(false, v.buffer, offset)) return *std::move(made);
        return to_.load(v.buffer, to_.index(offset));
      }
      case ValueKind::local:
        if (v.subscripts.empty()) return to_.local(v.local);
        if (auto made = of_wide(true, v.local, lanes_.offset(v.local, v.subscripts)))
          return *std::move(made);
        return to_.element(v.local, lanes_.element(v.local, v.subscripts));
      case ValueKind::embed:
        return to_.embed(v.index);
      case ValueKind::op:
        return to_.apply(op_function(v.op, v.args.back()->dtype), std::move(args));
      case ValueKind::cast:
        return to_.apply(
            rounds_to_half(v) ? half_rounding_function() : cast_function(v.args[0]->dtype, v.dtype),
            std::move(args));
    }
    return {};
  }

  /// f32(f16(x)) of an x that is f32: a single function.
  static bool rounds_to_half(const Value& v) {
    return is_half_cast(v) && v.dtype == DType::f32 && is_half_cast(*v.args[0]);
  }

  const KernelSource& kernel_;
  const Loop& loop_;
  const std::set<LocalId> nested_sums_;
  const std::map<BufferId, ElementRange> ranges_;  // see stays_inside()
  const HiddenTerms hidden_;
  const StopChecks stops_;
  const bool trace_;
  Dialect& to_;
  const std::shared_ptr<const LanePlan> plan_;
  const ScalarLoops scalar_loops_;
  LaneWalk<Dialect> lanes_;
  std::set<BufferId> hidden_stores_;  // in the current loop
  std::vector<WideAccess> wide_;      // of the current lanes loop, in a dialect of groups
  std::int64_t wide_count_ = 0;       // iterations of that loop
  std::uint32_t assignments_ = 0;
};

}  // namespace heddle::jit
