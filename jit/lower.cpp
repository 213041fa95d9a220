// Lowering: each statement of a Program becomes a loop nest over its iteration space. Pure; any
// thread.
//
// Statements run one after another, each in row-major order of its space with reduced indices
// innermost. A statement that reads other elements of its own target sees what earlier iterations
// wrote, as the loops say.
#include "jit/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "heddle/status.hpp"
#include "jit/expr.hpp"

namespace heddle::jit {
namespace {

class Lowering {
 public:
  Lowered run(const Program& program) {
    result_.name = program.name();
    merge_ = program.merge_tensor();
    for (const Tensor& tensor : program.tensors()) {
      buffer_of(tensor);
      result_.placements.emplace_back(tensor, Placement{tensor.mode(), tensor.mode_provenance()});
    }
    for (const Statement& statement : program.statements()) lower(statement.node());
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
    const auto at = std::ranges::find(result_.statics, index);
    if (at != result_.statics.end()) return static_cast<StaticId>(at - result_.statics.begin());
    result_.statics.push_back(index);
    result_.loop.statics.push_back({index.range()});
    return static_cast<StaticId>(result_.statics.size() - 1);
  }

  Affine affine(const Subscript& subscript) {
    Affine sum;
    sum.constant = subscript.constant();
    for (const auto& term : subscript.terms()) {
      const Affine part =
          std::holds_alternative<Index>(term.index)
              ? affine_var(vars_.at(std::get<Index>(term.index).id()), term.coefficient)
              : affine_static(static_of(std::get<StaticIndex>(term.index)), term.coefficient);
      sum = affine_add(sum, part);
    }
    return sum;
  }

  /// Bounds of a static index are found one index at a time, so those that share a subscript need
  /// ranges.
  static void require_ranges(const Tensor& tensor, const Subscript& subscript) {
    std::size_t count = 0;
    const StaticIndex* open = nullptr;
    for (const auto& term : subscript.terms()) {
      const auto* index = std::get_if<StaticIndex>(&term.index);
      if (index == nullptr) continue;
      ++count;
      if (!index->range()) open = index;
    }
    if (count < 2 || open == nullptr) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("static index '{}' shares a subscript of '{}' with another static "
                            "index; declare it with a "
                            "range: StaticIndex(\"{}\", range)",
                            open->label(), tensor.label(), open->label()));
  }

  std::vector<Affine> affines(const Tensor& tensor, const std::vector<Subscript>& subscripts) {
    for (const Subscript& s : subscripts) require_ranges(tensor, s);
    return affines(subscripts);
  }

  std::vector<Affine> affines(const std::vector<Subscript>& subscripts) {
    std::vector<Affine> result;
    result.reserve(subscripts.size());
    for (const Subscript& s : subscripts) result.push_back(affine(s));
    return result;
  }

  /// A value in its compute type; what is stored in 16 bits is widened as it is read.
  ValuePtr value(const ExprNode& node) {
    switch (node.kind) {
      case ExprKind::constant:
        return make_constant(convert(node.scalar, node.dtype));
      case ExprKind::read:
        return make_load(buffer_of(*node.tensor), node.dtype,
                         affines(*node.tensor, node.subscripts));
      case ExprKind::merge:
        return make_load(merge_buffer(), node.dtype, affines(*node.tensor, node.subscripts));
      case ExprKind::embed:
        return make_embed(affine(node.subscripts[0]));
      case ExprKind::cast:
        return make_cast(value(*node.args[0]), node.dtype);
      case ExprKind::op:
        break;
    }
    std::vector<ValuePtr> args;
    args.reserve(node.args.size());
    for (const auto& arg : node.args) args.push_back(value(*arg));
    return make_op(node.op, std::move(args));
  }

  void lower(const StatementNode& node) {
    if (!node.target) {
      result_.loop.body.push_back(make_comment(node.comment));
      return;
    }
    const std::vector<SpaceAxis> space = iteration_space(node);
    const bool whole_space = std::ranges::none_of(space, &SpaceAxis::reduced);
    if (node.accumulate && node.initialize_neutral && !(whole_space && injective(node, space))) {
      reduce(node, space);
    } else if (node.accumulate && !node.initialize_neutral) {
      accumulate(node, space);
    } else {
      assign(node, space);  // one term per element: the neutral element changes nothing (3E)
    }
  }

  /// Every index is a plain subscript on the left: each element is assigned once.
  static bool injective(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    return std::ranges::all_of(space, [&](const SpaceAxis& axis) {
      return std::ranges::any_of(node.subscripts, [&](const Subscript& s) {
        return s.terms().size() == 1 && std::holds_alternative<Index>(s.terms()[0].index) &&
               std::get<Index>(s.terms()[0].index).id() == axis.index.id();
      });
    });
  }

  void bind(const std::vector<SpaceAxis>& space) {
    vars_.clear();
    for (const SpaceAxis& axis : space) vars_[axis.index.id()] = next_var_++;
  }

  Block nest(const std::vector<SpaceAxis>& axes, Block body) {
    for (std::size_t k = axes.size(); k-- > 0;) {
      Block outer{make_loop(vars_.at(axes[k].index.id()), 0, axes[k].extent, std::move(body))};
      body = std::move(outer);
    }
    return body;
  }

  void append(Block block) {
    result_.loop.body.insert(result_.loop.body.end(), block.begin(), block.end());
  }

