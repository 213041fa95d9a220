// See joined_axes.hpp.
#include "jit/schedule/joined_axes.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/address.hpp"
#include "jit/schedule/column_reduction.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/elementwise.hpp"
#include "jit/schedule/joined_loops.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// The nests that access a buffer; looked for when first asked.
class Users {
 public:
  explicit Users(const Loop& kernel) : kernel_(kernel) {}

  /// The places of the nests.
  [[nodiscard]] const std::vector<std::size_t>& of(BufferId buffer) {
    if (users_.empty()) users_ = users_of_buffers(kernel_.body, kernel_.buffers.size());
    return users_[buffer];
  }

 private:
  const Loop& kernel_;
  std::vector<std::vector<std::size_t>> users_;  ///< by buffer
};

/// Matrices of more rows fill the tiles of a product by themselves.
constexpr std::int64_t product_rows_max = 32;

class ShortAxes {
 public:
  ShortAxes(Scheduling& in, Users& users, std::size_t at) : in_(in), users_(users), at_(at) {}

  void join() {
    if (!find_loops() || !find_buffers()) return;
    const StmtPtr nest = joined();
    std::map<BufferId, Dims> before;
    for (const auto& [buffer, axes] : axes_) {
      before[buffer] = type_of(buffer).dims;
      set_dims(buffer, joined_dims(buffer));
    }
    // Elements of other sizes, for example, have no vectors.
    if (!(is_product_     ? find_contraction(in_.lowered.loop, nest).has_value()
          : is_reduction_ ? is_column_reduction(in_, column_loop(nest))
                          : is_elementwise(in_, nest))) {
      for (const auto& [buffer, dims] : before) set_dims(buffer, dims);
      return;
    }
    Block& body = in_.lowered.loop.body;
    std::set<std::size_t> others;
    for (const auto& [buffer, axes] : axes_)
      others.insert(users_.of(buffer).begin(), users_.of(buffer).end());
    for (const std::size_t k : others) body[k] = k == at_ ? nest : elsewhere(body[k], before);
    for (const auto& [buffer, axes] : axes_) {
      if (in_.lowered.loop.buffers[buffer].role != Role::scratch) continue;
      const ArrayType& type = type_of(buffer);
      Tensor& tensor = in_.lowered.tensors[buffer];
      tensor = Tensor(tensor.label(), type.dtype, type.dims);
    }
  }

 private:
  [[nodiscard]] const ArrayType& type_of(BufferId buffer) const {
    return in_.lowered.loop.buffers[buffer].type;
  }
  void set_dims(BufferId buffer, const Dims& dims) {
    in_.lowered.loop.buffers[buffer].type.dims = dims;
  }

  [[nodiscard]] bool find_loops() {
    StmtPtr inner = in_.lowered.loop.body[at_];
    while (inner->kind == StmtKind::loop && inner->mark == LoopMark::serial && inner->from == 0) {
      loops_.push_back(inner);
      if (inner->body.size() != 1) break;
      inner = StmtPtr(inner->body[0]);
    }
    if (loops_.size() < 2) return false;
    const Block& body = loops_.back()->body;
    const StmtPtr& nest = in_.lowered.loop.body[at_];
    is_product_ = loops_.size() > 2 && find_contraction(in_.lowered.loop, nest).has_value();
    if (is_product_) return inner_loop().to <= product_rows_max;
    is_reduction_ = body.size() > 2 && match_reduction(body[0], body[1]).has_value();
    bool is_worth_it = is_reduction_;
    walk_values(body, [&](const Value& v) {
      is_worth_it = is_worth_it || (v.kind == ValueKind::op && own_cost(v) >= costly);
    });
    const std::optional<DType> type = lane_type(body);
    if (!(is_straight(body) || is_reduction_) || !is_worth_it || !type) return false;
    const std::int64_t lanes = in_.target.lanes(*type);
    return inner_loop().to < lanes && outer_loop().to * inner_loop().to >= lanes;
  }
  /// The loops to join are the innermost; those of a product are the rows, around the columns.
  [[nodiscard]] std::size_t inner() const { return loops_.size() - (is_product_ ? 2 : 1); }
  [[nodiscard]] const Stmt& outer_loop() const { return *loops_[inner() - 1]; }
  [[nodiscard]] const Stmt& inner_loop() const { return *loops_[inner()]; }

