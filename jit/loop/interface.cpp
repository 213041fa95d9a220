// See loop/interface.hpp.
#include "jit/loop/interface.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "jit/loop/address.hpp"
#include "jit/loop/boxes.hpp"
#include "jit/loop/interval.hpp"
#include "jit/loop/slices.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t lowest_int = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest_int = std::numeric_limits<std::int64_t>::max();

class Reader {
 public:
  explicit Reader(const Loop& loop)
      : loop_(loop), covers_(loop.buffers.size()), covered_(loop.buffers.size(), false) {
    interface_.buffers.resize(loop.buffers.size());
    for (const StaticDecl& decl : loop.statics) {
      StaticBounds bounds{lowest_int, highest_int};
      if (decl.range) bounds = {0, *decl.range - 1};
      interface_.statics.push_back(bounds);
    }
  }

  Interface read() {
    for (const StmtPtr& stmt : loop_.body) {
      covering_.clear();
      statement(*stmt);
      for (auto& [id, box] : covering_) {
        if (covered_[id]) continue;
        covers_[id].add(std::move(box));
        covered_[id] = covers_[id].is_whole(loop_.buffers[id].type.dims);
      }
    }
    for (BufferId id = 0; id < loop_.buffers.size(); ++id) close(id);
    return std::move(interface_);
  }

 private:
  /// An element, identified by the text of its subscripts.
  struct Element {
    BufferId buffer;
    const std::vector<Affine>* subscripts;
    friend bool operator<(const Element& a, const Element& b) {
      return a.buffer != b.buffer ? a.buffer < b.buffer : *a.subscripts < *b.subscripts;
    }
  };

  void close(BufferId id) {
    BufferAccess& access = interface_.buffers[id];
    const BufferDecl& decl = loop_.buffers[id];
    access.overwrites_whole =
        (covered_[id] && !access.reads_before_writing) || decl.type.num_elements() == 0;
    const bool given = decl.role == Role::merge || decl.role == Role::scratch;
    access.role = given                         ? decl.role
                  : !access.writes              ? Role::input
                  : access.reads_before_writing ? Role::inout
                                                : Role::output;
  }

  void statement(const Stmt& stmt) {
    count_step();
    switch (stmt.kind) {
      case StmtKind::comment:
      case StmtKind::prefetch:
        return;
      case StmtKind::loop:
        bind(stmt);
        return;
      case StmtKind::at:
        value(*stmt.value);
        positions_.insert(stmt.var);
        conditions_ += stmt.nearest ? 0 : 1;
        bind(stmt);
        conditions_ -= stmt.nearest ? 0 : 1;
        positions_.erase(stmt.var);
        return;
      case StmtKind::zero:
        interface_.buffers[stmt.buffer].writes = true;
        if (!empty_) covering_.emplace_back(stmt.buffer, whole(stmt.buffer));
        return;
      case StmtKind::store:
        storing_ = &stmt;
        value(*stmt.value);
        storing_ = nullptr;
        bound(stmt.buffer, stmt.subscripts);
        interface_.buffers[stmt.buffer].writes = true;
        if (std::optional<Box> box = covered_by(stmt); box && !covered_[stmt.buffer])
          covering_.emplace_back(stmt.buffer, *std::move(box));
        if (const Element element{stmt.buffer, &stmt.subscripts}; stored_.insert(element).second)
          stores_.push_back(element);
        return;
      case StmtKind::declare:
      case StmtKind::assign:
        value(*stmt.value);
        return;
    }
  }

  /// Visits the body, with the variable in scope.
  void bind(const Stmt& stmt) {
    vars_[stmt.var] = {stmt.from, stmt.to};
    const bool was_empty = empty_;
    const std::size_t stores = stores_.size();
    empty_ = empty_ || stmt.from >= stmt.to;
    for (const StmtPtr& inner : stmt.body) statement(*inner);
    for (; stores_.size() > stores; stores_.pop_back())
      stored_.erase(stores_.back());  // an element of an earlier iteration
    empty_ = was_empty;
    vars_.erase(stmt.var);
  }

