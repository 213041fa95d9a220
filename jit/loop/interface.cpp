// See loop/interface.hpp.
#include "jit/loop/interface.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "jit/loop/interval.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t lowest_int = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest_int = std::numeric_limits<std::int64_t>::max();

class Reader {
 public:
  explicit Reader(const Loop& loop) : loop_(loop), covered_(loop.buffers.size(), false) {
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
      for (const BufferId id : covering_) covered_[id] = true;
    }
    for (BufferId id = 0; id < loop_.buffers.size(); ++id) close(id);
    return std::move(interface_);
  }

 private:
  /// An element, by what stands between its brackets.
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
      case StmtKind::loop: {
        vars_[stmt.var] = {stmt.from, stmt.to};
        const bool was_empty = empty_;
        const std::size_t stores = stores_.size();
        empty_ = empty_ || stmt.from >= stmt.to;
        for (const StmtPtr& inner : stmt.body) statement(*inner);
        for (; stores_.size() > stores; stores_.pop_back())
          stored_.erase(stores_.back());  // to an element of an iteration that is over
        empty_ = was_empty;
        vars_.erase(stmt.var);
        return;
      }
      case StmtKind::zero:
        interface_.buffers[stmt.buffer].writes = true;
        if (!empty_) covering_.push_back(stmt.buffer);
        return;
      case StmtKind::store:
        value(*stmt.value);
        bound(stmt.buffer, stmt.subscripts);
        interface_.buffers[stmt.buffer].writes = true;
        if (covers(stmt)) covering_.push_back(stmt.buffer);
        if (const Element element{stmt.buffer, &stmt.subscripts}; stored_.insert(element).second)
          stores_.push_back(element);
        return;
      case StmtKind::declare:
      case StmtKind::assign:
        value(*stmt.value);
        return;
    }
  }

  void value(const Value& v) {
    count_step();
    if (v.kind == ValueKind::load) {
      bound(v.buffer, v.subscripts);
      BufferAccess& access = interface_.buffers[v.buffer];
      access.reads = true;
      const bool fresh = covered_[v.buffer] || stored_.contains({v.buffer, &v.subscripts});
      if (!fresh && !empty_) access.reads_before_writing = true;
    }
    for (const ValuePtr& arg : v.args) value(*arg);
  }

  /// The nest around this store writes every element: each axis runs over a loop variable of its
  /// own, or has one element.
  bool covers(const Stmt& store) const {
    const Dims& dims = loop_.buffers[store.buffer].type.dims;
    std::vector<VarId> used;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const Affine& a = store.subscripts[axis];
      if (dims[axis] == 1 && a.terms.empty()) continue;
      if (a.constant != 0 || a.terms.size() != 1) return false;
      const AffineTerm& term = a.terms[0];
      if (term.kind != AffineTerm::Kind::loop || term.coefficient != 1) return false;
      if (std::ranges::find(used, term.id) != used.end()) return false;
      const auto [from, to] = vars_.at(term.id);
      if (from != 0 || to != dims[axis]) return false;
      used.push_back(term.id);
    }
    return std::ranges::all_of(vars_, [&](const auto& var) {
      const bool runs = var.second.first < var.second.second;
      return runs || std::ranges::find(used, var.first) != used.end();
    });
  }

  /// Tightens the bounds of static indices so that this access stays inside its buffer.
  void bound(BufferId id, const std::vector<Affine>& subscripts) {
    if (empty_) return;
    const Dims& dims = loop_.buffers[id].type.dims;
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

  /// Lowest and highest value of a loop variable, or of another static index in the same subscript:
  /// lowering saw to its range. (One without values counts as 0: its own bounds admit nothing.)
  std::pair<std::int64_t, std::int64_t> ends(const AffineTerm& term) const {
    if (term.kind == AffineTerm::Kind::loop) {
      const auto [from, to] = vars_.at(term.id);
      return {from, to - 1};
    }
    return {0, std::max<std::int64_t>(loop_.statics[term.id].range.value_or(1) - 1, 0)};
  }

  const Loop& loop_;
  Interface interface_;
  std::vector<bool> covered_;       // written whole by the statements before this one
  std::vector<BufferId> covering_;  // written whole by this one
  std::vector<Element> stores_;     // earlier in the same iteration, each once
  std::set<Element> stored_;        // the same
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> vars_;
  bool empty_ = false;
};

}  // namespace

Interface read_interface(const Loop& loop) { return Reader(loop).read(); }

}  // namespace heddle::jit