  [[nodiscard]] bool moves_with_either(const std::vector<Affine>& at) const {
    return std::ranges::any_of(at, [this](const Affine& index) {
      return split_lane(index, outer_loop().var).second != 0 ||
             split_lane(index, inner_loop().var).second != 0;
    });
  }
  /// From the axis of the outer loop to the axis of the inner loop.
  struct Axes {
    std::size_t first = 0, last = 0;
    friend bool operator==(const Axes&, const Axes&) = default;
  };

  /// The axes that the loops go over as a whole, one after the other.
  [[nodiscard]] std::optional<Axes> axes_of(BufferId buffer, const std::vector<Affine>& at) const {
    const Dims& dims = type_of(buffer).dims;
    const auto moves_by_one = [this](const Affine& index) {
      return Affine{0, index.terms} == affine_var(outer_loop().var);
    };
    const auto outer = std::ranges::find_if(at, moves_by_one);
    const auto inner = std::ranges::find(at, affine_var(inner_loop().var));
    const Axes axes{static_cast<std::size_t>(outer - at.begin()),
                    static_cast<std::size_t>(inner - at.begin())};
    if (axes.last >= at.size() || axes.first >= axes.last || dims[axes.last] != inner_loop().to)
      return std::nullopt;
    for (std::size_t k = axes.first + 1; k < axes.last; ++k)
      if (dims[k] != 1) return std::nullopt;
    std::vector<Affine> others = at;
    erase_behind(others, axes);
    others[axes.first] = Affine();
    return moves_with_either(others) ? std::nullopt : std::optional(axes);
  }

  /// Leaves the first of the axes.
  template <class Each>
  static void erase_behind(std::vector<Each>& each, const Axes& axes) {
    const auto at = each.begin() + static_cast<std::ptrdiff_t>(axes.first) + 1;
    each.erase(at, at + static_cast<std::ptrdiff_t>(axes.last - axes.first));
  }

