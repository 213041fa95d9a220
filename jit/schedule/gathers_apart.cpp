// See gathers_apart.hpp.
#include "jit/schedule/gathers_apart.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/schedule/elementwise.hpp"
#include "jit/schedule/settled_positions.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

class Gathers {
 public:
  Gathers(Scheduling& in, const StmtPtr& nest) : in_(in), nest_(nest) {}

  /// The nest of the elements, and the nest of the functions.
  [[nodiscard]] std::optional<Block> apart() {
    if (!find_loops() || !find_elements()) return std::nullopt;
    Dims dims;
    std::vector<Affine> place;
    for (const StmtPtr& each : around_) {
      if (each->kind != StmtKind::loop) continue;
      dims.push_back(each->to);
      place.push_back(affine_var(each->var));
    }
    const std::size_t buffers = in_.lowered.loop.buffers.size();
    std::vector<BufferId> scratch;
    Block copies;
    for (const ValuePtr& element : elements_) {
      scratch.push_back(in_.add_scratch("elements at positions", element->dtype, dims));
      copies.push_back(make_store(scratch.back(), place, element));
    }
    Block body;
    for (const StmtPtr& stmt : inner()) {
      body.push_back(
          stmt->value
              ? with_value(*stmt, rebuild(stmt->value,
                                          [&](ValuePtr v) {
                                            const auto same = [&](const ValuePtr& other) {
                                              return equal(*other, *v);
                                            };
                                            const auto at = std::ranges::find_if(elements_, same) -
                                                            elements_.begin();
                                            return at == std::ssize(elements_)
                                                       ? std::move(v)
                                                       : make_load(
                                                             scratch[static_cast<std::size_t>(at)],
                                                             v->dtype, place);
                                          }))
              : stmt);
    }
    const StmtPtr functions = around(std::move(body), false);
    if (!is_elementwise(in_, functions)) {
      in_.drop_scratch(buffers);
      return std::nullopt;
    }
    Block result = with_settled_positions(
        in_.fresh, with_own_names(in_.fresh, {around(std::move(copies), true)}, {}),
        settled_parts_max);
    result.push_back(functions);
    return result;
  }

 private:
  [[nodiscard]] const Block& inner() const { return around_.back()->body; }

  /// Loops and positions to read at, around straight-line code with costly functions.
  [[nodiscard]] bool find_loops() {
    StmtPtr each = nest_;
    bool positions = false;
    while ((each->kind == StmtKind::loop && each->mark == LoopMark::serial && each->from == 0) ||
           (each->kind == StmtKind::at && each->nearest)) {
      around_.push_back(each);
      if (each->kind == StmtKind::at) positions_.insert(each->var);
      positions = !positions_.empty();
      if (each->body.size() != 1) break;
      each = StmtPtr(each->body[0]);
    }
    if (!positions || !is_straight(inner())) return false;
    bool gains = false;
    for (const StmtPtr& stmt : inner()) gains = gains || (stmt->value && has_costly(*stmt->value));
    const std::optional<DType> type = lane_type(inner());
    const Stmt& last = *around_.back();
    return gains && type && (last.kind == StmtKind::at || last.to < in_.target.lanes(*type));
  }

  [[nodiscard]] bool is_at_position(const std::vector<Affine>& at) const {
    return std::ranges::any_of(at, [this](const Affine& index) {
      return std::ranges::any_of(index.terms, [this](const AffineTerm& term) {
        return term.kind == AffineTerm::Kind::loop && positions_.contains(term.id);
      });
    });
  }

  /// The loads at positions; false where there are others that depend on positions, or where the
  /// statements write what is read.
  [[nodiscard]] bool find_elements() {
    constexpr std::size_t elements_max = 4;
    std::set<BufferId> stored;
    bool works = true;
    for (const StmtPtr& stmt : inner()) {
      works = works && (stmt->kind != StmtKind::store || !is_at_position(stmt->subscripts));
      if (stmt->kind == StmtKind::store) stored.insert(stmt->buffer);
    }
    for (const StmtPtr& stmt : around_) {
      if (stmt->value) note_reads(*stmt->value, stored, works);
    }
    for (const StmtPtr& stmt : inner()) {
      if (!stmt->value) continue;
      note_reads(*stmt->value, stored, works);
      walk(*stmt->value, [&](const Value& v) {
        works = works && !is_at_position({v.index});
        if (v.kind != ValueKind::load) {
          works = works && !is_at_position(v.subscripts);
        } else if (is_at_position(v.subscripts)) {
          const auto same = [&](const ValuePtr& other) { return equal(*other, v); };
          if (std::ranges::none_of(elements_, same))
            elements_.push_back(make_load(v.buffer, v.dtype, v.subscripts));
        }
      });
    }
    return works && !elements_.empty() && elements_.size() <= elements_max;
  }
  static void note_reads(const Value& value, const std::set<BufferId>& stored, bool& works) {
    walk(value, [&](const Value& v) {
      works = works && !(v.kind == ValueKind::load && stored.contains(v.buffer));
    });
  }

  /// The loops, with the positions or without, around the statements.
  [[nodiscard]] StmtPtr around(Block body, bool positions) const {
    for (std::size_t k = around_.size(); k-- > 0;) {
      if (positions || around_[k]->kind == StmtKind::loop)
        body = {with_body(*around_[k], std::move(body))};
    }
    return body[0];
  }

  Scheduling& in_;
  const StmtPtr nest_;
  std::vector<StmtPtr> around_;
  std::set<VarId> positions_;
  std::vector<ValuePtr> elements_;
};

}  // namespace

Block with_gathers_apart(Scheduling& in, const Block& body) {
  Block made;
  for (const StmtPtr& stmt : body) {
    std::optional<Block> apart;
    if (stmt->kind == StmtKind::loop) apart = Gathers(in, stmt).apart();
    append(made, apart.value_or(Block{stmt}));
  }
  return made;
}

}  // namespace heddle::jit
