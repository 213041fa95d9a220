// See footprint.hpp.
#include "jit/schedule/footprint.hpp"

#include <algorithm>

#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

void join(std::optional<Distances>& to, const std::optional<Distances>& from) {
  if (to && from)
    to->add(*from);
  else if (from)
    to = from;
}

}  // namespace

void Distances::add(const Distances& other) {
  lowest = std::min(lowest, other.lowest);
  highest = std::max(highest, other.highest);
  if (other.count_ == 0) count_ = 0;
  for (const std::int64_t one : other.each()) {
    if (count_ == 0) return;
    if (std::ranges::find(each(), one) != each().end()) continue;
    if (count_ == each_.size()) {
      count_ = 0;
    } else {
      each_[count_++] = one;
    }
  }
}

bool Distances::are_apart(std::int64_t extent) const {
  if (are_one()) return true;
  return count_ > 0 && std::ranges::all_of(each(), [&](std::int64_t a) {
           return std::ranges::all_of(each(), [&](std::int64_t b) {
             return a == b || std::max(a, b) - extent >= std::min(a, b);
           });
         });
}

bool Distances::meet(const Distances& other) const {
  return std::ranges::any_of(each(), [&](std::int64_t one) {
    return std::ranges::find(other.each(), one) != other.each().end();
  });
}

void AxisUse::add(const AxisUse& other) {
  join(reads, other.reads);
  join(writes, other.writes);
}

Distances AxisUse::all() const {
  std::optional<Distances> both = reads;
  join(both, writes);
  return *both;
}

void FootprintPart::add(const FootprintPart& other) {
  written = written || other.written;
  whole = whole || other.whole;
  if (!own_axes) {
    own_axes = other.own_axes;
  } else if (other.own_axes) {
    std::erase_if(*own_axes,
                  [&](const auto& axis) { return !other.own_axes->contains(axis.first); });
    for (auto& [axis, use] : *own_axes) use.add(other.own_axes->at(axis));
  }
}

Footprint footprint(const Stmt& loop) {
  Footprint result;
  const auto touch = [&](BufferId buffer, const std::vector<Affine>& at, bool writes) {
    FootprintPart access{writes, false, std::map<std::size_t, AxisUse>()};
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      const Distances here(at[axis].constant);
      if (affine_add(at[axis], Affine{-here.lowest, {}}) == affine_var(loop.var))
        (*access.own_axes)[axis] = writes ? AxisUse{{}, here} : AxisUse{here, {}};
    }
    const auto [known, is_new] = result.try_emplace(buffer, access);
    if (!is_new) known->second.add(access);
  };
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::zero) result[stmt.buffer].written = result[stmt.buffer].whole = true;
    if (stmt.kind == StmtKind::store) touch(stmt.buffer, stmt.subscripts, true);
    if (stmt.value) {
      walk(*stmt.value, [&](const Value& v) {
        if (v.kind == ValueKind::load) touch(v.buffer, v.subscripts, false);
      });
    }
  });
  return result;
}

bool carries(const Footprint& touched, std::int64_t extent) {
  return std::ranges::any_of(touched, [&](const auto& of) {
    const auto& [buffer, part] = of;
    const auto is_own = [&](const auto& axis) { return axis.second.all().are_apart(extent); };
    return part.written &&
           (part.whole || !part.own_axes || std::ranges::none_of(*part.own_axes, is_own));
  });
}

bool follows(const AxisUse& first, const AxisUse& second) {
  return (!first.writes || second.all().highest <= first.writes->lowest) &&
         (!second.writes || second.writes->highest <= first.all().lowest);
}

bool is_innermost(const Stmt& loop) {
  return std::ranges::none_of(loop.body,
                              [](const StmtPtr& stmt) { return stmt->kind == StmtKind::loop; });
}

}  // namespace heddle::jit
