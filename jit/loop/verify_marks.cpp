// The rules of loop marks. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

/// A read or write of a buffer or a local block inside a lanes loop.
struct MarkedAccess {
  bool local = false;
  std::uint32_t id = 0;
  const std::vector<Affine>* subscripts = nullptr;
  bool writes = false;
};

/// True if different iterations of the lanes loop touch different elements: on some axis both
/// accesses move equally with the lane, and their starts are equal, or too far apart to meet.
bool apart(const MarkedAccess& a, const MarkedAccess& b, const Stmt& lanes) {
  if (a.subscripts->size() != b.subscripts->size()) return false;  // one access is flat
  for (std::size_t axis = 0; axis < a.subscripts->size(); ++axis) {
    const Affine& x = (*a.subscripts)[axis];
    const Affine& y = (*b.subscripts)[axis];
    const std::int64_t step = affine_coefficient(x, lanes.var);
    if (step == 0 || x.terms != y.terms) continue;
    const Int128 distance = static_cast<Int128>(x.constant) - y.constant;
    const Int128 reach = static_cast<Int128>(step) * (lanes.to - lanes.from);
    if (distance == 0 || (distance < 0 ? -distance : distance) >= (reach < 0 ? -reach : reach))
      return true;
  }
  return false;
}

class Marks {
 public:
  std::string rule;

  void block(const Block& body, std::int64_t copies) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::at) block(stmt->body, copies);
      if (stmt->kind != StmtKind::loop || !rule.empty()) continue;
      std::int64_t inner = copies;
      if (stmt->mark == LoopMark::unroll || stmt->mark == LoopMark::lanes) {
        // A legal loop's extents: the difference does not overflow once both ends are small.
        const Int128 all = (static_cast<Int128>(stmt->to) - stmt->from) * copies;
        if (all > copies_max) {
          rule =
              fmt::format("loop i{} makes more than {} copies of its body", stmt->var, copies_max);
          return;
        }
        inner = std::max<std::int64_t>(static_cast<std::int64_t>(all), 1);
      }
      if (stmt->mark == LoopMark::lanes) {
        lanes(*stmt);
      } else {
        block(stmt->body, inner);
      }
    }
  }

 private:
  void lanes(const Stmt& loop) {
    std::vector<MarkedAccess> accesses;
    std::set<LocalId> own;
    const auto broken = [&](std::string_view what) {
      rule = fmt::format("lanes loop i{} {}", loop.var, what);
    };
    for (const StmtPtr& stmt : loop.body) {
      if (stmt->value) {
        walk(*stmt->value, [&](const Value& v) {
          if (v.kind == ValueKind::load) accesses.push_back({false, v.buffer, &v.subscripts});
          if (v.kind == ValueKind::local && !v.subscripts.empty())
            accesses.push_back({true, v.local, &v.subscripts});
        });
      }
      switch (stmt->kind) {
        case StmtKind::comment:
        case StmtKind::prefetch:
          break;
        case StmtKind::loop:
          return broken("holds another loop");
        case StmtKind::at:
          return broken("holds a computed position");
        case StmtKind::zero:
          return broken("zeroes a buffer");
        case StmtKind::store:
          if (stmt->atomic) return broken("stores atomically");
          accesses.push_back({false, stmt->buffer, &stmt->subscripts, true});
          break;
        case StmtKind::declare:
          if (!stmt->dims.empty()) return broken("declares a block");
          own.insert(stmt->local);
          break;
        case StmtKind::assign:
          if (!stmt->subscripts.empty()) {
            accesses.push_back({true, stmt->local, &stmt->subscripts, true});
          } else if (!own.contains(stmt->local)) {
            return broken(fmt::format("assigns x{}, which all its iterations share", stmt->local));
          }
          break;
      }
    }
    for (const MarkedAccess& write : accesses) {
      if (!write.writes) continue;
      for (const MarkedAccess& other : accesses) {
        if (other.local != write.local || other.id != write.id || apart(write, other, loop))
          continue;
        return broken(fmt::format("writes elements of {}{} that other iterations touch",
                                  write.local ? 'x' : 't', write.id));
      }
    }
  }
};

}  // namespace

std::string broken_mark(const Block& body) {
  Marks marks;
  marks.block(body, 1);
  return std::move(marks.rule);
}

}  // namespace heddle::jit