  void value(const Value& v) {
    count_step();
    if (v.kind == ValueKind::load) {
      bound(v.buffer, v.subscripts);
      BufferAccess& access = interface_.buffers[v.buffer];
      access.reads = true;
      const bool fresh = covered_[v.buffer] || stored_.contains({v.buffer, &v.subscripts});
      if (!fresh && !empty_ && !is_covered(v) && !continues(v)) access.reads_before_writing = true;
    }
    for (const ValuePtr& arg : v.args) value(*arg);
  }

  [[nodiscard]] Box whole(BufferId id) const {
    Box box;
    for (const std::int64_t extent : loop_.buffers[id].type.dims)
      box.push_back({0, static_cast<Int128>(extent) - 1});
    return box;
  }

  /// The box that the nest around this store writes, if it is a box: each axis covers an interval
  /// by loop variables that no other axis uses.
  [[nodiscard]] std::optional<Box> covered_by(const Stmt& store) const {
    if (conditions_ > 0 || empty_) return std::nullopt;
    Box box;
    std::vector<VarId> used;
    for (const Affine& a : store.subscripts) {
      Interval& axis = box.emplace_back(Interval{a.constant, a.constant});
      std::vector<std::pair<Int128, std::int64_t>> steps;
      for (const AffineTerm& term : a.terms) {
        const bool of_loop = term.kind == AffineTerm::Kind::loop && !positions_.contains(term.id);
        if (!of_loop || std::ranges::find(used, term.id) != used.end()) return std::nullopt;
        const auto [from, to] = vars_.at(term.id);
        axis.add(term.coefficient, from, to - 1);
        const Int128 step = term.coefficient;
        steps.emplace_back(step < 0 ? -step : step, to - from);
        used.push_back(term.id);
      }
      if (!is_dense(std::move(steps))) return std::nullopt;
    }
    return box;
  }

  /// True if earlier statements wrote everything that the load may read.
  [[nodiscard]] bool is_covered(const Value& load) const {
    const Dims& dims = loop_.buffers[load.buffer].type.dims;
    if (covers_[load.buffer].is_empty()) return false;
    if (is_flat(dims, load.subscripts)) return covers_[load.buffer].is_whole(dims);
    Box box;
    for (const Affine& a : load.subscripts) {
      using Ends = std::optional<std::pair<std::int64_t, std::int64_t>>;
      const auto axis = reach(a, [this](const AffineTerm& term) {
        return term.kind == AffineTerm::Kind::loop ? Ends(ends(term)) : Ends();
      });
      if (!axis) return false;
      box.push_back(*axis);
    }
    return covers_[load.buffer].contains(box);
  }

  /// True if earlier iterations of a recurrence wrote the element, by the store whose value reads
  /// it, or earlier statements did: the load's subscripts are the store's some iterations of a loop
  /// before, and earlier statements wrote what the first iterations read.
  [[nodiscard]] bool continues(const Value& load) const {
    if (storing_ == nullptr || load.buffer != storing_->buffer || conditions_ > 0) return false;
    const std::vector<Affine>&to = storing_->subscripts, &from = load.subscripts;
    if (to.size() != from.size()) return false;
    std::optional<std::size_t> axis;
    for (std::size_t k = 0; k < to.size(); ++k) {
      if (to[k] == from[k]) continue;
      if (axis) return false;
      axis = k;
    }
    if (!axis || to[*axis].terms != from[*axis].terms || to[*axis].terms.size() != 1) return false;
    const AffineTerm& term = to[*axis].terms[0];
    const Int128 step = term.coefficient;
    const bool is_loop = term.kind == AffineTerm::Kind::loop && !positions_.contains(term.id);
    // The number of iterations since.
    const Int128 since = (static_cast<Int128>(to[*axis].constant) - from[*axis].constant) * step;
    if (!is_loop || (step != 1 && step != -1) || since <= 0) return false;
    Box box;
    for (std::size_t k = 0; k < to.size(); ++k) {
      using Ends = std::optional<std::pair<std::int64_t, std::int64_t>>;
      const auto range = reach(from[k], [&](const AffineTerm& each) {
        if (each.kind != AffineTerm::Kind::loop || positions_.contains(each.id)) return Ends();
        auto [first, last] = ends(each);
        if (each.id == term.id) last = std::min(last, narrow(first + since - 1));
        return k != *axis && each.id == term.id ? Ends() : Ends({first, last});
      });
      if (!range) return false;
      box.push_back(*range);
    }
    return covers_[load.buffer].contains(box);
  }

