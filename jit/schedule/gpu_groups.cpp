// See gpu_groups.hpp.
#include "jit/schedule/gpu_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "jit/loop/group_body.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/footprint.hpp"
#include "jit/schedule/fuse.hpp"
#include "jit/schedule/gpu_columns.hpp"
#include "jit/schedule/gpu_contraction.hpp"
#include "jit/schedule/gpu_rows.hpp"
#include "jit/schedule/gpu_scatter.hpp"
#include "jit/schedule/gpu_sums.hpp"
#include "jit/schedule/gpu_transpose.hpp"
#include "jit/schedule/gpu_wide.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/sum_blocks.hpp"
#include "jit/schedule/terms.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/schedule/transpose.hpp"

namespace heddle::jit {
namespace {

bool shares_nothing(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::serial &&
         shared_by_iterations(stmt, {}).empty();
}

/// Iterations that are work for many groups.
constexpr std::int64_t work_of_many = 2 * gpu_part_terms;

class Groups {
 public:
  Groups(Scheduling& in, const std::function<bool(ScheduleStep)>& takes, bool unordered)
      : in_(in), takes_(takes), unordered_(unordered), loop_(in.lowered.loop), fresh_(in.fresh) {}

  Block run() {
    const Block body = loop_.body;
    Block result;
    for (std::size_t k = 0; k < body.size();) {
      const std::size_t end = end_of_scalars(body, k);
      const Block row(body.begin() + static_cast<std::ptrdiff_t>(k),
                      body.begin() + static_cast<std::ptrdiff_t>(end));
      std::optional<Block> made;
      const std::int64_t work = most_iterations(row);
      const auto loops = std::ranges::count(row, StmtKind::loop, &Stmt::kind);
      if (end - k > 1 && (loops == 1 || work < work_of_many)) made = rows({}, row);
      if (!made && work >= warp_threads) made = through_memory(row);
      if (!made) {
        made.emplace();
        for (const StmtPtr& stmt : row) append(*made, nest(stmt));
      }
      append(result, *made);
      k = end;
    }
    return result;
  }

 private:
  /// The end of the range of statements from `begin` on that share scalars: after the last user of
  /// each scalar declared in the range.
  static std::size_t end_of_scalars(const Block& body, std::size_t begin) {
    std::size_t end = begin + 1;
    for (std::size_t k = begin; k < end; ++k) {
      if (body[k]->kind != StmtKind::declare || !body[k]->dims.empty()) continue;
      for (std::size_t at = k + 1; at < body.size(); ++at) {
        if (uses(body[at], body[k]->local)) end = std::max(end, at + 1);
      }
    }
    return end;
  }
  /// The most iterations of nested loops together, up to work_of_many.
  static std::int64_t most_iterations(const Block& statements) {
    std::int64_t most = 0;
    const auto count = [&](const Block& body, std::int64_t outside, const auto& again) -> void {
      for (const StmtPtr& stmt : body) {
        if (stmt->kind != StmtKind::loop) continue;
        const std::int64_t all =
            std::min(outside * std::min(iterations_of(*stmt), work_of_many), work_of_many);
        most = std::max(most, all);
        again(stmt->body, all, again);
      }
    };
    count(statements, 1, count);
    return most;
  }

