// See turned_scratch.hpp.
#include "jit/schedule/turned_scratch.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/shrunk_scratch.hpp"
#include "jit/schedule/transpose.hpp"

namespace heddle::jit {
namespace {

/// The straight-line code of a perfect nest of two serial loops.
const Block* body_of_nest(const StmtPtr& nest) {
  if (!is_serial_loop(nest) || nest->body.size() != 1 || !is_serial_loop(nest->body[0]))
    return nullptr;
  const Block& body = nest->body[0]->body;
  return is_straight(body) ? &body : nullptr;
}

/// True if a subscript is the variable of one loop of the nest, and the other that of the other,
/// plus constants.
bool follows_both_loops(const std::vector<Affine>& subscripts, const StmtPtr& nest) {
  const auto follows = [](const Affine& index, VarId var) {
    return index.terms.size() == 1 &&
           affine_add(index, Affine{-index.constant, {}}) == affine_var(var);
  };
  const VarId outer = nest->var, inner = nest->body[0]->var;
  return subscripts.size() == 2 &&
         ((follows(subscripts[0], outer) && follows(subscripts[1], inner)) ||
          (follows(subscripts[0], inner) && follows(subscripts[1], outer)));
}

class ScratchTurner {
 public:
  ScratchTurner(Scheduling& in, Block body) : in_(in), body_(std::move(body)) {}

  Block turned() && {
    const auto users = users_of_buffers(body_, in_.lowered.loop.buffers.size());
    for (BufferId buffer = 0; buffer < users.size(); ++buffer) {
      if (may_be_turned(buffer, users[buffer])) turn_if_better(buffer, users[buffer]);
    }
    return std::move(body_);
  }

 private:
  using Positions = std::vector<std::size_t>;

  [[nodiscard]] bool may_be_turned(BufferId buffer, const Positions& users) const {
    constexpr std::size_t users_max = 8;
    const BufferDecl& decl = in_.lowered.loop.buffers[buffer];
    return decl.role == Role::scratch && decl.type.dims.size() == 2 && users.size() <= users_max &&
           std::ranges::all_of(users,
                               [&](std::size_t k) { return is_elementwise_user(k, buffer); });
  }

  [[nodiscard]] bool is_elementwise_user(std::size_t at, BufferId buffer) const {
    const Block* body = body_of_nest(body_[at]);
    if (body == nullptr) return false;
    bool all = true;
    for (const StmtPtr& stmt : *body) {
      if (stmt->kind == StmtKind::store && stmt->buffer == buffer)
        all = all && follows_both_loops(stmt->subscripts, body_[at]);
    }
    walk_values(*body, [&](const Value& v) {
      if (v.kind == ValueKind::load && v.buffer == buffer)
        all = all && follows_both_loops(v.subscripts, body_[at]);
    });
    return all;
  }

  void turn_if_better(BufferId buffer, const Positions& users) {
    std::vector<std::optional<Transpose>> before;
    for (const std::size_t k : users) before.push_back(find_transpose(in_.lowered.loop, body_[k]));
    exchange_axes(buffer);
    std::int64_t fewer = 0;
    Block nests;
    for (std::size_t n = 0; n < users.size(); ++n) {
      StmtPtr nest = reading_turned(body_[users[n]], buffer);
      const bool is_turned = is_transpose(in_.lowered.loop, nest);
      // Iterations that run in order would lie across from then on.
      if (!before[n] && !is_turned) return exchange_axes(buffer);
      fewer += (before[n] ? 1 : 0) - (is_turned ? 1 : 0);
      // The iterations of a transpose run in any order.
      if (before[n] && !is_turned) nest = along_stores(nest);
      nests.push_back(std::move(nest));
    }
    if (fewer <= 0) return exchange_axes(buffer);
    for (std::size_t n = 0; n < users.size(); ++n) body_[users[n]] = nests[n];
  }

  void exchange_axes(BufferId buffer) {
    const Dims dims = in_.lowered.loop.buffers[buffer].type.dims;
    set_extent(in_.lowered, buffer, 0, dims[1]);
    set_extent(in_.lowered, buffer, 1, dims[0]);
  }

  [[nodiscard]] static StmtPtr reading_turned(const StmtPtr& stmt, BufferId buffer) {
    Stmt copy = *stmt;
    if (copy.kind == StmtKind::store && copy.buffer == buffer)
      std::swap(copy.subscripts[0], copy.subscripts[1]);
    if (copy.value) {
      copy.value = rebuild(copy.value, [&](ValuePtr v) {
        if (v->kind != ValueKind::load || v->buffer != buffer) return v;
        return make_load(buffer, v->dtype, {v->subscripts[1], v->subscripts[0]});
      });
    }
    for (StmtPtr& inner : copy.body) inner = reading_turned(inner, buffer);
    return std::make_shared<const Stmt>(std::move(copy));
  }

  /// The nest, with the loop innermost along which the last store is contiguous.
  [[nodiscard]] StmtPtr along_stores(const StmtPtr& nest) const {
    const StmtPtr inner(nest->body[0]);
    std::int64_t step = 1;
    for (const StmtPtr& stmt : inner->body) {
      if (stmt->kind == StmtKind::store)
        step = stride(in_.lowered.loop, stmt->buffer, stmt->subscripts, inner->var);
    }
    return step == 1 ? nest : with_body(*inner, {with_body(*nest, inner->body)});
  }

  Scheduling& in_;
  Block body_;
};

}  // namespace

Block with_turned_scratch(Scheduling& in, const Block& body) {
  const bool has_scratch = std::ranges::any_of(
      in.lowered.loop.buffers, [](const BufferDecl& each) { return each.role == Role::scratch; });
  if (!has_scratch) return body;
  return ScratchTurner(in, body).turned();
}

}  // namespace heddle::jit