  void assign(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    bind(space);
    const BufferId target = buffer_of(*node.target);
    // A one-term reduction still passes through the operation's type: all and any give truth
    // values.
    ValuePtr v = value(*node.value);
    if (node.accumulate && (*node.accumulate == Op::and_ || *node.accumulate == Op::or_)) {
      v = make_cast(std::move(v), DType::bool_);
    }
    std::vector<Affine> at = affines(*node.target, node.subscripts);
    const bool clears =
        v->kind == ValueKind::constant &&
        make_cast(v, node.target->dtype())->scalar == convert(Scalar{}, node.target->dtype());
    if (clears && covers(node, space)) {
      append({make_zero(target)});
      return;
    }
    v = make_cast(std::move(v), node.target->dtype());
    append(nest(space, {make_store(target, std::move(at), std::move(v))}));
  }

  /// The statement writes every element of its target, once.
  static bool covers(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    if (space.size() != node.subscripts.size()) return false;
    for (std::size_t k = 0; k < space.size(); ++k) {
      const Subscript& s = node.subscripts[k];
      const bool plain = s.constant() == 0 && s.terms().size() == 1 &&
                         s.terms()[0].coefficient == 1 &&
                         std::holds_alternative<Index>(s.terms()[0].index);
      if (!plain || std::get<Index>(s.terms()[0].index).id() != space[k].index.id() ||
          space[k].extent != node.target->dims()[k]) {
        return false;
      }
    }
    return true;
  }

  /// before (op) term, in the compute type that holds both, back in the accumulator's type.
  static ValuePtr join(Op op, const ValuePtr& before, ValuePtr term, DType type) {
    return make_cast(make_op(op, {before, std::move(term)}), type);
  }

  /// What an accumulator of target type T is kept in: f32 for 16-bit floats, so that sums round
  /// once.
  static DType accumulator_type(DType target) { return compute_type(target); }

  bool reads_target(const StatementNode& node) const {
    bool reads = false;
    walk(*node.value, [&](const ExprNode& e) {
      reads = reads || (e.kind == ExprKind::read && *e.tensor == *node.target);
    });
    return reads;
  }

  static std::pair<std::vector<SpaceAxis>, std::vector<SpaceAxis>> split(
      const std::vector<SpaceAxis>& space) {
    std::pair<std::vector<SpaceAxis>, std::vector<SpaceAxis>> parts;
    for (const SpaceAxis& axis : space) (axis.reduced ? parts.second : parts.first).push_back(axis);
    return parts;
  }

  /// Reduced axes innermost around a scalar accumulator that starts from `start`.
  void accumulate_in_local(const StatementNode& node, const std::vector<SpaceAxis>& space,
                           bool from_neutral) {
    bind(space);
    const auto [kept, reduced] = split(space);
    const BufferId target = buffer_of(*node.target);
    const DType type = accumulator_type(node.target->dtype());
    const LocalId local = next_local_++;
    const std::vector<Affine> at = affines(*node.target, node.subscripts);
    const ValuePtr start = from_neutral
                               ? make_constant(*neutral(*node.accumulate, type))
                               : make_cast(make_load(target, node.target->dtype(), at), type);
    Block body{make_declare(local, start)};
    const ValuePtr sum = join(*node.accumulate, make_local(local, type), value(*node.value), type);
    for (StmtPtr& stmt : nest(reduced, {make_assign(local, sum)})) body.push_back(std::move(stmt));
    body.push_back(
        make_store(target, at, make_cast(make_local(local, type), node.target->dtype())));
    append(nest(kept, std::move(body)));
  }

  void accumulate(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    const bool reduces = std::ranges::any_of(space, &SpaceAxis::reduced);
    if (reduces && !reads_target(node)) {
      accumulate_in_local(node, space, false);
      return;
    }
    bind(space);
    append(nest(space, {load_join_store(node)}));
  }

  StmtPtr load_join_store(const StatementNode& node) {
    const BufferId target = buffer_of(*node.target);
    const DType type = accumulator_type(node.target->dtype());
    std::vector<Affine> at = affines(*node.target, node.subscripts);
    const ValuePtr before = make_cast(make_load(target, node.target->dtype(), at), type);
    const ValuePtr sum = join(*node.accumulate, before, value(*node.value), type);
    return make_store(target, std::move(at), make_cast(sum, node.target->dtype()));
  }

  void reduce(const StatementNode& node, const std::vector<SpaceAxis>& space) {
    const auto [kept, reduced] = split(space);
    if (!reads_target(node) && injective(node, kept)) {
      accumulate_in_local(node, space, true);
      return;
    }
    // Several iterations meet in one element, or the target is read: start all elements first, then
    // accumulate.
    bind(space);
    const DType target_type = node.target->dtype();
    const ValuePtr start = make_cast(
        make_constant(*neutral(*node.accumulate, accumulator_type(target_type))), target_type);
    append(nest(kept, {make_store(buffer_of(*node.target), affines(*node.target, node.subscripts),
                                  start)}));
    bind(space);
    append(nest(space, {load_join_store(node)}));
  }

  void set_roles() {
    for (BufferDecl& decl : result_.loop.buffers) {
      if (decl.role != Role::merge) decl.role = Role::inout;
    }
    const Signature signature = make_signature(result_.loop);
    for (std::size_t k = 0; k < result_.loop.buffers.size(); ++k)
      result_.loop.buffers[k].role = signature.entries[k].role;
  }

  Lowered result_;
  std::optional<Tensor> merge_;
  std::optional<BufferId> merge_id_;
  std::map<std::uint64_t, BufferId> buffers_;  // by tensor id
  std::map<std::uint64_t, VarId> vars_;        // by index id, of the statement at hand
  VarId next_var_ = 0;
  LocalId next_local_ = 0;
};

}  // namespace

Lowered lower(const Program& program) { return Lowering().run(program); }

}  // namespace heddle::jit