  /// The statements one by one. Scalars that they share are in scratch, so that the statements may
  /// be kernels of their own: with a local alive between them, one thread would run them all.
  Block through_memory(const Block& statements) {
    Block made;
    std::map<LocalId, BufferId> places;
    for (std::size_t k = 0; k < statements.size(); ++k) {
      const StmtPtr& stmt = statements[k];
      const bool declares = stmt->kind == StmtKind::declare && stmt->dims.empty();
      if (!declares || statements.size() == 1) {
        append(made, nest(in_memory(stmt, places)));
        continue;
      }
      const DType type = stmt->value->dtype;
      const BufferId place = in_.add_scratch("scalar", type, {1});
      if (k + 1 < statements.size() && match_reduction(stmt, statements[k + 1])) {
        Block sum{with_value(*stmt, in_memory(stmt->value, places)),
                  in_memory(statements[++k], places),
                  make_store(place, {Affine{}}, make_local(stmt->local, type))};
        const std::optional<Block> summed = rows({}, sum);
        append(made, summed ? *summed : sum);
      } else {
        made.push_back(make_store(place, {Affine{}}, in_memory(stmt->value, places)));
      }
      places[stmt->local] = place;
    }
    return made;
  }
  static ValuePtr in_memory(const ValuePtr& value, const std::map<LocalId, BufferId>& places) {
    return rebuild(value, [&](ValuePtr v) {
      const auto at = v->kind == ValueKind::local ? places.find(v->local) : places.end();
      return at == places.end() ? v : make_load(at->second, v->dtype, {Affine{}});
    });
  }
  static StmtPtr in_memory(const StmtPtr& stmt, const std::map<LocalId, BufferId>& places) {
    ValuePtr value = stmt->value ? in_memory(stmt->value, places) : nullptr;
    if (stmt->kind == StmtKind::assign) {
      if (const auto at = places.find(stmt->local); at != places.end())
        return make_store(at->second, {Affine{}}, std::move(value));
    }
    StmtPtr made = value == stmt->value ? stmt : with_value(*stmt, std::move(value));
    Block body;
    for (const StmtPtr& inner : made->body) body.push_back(in_memory(inner, places));
    return body == made->body ? made : with_body(*made, std::move(body));
  }

  static bool uses(const StmtPtr& stmt, LocalId local) {
    bool found = false;
    walk(Block{stmt}, [&](const Stmt& each) {
      found = found || (each.kind == StmtKind::assign && each.local == local);
    });
    walk_values({stmt}, [&](const Value& v) {
      found = found || (v.kind == ValueKind::local && v.local == local);
    });
    return found;
  }

  std::optional<Block> rows(const std::vector<StmtPtr>& loops, const Block& body) {
    if (!takes_(ScheduleStep::reduction)) return std::nullopt;
    return that_fits([&] { return schedule_rows_on_gpu(in_, loops, body); });
  }

  std::optional<Block> columns(const std::vector<StmtPtr>& loops, const Block& body) {
    if (!takes_(ScheduleStep::reduction)) return std::nullopt;
    const std::optional<Block> nests = cut_columns_on_gpu(in_, loops, body);
    if (!nests) return that_fits([&] { return schedule_columns_on_gpu(in_, loops, body); });
    Block made;
    for (const StmtPtr& each : *nests) append(made, nest(each));
    return made;
  }

  /// The result of `make`; or nothing, and no scratch, where threads of a group would share more
  /// memory than a group has.
  template <class Make>
  std::optional<Block> that_fits(const Make& make) {
    const std::size_t buffers = loop_.buffers.size();
    std::optional<Block> made = make();
    if (made && std::ranges::all_of(*made, [](const StmtPtr& nest) {
          return group_needs(nest).shared_bytes <= group_bytes_max;
        }))
      return made;
    in_.drop_scratch(buffers);
    return std::nullopt;
  }

  Block nest(const StmtPtr& stmt) {
    if (stmt->kind == StmtKind::zero) return nest(zeroing(stmt->buffer));
    if (stmt->kind != StmtKind::loop || stmt->from >= stmt->to) return {stmt};
    std::optional<Block> made;
    if (takes_(ScheduleStep::contraction))
      made = that_fits([&] { return schedule_contraction_on_gpu(in_, stmt); });
    if (!made && takes_(ScheduleStep::transpose))
      made = that_fits([&] { return schedule_transpose_on_gpu(in_, stmt); });
    std::vector<StmtPtr> loops = independent(stmt);
    if (!made && !loops.empty()) made = rows(loops, loops.back()->body);
    if (!made && !loops.empty()) made = columns(loops, loops.back()->body);
    if (made) return *std::move(made);
    if (loops.empty()) loops = independent(exchanged(*stmt));
    if (unordered_ && (made = unordered(stmt, loops))) return *std::move(made);
    return grouped(stmt, std::move(loops));
  }

