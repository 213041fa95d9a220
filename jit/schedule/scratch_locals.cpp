// See scratch_locals.hpp.
#include "jit/schedule/scratch_locals.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/affine_value.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/schedule/shrunk_scratch.hpp"

namespace heddle::jit {
namespace {

using Place = std::vector<Affine>;

/// How statements access a buffer.
class ElementAccesses {
 public:
  /// In the order of execution.
  void add(const Place& place, bool stores) {
    ++count_;
    begin_with_stores_ = begin_with_stores_ && (stores || places_.contains(place));
    places_.insert(place);
  }
  void add_other() { begin_with_stores_ = false; }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::set<Place>& places() const { return places_; }
  /// True if each iteration stores what it reads, and no other iteration reads that: places differ
  /// by numbers alone, or by so much that they are in different parts of an axis.
  [[nodiscard]] bool are_of_one_iteration(const LoopRanges& ranges) const {
    if (places_.empty() || places_.size() > places_max || !begin_with_stores_) return false;
    for (auto place = places_.begin(); place != places_.end(); ++place) {
      if (!std::all_of(std::next(place), places_.end(),
                       [&](const Place& other) { return are_apart(*place, other, ranges); }))
        return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t places_max = 512;  // all pairs are compared

  static bool are_apart(const Place& a, const Place& b, const LoopRanges& ranges) {
    for (std::size_t axis = 0; axis < a.size(); ++axis) {
      const bool are_numbers = a[axis].terms.empty() && b[axis].terms.empty();
      if (are_numbers || a[axis] == b[axis]) continue;
      const std::optional<Interval> of_a = reach(a[axis], ranges), of_b = reach(b[axis], ranges);
      if (!of_a || !of_b || (of_a->lowest <= of_b->highest && of_b->lowest <= of_a->highest))
        return false;
    }
    return true;
  }

  std::int64_t count_ = 0;
  std::set<Place> places_;
  bool begin_with_stores_ = true;  // at each place
};
using ByBuffer = std::map<BufferId, ElementAccesses>;

void find_accesses(const Stmt& stmt, ByBuffer& found) {
  if (stmt.value) {
    walk(*stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) found[v.buffer].add(v.subscripts, false);
    });
  }
  if (stmt.kind == StmtKind::store) found[stmt.buffer].add(stmt.subscripts, true);
  if (stmt.kind == StmtKind::zero || stmt.kind == StmtKind::prefetch)
    found[stmt.buffer].add_other();
}

class ScratchLocals {
 public:
  explicit ScratchLocals(Scheduling& in) : in_(in) {
    walk(in.lowered.loop.body, [this](const Stmt& stmt) {
      find_accesses(stmt, all_);
      if (binds_variable(stmt)) ranges_[stmt.var] = {stmt.from, stmt.to};
    });
  }

  /// The statements with such locals.
  Block made(const Block& body) {
    if (is_straight(body)) return straight(body);
    Block result;
    for (const StmtPtr& stmt : body)
      result.push_back(stmt->body.empty() ? stmt : with_body(*stmt, made(stmt->body)));
    return result;
  }

 private:
  using Locals = std::map<std::pair<BufferId, Place>, LocalId>;

  Locals locals_of(const Block& body) {
    ByBuffer here;
    for (const StmtPtr& stmt : body) find_accesses(*stmt, here);
    Locals locals;
    for (const auto& [buffer, accesses] : here) {
      const ElementAccesses& all = all_.at(buffer);
      if (in_.lowered.loop.buffers[buffer].role != Role::scratch ||
          accesses.count() != all.count() || !all.are_of_one_iteration(ranges_))
        continue;
      for (const Place& place : accesses.places())
        locals.emplace(std::pair(buffer, place), in_.fresh.local());
    }
    return locals;
  }

  Block straight(const Block& body) {
    const Locals locals = locals_of(body);
    if (locals.empty()) return body;
    for (const auto& [element, local] : locals) leave_one_element(in_.lowered, element.first);
    std::set<LocalId> declared;
    Block result;
    for (const StmtPtr& stmt : body) {
      if (!stmt->value) {
        result.push_back(stmt);
        continue;
      }
      const ValuePtr value = rebuild(stmt->value, [&](ValuePtr v) {
        if (v->kind != ValueKind::load) return v;
        const auto local = locals.find({v->buffer, v->subscripts});
        return local == locals.end() ? v : make_local(local->second, v->dtype);
      });
      const auto local = stmt->kind == StmtKind::store
                             ? locals.find({stmt->buffer, stmt->subscripts})
                             : locals.end();
      if (local == locals.end()) {
        result.push_back(with_value(*stmt, value));
      } else if (declared.insert(local->second).second) {
        result.push_back(make_declare(local->second, value));
      } else {
        result.push_back(make_assign(local->second, value));
      }
    }
    return result;
  }

  Scheduling& in_;
  ByBuffer all_;
  LoopRanges ranges_;
};

}  // namespace

void store_scratch_in_locals(Scheduling& in) {
  const bool has_scratch = std::ranges::any_of(
      in.lowered.loop.buffers, [](const BufferDecl& each) { return each.role == Role::scratch; });
  if (!has_scratch) return;
  in.lowered.loop.body = ScratchLocals(in).made(in.lowered.loop.body);
}

}  // namespace heddle::jit