  /// Tightens the bounds of static indices so that the access stays inside the buffer.
  void bound(BufferId id, const std::vector<Affine>& subscripts) {
    if (empty_) return;
    const Dims& dims = loop_.buffers[id].type.dims;
    if (is_flat(dims, subscripts)) return;  // bounded by loops alone
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      for (const AffineTerm& term : subscripts[axis].terms) {
        if (term.kind == AffineTerm::Kind::static_index)
          tighten(term, subscripts[axis], dims[axis]);
      }
    }
  }

  /// 0 <= coefficient * s + rest < extent for every value of the rest.
  void tighten(const AffineTerm& target, const Affine& a, std::int64_t extent) {
    Affine rest = a;
    std::erase(rest.terms, target);
    const Interval others =
        *reach(rest, [this](const AffineTerm& term) { return std::optional(ends(term)); });
    // coefficient * s lies in [-others.lowest, extent - 1 - others.highest].
    Int128 from = -others.lowest;
    Int128 to = extent - 1 - others.highest;
    Int128 magnitude = target.coefficient;
    if (magnitude < 0) {
      magnitude = -magnitude;
      from = -std::exchange(to, -from);
    }
    StaticBounds& bounds = interface_.statics[target.id];
    bounds.lowest = std::max(bounds.lowest, narrow(divide_up(from, magnitude)));
    bounds.highest = std::min(bounds.highest, narrow(divide_down(to, magnitude)));
  }

  static Int128 divide_down(Int128 a, Int128 b) { return a / b - ((a % b != 0 && a < 0) ? 1 : 0); }
  static Int128 divide_up(Int128 a, Int128 b) { return -divide_down(-a, b); }

  /// Lowest and highest value of a loop variable, or of another static index in the same subscript;
  /// lowering checked the range of static indices. (A static index without values counts as 0: its
  /// own bounds admit nothing.)
  std::pair<std::int64_t, std::int64_t> ends(const AffineTerm& term) const {
    if (term.kind == AffineTerm::Kind::loop) {
      const auto [from, to] = vars_.at(term.id);
      return {from, to - 1};
    }
    return {0, std::max<std::int64_t>(loop_.statics[term.id].range.value_or(1) - 1, 0)};
  }

  const Loop& loop_;
  Interface interface_;
  // By buffer: the part that earlier statements wrote, and whether that part is the whole.
  std::vector<Cover> covers_;
  std::vector<bool> covered_;
  std::vector<std::pair<BufferId, Box>> covering_;  // written by the current statement
  std::vector<Element> stores_;  // earlier in the same iteration, without duplicates
  std::set<Element> stored_;     // equal to stores_
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> vars_;
  std::set<VarId> positions_;      // variables with a single value
  const Stmt* storing_ = nullptr;  // the store whose value is visited
  int conditions_ = 0;             // number of surrounding positions that may be out of range
  bool empty_ = false;
};

}  // namespace

Interface read_interface(const Loop& loop) {
  Interface interface = Reader(loop).read();
  const Slices slices(loop);
  if (slices.none()) return interface;
  const Interface within = Reader(slices.seen_from_them()).read();
  for (BufferId id = 0; id < loop.buffers.size(); ++id) {
    std::optional<Slice> slice = slices.of(id);
    if (!slice) continue;
    slice->overwritten = slices.in_one_piece(id) && within.buffers[id].overwrites_whole;
    interface.buffers[id].slice = std::move(slice);
  }
  return interface;
}

}  // namespace heddle::jit