  /// The nest with atomic accumulations, where the loops that share nothing are work for few
  /// threads, and more loops share nothing besides accumulations.
  std::optional<Block> unordered(const StmtPtr& stmt, const std::vector<StmtPtr>& ordered) {
    std::int64_t together = 1;
    for (const StmtPtr& loop : ordered)
      together = std::min(together * std::min(iterations_of(*loop), work_of_many), work_of_many);
    if (together >= work_of_many) return std::nullopt;
    const StmtPtr atomic = with_atomic_accumulations(stmt, in_.target);
    if (atomic == nullptr) return std::nullopt;
    const std::vector<StmtPtr> loops = independent(atomic);
    if (loops.size() <= ordered.size()) return std::nullopt;
    const Block made = grouped(stmt, loops);
    if (made == Block{stmt}) return std::nullopt;
    Block result{make_comment("scatter: threads accumulate in any order, by atomic operations")};
    append(result, made);
    return result;
  }

  /// Stores of 0 to all elements. A buffer without axes has one element.
  StmtPtr zeroing(BufferId buffer) {
    const ArrayType& type = loop_.buffers[buffer].type;
    std::vector<Affine> at;
    for (std::size_t axis = 0; axis < type.dims.size(); ++axis)
      at.push_back(affine_var(fresh_.var()));
    const Scalar zero =
        is_floating(type.dtype) ? Scalar::of_float(type.dtype, 0) : Scalar::of_int(type.dtype, 0);
    StmtPtr stmt = make_store(buffer, at, make_constant(zero));
    for (std::size_t axis = type.dims.size(); axis-- > 0;)
      stmt = make_loop(at[axis].terms[0].id, 0, type.dims[axis], {stmt});
    return stmt;
  }

  /// The nest's outermost loops whose iterations share nothing, as long as each is the only
  /// statement of the loop around it.
  static std::vector<StmtPtr> independent(const StmtPtr& nest) {
    std::vector<StmtPtr> loops;
    StmtPtr next = nest;
    while (next != nullptr && shares_nothing(*next) && next->from < next->to) {
      loops.push_back(next);
      next = next->body.size() == 1 ? next->body[0] : nullptr;
    }
    return loops;
  }

  /// Exchanges a loop that has an order with the only loop inside, for a caller that then checks
  /// whether iterations of the new outer loop share nothing. Null: no such pair of loops.
  static StmtPtr exchanged(const Stmt& nest) {
    if (nest.body.size() != 1) return nullptr;
    const Stmt& inner = *nest.body[0];
    if (inner.kind != StmtKind::loop || inner.mark != LoopMark::serial) return nullptr;
    return with_body(inner, {with_body(nest, inner.body)});
  }

  /// The axes whose elements may become the threads, best first: an innermost axis with fewer
  /// elements than a warp has threads leaves some threads idle.
  static std::vector<std::size_t> axes_of_threads(const std::vector<StmtPtr>& loops) {
    const auto longest = std::ranges::max_element(
        loops, {}, [](const StmtPtr& loop) { return iterations_of(*loop); });
    const auto at = static_cast<std::size_t>(longest - loops.begin());
    if (iterations_of(*loops.back()) >= warp_threads) return {loops.size() - 1, at};
    return {at, loops.size() - 1};
  }

  /// In loops that are reordered or cut into pieces, independent iterations may be harder to prove:
  /// then fewer loops are shared out.
  Block grouped(const StmtPtr& nest, std::vector<StmtPtr> loops) {
    for (; !loops.empty(); loops.pop_back()) {
      for (const std::size_t axis : axes_of_threads(loops)) {
        const std::optional<Block> wide = wide_along(loops, *loops[axis]);
        Block made = wide ? *wide : grouped_along(loops, *loops[axis]);
        if (std::ranges::all_of(made, shared_out_loops_share_nothing)) return made;
      }
    }
    return {nest};
  }

  Block grouped_along(const std::vector<StmtPtr>& loops, const Stmt& axis) {
    Block result{make_comment(fmt::format("groups of {} threads along i{}",
                                          std::min(group_threads, iterations_of(axis)), axis.var))};
    for (const Segment& segment : whole_tiles(iterations_of(axis), group_threads))
      result.push_back(groups_of(loops, axis, axis.from, segment, 1));
    return result;
  }

