// Lowering: each statement of a Program becomes a loop nest over its iteration space, in the order
// that heddle/program.hpp states. Pure; any thread.
#include "jit/lower/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/lower/positions.hpp"
#include "jit/lower/sorting_network.hpp"
#include "jit/lower/statement_shape.hpp"
#include "jit/system/inside.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

class Lowering {
 public:
  Lowered run(const Program& program, std::span<const Wish> wishes) {
    result_.name = program.name();
    merge_ = program.merge_tensor();
    auto wish = wishes.begin();
    for (const Tensor& tensor : program.tensors()) {
      buffer_of(tensor);
      result_.placements.emplace_back(tensor, Placement{wish->mode, wish->where, wish->mode});
      ++wish;
    }
    for (const Statement& statement : program.statements()) lower(*Inside::of(statement));
    set_roles();
    return std::move(result_);
  }

 private:
  BufferId add_buffer(const Tensor& tensor, Role role) {
    result_.loop.buffers.push_back({role, tensor.type()});
    result_.tensors.push_back(tensor);
    return static_cast<BufferId>(result_.tensors.size() - 1);
  }

  BufferId buffer_of(const Tensor& tensor) {
    const auto [at, fresh] = buffers_.try_emplace(tensor.id(), 0);
    if (fresh) at->second = add_buffer(tensor, Role::input);
    return at->second;
  }

  BufferId merge_buffer() {
    if (!merge_id_) merge_id_ = add_buffer(*merge_, Role::merge);
    return *merge_id_;
  }

  StaticId static_of(const StaticIndex& index) {
    const auto [at, fresh] =
        statics_.try_emplace(index.id(), static_cast<StaticId>(result_.statics.size()));
    if (!fresh) return at->second;
    result_.statics.push_back(index);
    result_.loop.statics.push_back({index.range()});
    return at->second;
  }

  /// An affine index of indices and positions. `extent`: of the axis; `writes`: the subscript
  /// belongs to the target.
  Affine affine(const Subscript& subscript, std::int64_t extent, bool writes) {
    const Affine sum = affine(subscript);
    if (!subscript.is_computed()) return sum;
    const auto [from, to] = positions_.room(subscript, extent);
    const ExprNode& node = *Inside::position_of(subscript);
    return affine_add(sum, affine_var(variable_of({&node, from, to, !writes})));
  }

  /// The variable of a computed position, which nest() binds.
  VarId variable_of(const ComputedPosition& position) {
    if (const auto known = positions_.find(position)) return *known;
    // Nodes shared with the statement's value are computed at another place.
    auto uses = std::exchange(uses_, {});
    auto shared = std::exchange(shared_, {});
    count_uses(*position.node);
    Block before;
    ValuePtr made = value(*position.node, before);
    uses_ = std::move(uses);
    shared_ = std::move(shared);
    return positions_.add(position, std::move(before), std::move(made), next_var_++);
  }

  Affine affine(const Subscript& subscript) {
    Affine sum;
    sum.constant = subscript.constant();
    for (const auto& term : subscript.terms()) {
      const Affine part =
          std::holds_alternative<Index>(term.index)
              ? affine_scale(indices_.at(std::get<Index>(term.index).id()), term.coefficient)
              : affine_static(static_of(std::get<StaticIndex>(term.index)), term.coefficient);
      sum = affine_add(sum, part);
    }
    return sum;
  }