  /// Finds the axes to join; false where an access keeps the loops from being joined.
  [[nodiscard]] bool find_buffers() {
    bool works = true;
    walk(loops_.back()->body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store) note(stmt.buffer, stmt.subscripts, nullptr, works);
      if (!stmt.value) return;
      walk(*stmt.value, [&](const Value& v) {
        if (v.kind == ValueKind::load)
          note(v.buffer, v.subscripts, &v, works);
        else if (moves_with_either({v.index}) || moves_with_either(v.subscripts))
          works = false;
      });
    });
    return works && !axes_.empty();
  }
  void note(BufferId buffer, const std::vector<Affine>& at, const Value* load, bool& works) {
    std::optional<Axes> axes;
    if (load == nullptr || moves_with_either(at)) {
      axes = axes_of(buffer, at);
      if (!axes || !others_allow(buffer)) {
        works = works && load != nullptr &&
                may_join(in_.lowered.loop, *load, outer_loop(), inner_loop());
        axes.reset();
      }
    }
    // All accesses to a buffer are alike.
    works = works && accesses_.emplace(buffer, axes).first->second == axes;
    if (axes) axes_.emplace(buffer, *axes);
  }

  /// True if no other nest accesses the buffer, except at computed positions.
  [[nodiscard]] bool others_allow(BufferId buffer) const {
    const Block& body = in_.lowered.loop.body;
    for (const std::size_t k : users_.of(buffer)) {
      if (k == at_) continue;
      bool touches = false, has_positions = false, other = false;
      walk(Block{body[k]}, [&](const Stmt& stmt) {
        has_positions = has_positions || stmt.kind == StmtKind::at;
        const bool is_own = stmt.buffer == buffer;
        touches = touches || (stmt.kind == StmtKind::store && is_own);
        other =
            other || (is_own && (stmt.kind == StmtKind::zero || stmt.kind == StmtKind::prefetch));
        if (!stmt.value) return;
        walk(*stmt.value, [&](const Value& v) {
          if (v.kind != ValueKind::load || v.buffer != buffer) return;
          touches = true;
          other = other || is_flat(type_of(buffer).dims, v.subscripts);
        });
      });
      if (other || (touches && !has_positions)) return false;
    }
    return true;
  }

  [[nodiscard]] Dims joined_dims(BufferId buffer) const {
    Dims made = type_of(buffer).dims;
    const Axes axes = axes_.at(buffer);
    made[axes.first] *= made[axes.last];
    erase_behind(made, axes);
    return made;
  }

  /// The nest with one loop for two.
  [[nodiscard]] StmtPtr joined() const {
    const VarId var = inner_loop().var;
    const auto moved = [&](BufferId buffer, std::vector<Affine> at) {
      const auto axis = axes_.find(buffer);
      if (axis == axes_.end()) return at;
      Affine& first = at[axis->second.first];
      first = affine_add(affine_var(var), Affine{first.constant * inner_loop().to, {}});
      erase_behind(at, axis->second);
      return at;
    };
    const auto with_one_loop = [&](const auto& self, const StmtPtr& stmt) -> StmtPtr {
      Stmt made = *stmt;
      if (made.value) {
        made.value = rebuild(made.value, [&](ValuePtr v) {
          if (v->kind != ValueKind::load) return v;
          if (axes_.contains(v->buffer))
            return make_load(v->buffer, v->dtype, moved(v->buffer, v->subscripts));
          return joined_term(in_.lowered.loop, v, outer_loop());
        });
      }
      if (made.kind == StmtKind::store) made.subscripts = moved(made.buffer, made.subscripts);
      for (StmtPtr& inner : made.body) inner = self(self, inner);
      return std::make_shared<const Stmt>(std::move(made));
    };
    Block body;
    for (const StmtPtr& stmt : inner_loop().body)
      body.push_back(with_one_loop(with_one_loop, stmt));
    StmtPtr nest = make_loop(var, 0, outer_loop().to * inner_loop().to, std::move(body));
    for (std::size_t k = inner() - 1; k-- > 0;) nest = with_body(*loops_[k], {nest});
    return nest;
  }

  /// The joined loop of the nest.
  [[nodiscard]] StmtPtr column_loop(const StmtPtr& nest) const {
    StmtPtr inner = nest;
    for (std::size_t k = 2; k < loops_.size(); ++k) inner = StmtPtr(inner->body[0]);
    return inner;
  }

  /// A statement of another nest, with the joined axes.
  [[nodiscard]] StmtPtr elsewhere(const StmtPtr& stmt,
                                  const std::map<BufferId, Dims>& before) const {
    const auto moved = [&](BufferId buffer, std::vector<Affine> at) {
      const auto axis = axes_.find(buffer);
      if (axis == axes_.end()) return at;
      const auto [first, last] = axis->second;
      at[first] = affine_add(affine_scale(at[first], before.at(buffer)[last]), at[last]);
      erase_behind(at, axis->second);
      return at;
    };
    Stmt made = *stmt;
    if (made.value) {
      made.value = rebuild(made.value, [&](ValuePtr v) {
        return v->kind == ValueKind::load && axes_.contains(v->buffer)
                   ? make_load(v->buffer, v->dtype, moved(v->buffer, v->subscripts))
                   : std::move(v);
      });
    }
    if (made.kind == StmtKind::store) made.subscripts = moved(made.buffer, made.subscripts);
    for (StmtPtr& inner : made.body) inner = elsewhere(inner, before);
    return std::make_shared<const Stmt>(std::move(made));
  }

  Scheduling& in_;
  Users& users_;
  const std::size_t at_;
  std::vector<StmtPtr> loops_;
  bool is_reduction_ = false;  ///< of columns, otherwise elementwise
  bool is_product_ = false;    ///< of many matrices of few rows with one matrix
  std::map<BufferId, std::optional<Axes>> accesses_;
  std::map<BufferId, Axes> axes_;  ///< to join
};

}  // namespace

void join_short_axes(Scheduling& in) {
  Users users(in.lowered.loop);
  for (std::size_t k = 0; k < in.lowered.loop.body.size(); ++k) ShortAxes(in, users, k).join();
}

}  // namespace heddle::jit