  /// The same where a thread takes neighbouring elements, which it accesses at once, and threads of
  /// their own take the elements that are left. Nothing: the memory does not allow it, or a warp
  /// would not have enough of them.
  std::optional<Block> wide_along(const std::vector<StmtPtr>& loops, const Stmt& axis) {
    if (loops.back().get() != &axis) return std::nullopt;
    const std::int64_t each = neighbours_at_once(loop_, axis.body, axis.var);
    const std::int64_t threads = iterations_of(axis) / each;
    if (each == 1 || threads < warp_threads) return std::nullopt;
    Block result{make_comment(fmt::format("groups of {} threads of {} elements along i{}",
                                          std::min(group_threads, threads), each, axis.var))};
    for (const Segment& segment : whole_tiles(threads, group_threads)) {
      result.push_back(groups_of(loops, axis, axis.from, segment, each));
      StmtPtr lanes = result.back();
      while (lanes->mark != LoopMark::lanes) lanes = lanes->body[0];
      if (!accesses_are_wide(loop_, lanes)) return std::nullopt;
    }
    const std::int64_t left = iterations_of(axis) % each;
    if (left > 0) result.push_back(groups_of(loops, axis, axis.to - left, {0, 1, left}, 1));
    return result;
  }

  /// The loops with groups of threads along their innermost axis or another: thread t of the
  /// segment takes `each` elements from `first` + `each` * t on.
  StmtPtr groups_of(const std::vector<StmtPtr>& loops, const Stmt& axis, std::int64_t first,
                    const Segment& segment, std::int64_t each) {
    Substitution by;
    for (const StmtPtr& loop : loops) by.loops[loop->var] = fresh_.var();
    const VarId group = fresh_.var(), thread = fresh_.var(), lane = fresh_.var();
    Affine at{first + each * segment.offset, {}};
    if (segment.count > 1) at = affine_add(at, affine_var(group, each * segment.size));
    at = affine_add(at, affine_var(thread, each));
    if (each > 1) at = affine_add(at, affine_var(lane));
    by.loops.erase(axis.var);
    by.vars[axis.var] = at;
    Block body = with_own_names(fresh_, loops.back()->body, by);
    if (each > 1) body = {make_loop(lane, 0, each, std::move(body), LoopMark::lanes)};
    StmtPtr made = make_loop(thread, 0, segment.size, std::move(body), LoopMark::block);
    if (segment.count > 1 || loops.size() == 1)
      made = make_loop(group, 0, segment.count, {made}, LoopMark::parallel);
    for (std::size_t k = loops.size(); k-- > 0;) {
      if (loops[k].get() == &axis) continue;
      made = make_loop(by.loops.at(loops[k]->var), loops[k]->from, loops[k]->to, {made},
                       LoopMark::parallel);
    }
    return made;
  }

  Scheduling& in_;
  const std::function<bool(ScheduleStep)>& takes_;
  const bool unordered_;
  const Loop& loop_;
  Fresh& fresh_;
};

}  // namespace

Lowered schedule_on_gpu(Lowered lowered, const Target& target,
                        const std::function<bool(ScheduleStep)>& takes,
                        const std::optional<ContractionTile>& tile, bool unordered) {
  lowered.loop.body = with_whole_terms(lowered.loop.body);
  // Fused nests need a single launch, and a statement's results are at hand for the next one. Nests
  // with too few iterations to occupy the GPU stay alone, and so do recurrences.
  const auto stays_alone = [&](const StmtPtr& nest) {
    return iterations_of(*nest) < gpu_groups_wanted ||
           carries(footprint(*nest), nest->to - nest->from) ||
           find_contraction(lowered.loop, nest).has_value() || is_transpose(lowered.loop, nest);
  };
  const auto becomes_vectors = [](const StmtPtr&) { return false; };
  if (takes(ScheduleStep::fuse))
    lowered.loop.body = fuse_loops(lowered.loop.body, stays_alone, becomes_vectors);
  Scheduling in{lowered, target, Fresh(lowered.loop), tile};
  Block after = Groups(in, takes, unordered).run();
  if (takes(ScheduleStep::reduction)) after = with_sums_in_blocks(in, after);
  lowered.loop.body = renumbered(after);
  lowered.verified = verified_after("schedule", lowered.loop, lowered.verified);
  return lowered;
}

}  // namespace heddle::jit