  std::vector<Affine> affines(const Tensor& tensor, const std::vector<Subscript>& subscripts,
                              bool writes) {
    require_ranges(tensor, subscripts);
    std::vector<Affine> result;
    result.reserve(subscripts.size());
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis)
      result.push_back(affine(subscripts[axis], tensor.dims()[axis], writes));
    return result;
  }
  /// The subscripts of the element that a statement assigns.
  std::vector<Affine> target_of(const StatementNode& node) {
    return affines(*node.target, node.subscripts, true);
  }

  /// The value that a statement assigns, in the statement's type. Nodes with several users become
  /// locals, so that an expression of n nodes lowers to about n nodes, however often its parts are
  /// reused.
  struct Computed {
    Block before;
    ValuePtr value;
  };

  Computed compute(const StatementNode& node) {
    uses_.clear();
    shared_.clear();
    count_uses(*node.value);
    Computed result;
    result.value = value(*node.value, result.before);
    return result;
  }

  void count_uses(const ExprNode& node) {
    count_step();
    if (uses_[&node]++ > 0) return;
    for (const auto& arg : node.args) count_uses(*arg);
  }

  ValuePtr value(const ExprNode& node, Block& before) {
    switch (node.kind) {
      case ExprKind::constant:
        return make_constant(convert(node.scalar, node.dtype));
      case ExprKind::read:
        return make_load(buffer_of(*node.tensor), node.dtype,
                         affines(*node.tensor, node.subscripts, false));
      case ExprKind::merge:
        return make_load(merge_buffer(), node.dtype, affines(*node.tensor, node.subscripts, false));
      case ExprKind::embed:
        return make_embed(affine(node.subscripts[0]));
      case ExprKind::cast:
      case ExprKind::op:
        break;
    }
    if (const auto at = shared_.find(&node); at != shared_.end()) return at->second;
    ValuePtr result = computed(node, before);
    const bool leaf = result->kind != ValueKind::op && result->kind != ValueKind::cast;
    if (uses_.at(&node) == 1 || leaf) return result;
    const LocalId local = next_local_++;
    before.push_back(make_declare(local, result));
    return shared_.emplace(&node, make_local(local, result->dtype)).first->second;
  }

  /// 16-bit values are widened where an operation takes them: make_op() widens operands.
  ValuePtr computed(const ExprNode& node, Block& before) {
    if (node.kind == ExprKind::cast) return make_cast(value(*node.args[0], before), node.dtype);
    std::vector<ValuePtr> args;
    args.reserve(node.args.size());
    for (const auto& arg : node.args) args.push_back(value(*arg, before));
    return make_op(node.op, std::move(args));
  }

  void lower(const StatementNode& node) {
    count_step();
    if (!node.target) {
      result_.loop.body.push_back(make_comment(node.comment));
      return;
    }
    const std::vector<SpaceAxis>& space = node.space;
    const auto nothing = [&](const SpaceAxis& axis) {
      return axis.extent == 0 && !(axis.reduced && node.initialize_neutral);
    };
    if (std::ranges::any_of(space, nothing) || fits_nowhere(node)) {
      touch(node);
    } else if (node.sorts) {
      sort(node, space);
    } else if (node.accumulate && !node.initialize_neutral) {
      accumulate(node, space);
    } else if (node.accumulate && (repeats(space) || !injective(node, space))) {
      reduce(node, space);
    } else {
      assign(node, space);  // a single term per element: the neutral element changes nothing
    }
  }

  /// True if some position on the left side has an empty range.
  bool fits_nowhere(const StatementNode& node) {
    positions_.begin(node.space);
    for (std::size_t axis = 0; axis < node.subscripts.size(); ++axis) {
      if (!node.subscripts[axis].is_computed()) continue;
      const auto [from, to] = positions_.room(node.subscripts[axis], node.target->dims()[axis]);
      if (from >= to) return true;
    }
    return false;
  }

  /// An empty statement runs nothing, but its merge buffer and static indices still belong to the
  /// program.
  void touch(const StatementNode& node) {
    const auto note = [this](const std::vector<Subscript>& subscripts) {
      for (const Subscript& s : subscripts) {
        for (const auto& term : s.terms()) {
          if (const auto* index = std::get_if<StaticIndex>(&term.index)) {
            static_cast<void>(static_of(*index));
          }
        }
      }
    };
    note(node.subscripts);
    walk(node, [&](const ExprNode& e) {
      note(e.subscripts);
      if (e.kind == ExprKind::merge) static_cast<void>(merge_buffer());
    });
  }

  /// Gives each index of the statement its loop variable; an axis of one element is fixed at 0. The
  /// positions of the left side come first: where such a position is outside, no other position is
  /// computed.
  void bind(const StatementNode& node) {
    indices_.clear();
    positions_.begin(node.space);
    for (const SpaceAxis& axis : node.space)
      indices_[axis.index.id()] = axis.extent == 1 ? Affine() : affine_var(next_var_++);
    const bool computed = std::ranges::any_of(node.subscripts, &Subscript::is_computed);
    if (computed) static_cast<void>(target_of(node));
  }

  /// Loops over `axes` around `body`, with positions inside the last loop on which they depend;
  /// empty when an axis is empty.
  Block nest(const std::vector<SpaceAxis>& axes, Block body) const {
    for (std::size_t k = axes.size(); k-- > 0;) {
      if (axes[k].extent == 0) return {};
      body = positions_.inside(axes[k], std::move(body));
      const Affine& index = indices_.at(axes[k].index.id());
      if (index.terms.empty()) continue;
      Block outer{make_loop(index.terms[0].id, 0, axes[k].extent, std::move(body))};
      body = std::move(outer);
    }
    return body;
  }
  /// nest() for a statement's outermost loops, which also adds the positions that depend on no
  /// index.
  Block outer_nest(const std::vector<SpaceAxis>& axes, Block body) const {
    body = nest(axes, std::move(body));
    return body.empty() ? body : positions_.inside_all(std::move(body));
  }

  void append(Block block) {
    result_.loop.body.insert(result_.loop.body.end(), block.begin(), block.end());
  }

  void assign(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    bind(node);
    const BufferId target = buffer_of(*node.target);
    const DType type = node.target->dtype();
    auto [body, v] = compute(node);
    // A reduction of a single term still passes through its operation's type: all and any give
    // truth values.
    if (node.accumulate && (*node.accumulate == Op::and_ || *node.accumulate == Op::or_)) {
      v = make_cast(std::move(v), DType::bool_);
    }
    v = make_cast(std::move(v), type);
    std::vector<Affine> at = target_of(node);
    const bool clears =
        v->kind == ValueKind::constant && v->scalar == make_cast(no_value(), type)->scalar;
    if (clears && covers(node, space)) return append({make_zero(target)});
    body.push_back(make_store(target, std::move(at), std::move(v)));
    append(outer_nest(space, std::move(body)));
  }

  /// Assigns the values, then sorts each row by the network's loops.
  void sort(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    assign(node, space);
    bind(node);
    const RowOfBuffer row{buffer_of(*node.target), node.target->dtype(), target_of(node)};
    append(outer_nest({space.begin(), space.end() - 1},
                      sorting_network(row, space.back().extent, next_var_, next_local_)));
  }

  static ValuePtr no_value() { return make_constant(Scalar{}); }

  /// before (op) term, computed in the compute type of both, converted to the accumulator's type.
  static ValuePtr join(Op op, const ValuePtr& before, ValuePtr term, DType type) {
    return make_cast(make_op(op, {before, std::move(term)}), type);
  }

  /// The type of an accumulator for target type T: f32 for 16-bit floats; sums then round once.
  static DType accumulator_type(DType target) { return compute_type(target); }

  /// Reduced axes innermost around a scalar accumulator that starts from `start`.
  void accumulate_in_local(const StatementNode& node, const std::vector<SpaceAxis>& space,
                           bool from_neutral) {
    bind(node);
    const auto [kept, reduced] = split(space);
    const BufferId target = buffer_of(*node.target);
    const DType type = accumulator_type(node.target->dtype());
    const LocalId local = next_local_++;
    const std::vector<Affine> at = target_of(node);
    const ValuePtr start = from_neutral
                               ? make_constant(*neutral(*node.accumulate, type))
                               : make_cast(make_load(target, node.target->dtype(), at), type);
    Block body{make_declare(local, start)};
    const std::size_t own = positions_.size();
    auto [step, term] = compute(node);
    step.push_back(
        make_assign(local, join(*node.accumulate, make_local(local, type), std::move(term), type)));
    Block sum = nest(reduced, std::move(step));
    // A sum without terms reads nothing: its positions need not fit anywhere.
    if (sum.empty()) positions_.shrink(own);
    body.insert(body.end(), sum.begin(), sum.end());
    body.push_back(
        make_store(target, at, make_cast(make_local(local, type), node.target->dtype())));
    append(outer_nest(kept, std::move(body)));
  }

  void accumulate(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    if (reduces(space) && !reads_target(node)) {
      accumulate_in_local(node, space, false);
      return;
    }
    bind(node);
    append(outer_nest(space, load_join_store(node)));
  }

  Block load_join_store(const StatementNode& node) {
    const BufferId target = buffer_of(*node.target);
    const DType type = accumulator_type(node.target->dtype());
    std::vector<Affine> at = target_of(node);
    const ValuePtr before = make_cast(make_load(target, node.target->dtype(), at), type);
    auto [body, term] = compute(node);
    const ValuePtr sum = join(*node.accumulate, before, std::move(term), type);
    body.push_back(make_store(target, std::move(at), make_cast(sum, node.target->dtype())));
    return body;
  }

  void reduce(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    const auto [kept, reduced] = split(space);
    if (!reads_target(node) && injective(node, kept)) {
      accumulate_in_local(node, space, true);
      return;
    }
    // Several iterations write the same element, or the statement reads the target: initialise all
    // elements first, then accumulate.
    bind(node);
    const DType target_type = node.target->dtype();
    const ValuePtr start = make_cast(
        make_constant(*neutral(*node.accumulate, accumulator_type(target_type))), target_type);
    append(outer_nest(kept, {make_store(buffer_of(*node.target), target_of(node), start)}));
    accumulate(node, space);
  }

  void set_roles() {
    for (BufferDecl& decl : result_.loop.buffers) {
      if (decl.role != Role::merge) decl.role = Role::inout;
    }
    result_.interface = read_interface(result_.loop);
    for (std::size_t k = 0; k < result_.loop.buffers.size(); ++k)
      result_.loop.buffers[k].role = result_.interface.buffers[k].role;
  }

  Lowered result_;
  std::optional<Tensor> merge_;
  std::optional<BufferId> merge_id_;
  std::map<std::uint64_t, BufferId> buffers_;  // by tensor id
  std::map<std::uint64_t, StaticId> statics_;  // by index id
  // State of the current statement: indices by id, and the nodes of its value.
  std::map<std::uint64_t, Affine> indices_;
  Positions positions_;
  std::unordered_map<const ExprNode*, int> uses_;
  std::unordered_map<const ExprNode*, ValuePtr> shared_;
  VarId next_var_ = 0;
  LocalId next_local_ = 0;
};

}  // namespace

Lowered lower(const Program& program, std::span<const Wish> wishes) {
  return Lowering().run(program, wishes);
}

}  // namespace heddle::jit
