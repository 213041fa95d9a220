// See schedule/scalar_part.hpp.
#include "jit/schedule/scalar_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// Kernels of fewer estimated steps take less than a few tens of microseconds.
constexpr double steps_min = 100'000;

/// Operations, loads and stores of a statement alone.
double steps_of(const Stmt& stmt) {
  double steps = stmt.kind == StmtKind::store || stmt.kind == StmtKind::assign ? 1 : 0;
  if (!stmt.value) return steps;
  steps += cost_of(*stmt.value);
  walk(*stmt.value, [&](const Value& v) { steps += v.kind == ValueKind::load ? 1 : 0; });
  return steps;
}

class ScalarEstimate {
 public:
  ScalarEstimate(const Lowered& scheduled, const Target& target)
      : loop_(scheduled.loop), lanes_(*scheduled.lanes), target_(target) {}

  std::optional<ScalarPart> longest() {
    double all = 0;
    Nest longest;
    for (const StmtPtr& top : loop_.body) {
      nest_ = {};
      statement(*top, 1, false);
      all += nest_.scalar + nest_.vector;
      if (nest_.scalar > longest.scalar) longest = nest_;
    }
    if (all < steps_min || 2 * longest.scalar < all || longest.heaviest == nullptr)
      return std::nullopt;
    ScalarPart part = cause_of(longest);
    part.share = longest.scalar / all;
    part.computes = longest.stored;
    return part;
  }

 private:
  struct Nest {
    double scalar = 0, vector = 0;
    double most = 0;                    ///< the steps of `heaviest`
    const Stmt* heaviest = nullptr;     ///< the scalar statement of most steps
    std::vector<const Stmt*> around{};  ///< the loops and positions around it, outermost first
    BufferId stored = 0;                ///< the last buffer that the nest stores to
  };

  void statement(const Stmt& stmt, double times, bool in_vectors) {
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) nest_.stored = stmt.buffer;
    if (stmt.kind == StmtKind::zero || stmt.kind == StmtKind::comment) return;
    const double steps = times * steps_of(stmt);
    if (in_vectors) {
      nest_.vector += steps / static_cast<double>(std::max<std::int64_t>(1, width_));
    } else {
      nest_.scalar += steps;
      if (steps > nest_.most) {
        nest_.most = steps;
        nest_.heaviest = &stmt;
        nest_.around = around_;
      }
    }
    if (!binds_variable(stmt)) return;
    around_.push_back(&stmt);
    const bool is_loop = stmt.kind == StmtKind::loop;
    const bool vectors =
        is_loop && stmt.mark == LoopMark::lanes && lanes_.vectors.contains(stmt.var);
    if (vectors) width_ = target_.lanes(lane_type(stmt.body).value_or(DType::f32));
    for (const StmtPtr& inner : stmt.body)
      statement(*inner, is_loop ? times * static_cast<double>(stmt.to - stmt.from) : times,
                in_vectors || vectors);
    around_.pop_back();
  }

  [[nodiscard]] ScalarPart cause_of(const Nest& nest) const {
    using enum ScalarPart::Cause;
    ScalarPart part;
    const Stmt& heaviest = *nest.heaviest;
    const Stmt* innermost = nullptr;
    std::set<VarId> inside;  // positions inside the innermost loop
    for (const Stmt* each : nest.around) {
      if (each->kind == StmtKind::loop) {
        innermost = each;
        inside.clear();
      } else {
        inside.insert(each->var);
      }
    }
    if (innermost == nullptr) return part;
    const auto moves = [&](const std::vector<Affine>& at) {
      return std::ranges::any_of(at, [&](const Affine& a) {
        return std::ranges::any_of(a.terms, [&](const AffineTerm& t) {
          return t.kind == AffineTerm::Kind::loop && inside.contains(t.id);
        });
      });
    };
    const auto accesses = [&](BufferId buffer, const std::vector<Affine>& at, bool writes) {
      const std::int64_t step = stride(loop_, buffer, at, innermost->var);
      if (part.cause != form) return;
      if (moves(at)) {
        part.cause = writes ? writes_at : reads_at;
      } else if (std::abs(step) > 1) {
        part.cause = steps;
        part.step = step;
      }
      part.other = buffer;
    };
    if (heaviest.kind == StmtKind::store) accesses(heaviest.buffer, heaviest.subscripts, true);
    if (part.cause != form) return part;
    walk(*heaviest.value, [&](const Value& v) {
      if (v.dtype == DType::bool_ || is_storage_only(v.dtype)) return;
      if (!is_lane_type(v.dtype)) {
        part.cause = no_vectors;
        part.one = v.dtype;
      } else if (part.cause == form && size_of(v.dtype) != size_of(heaviest.value->dtype) &&
                 heaviest.value->dtype != DType::bool_) {
        part.cause = sizes;
        part.one = v.dtype;
        part.two = heaviest.value->dtype;
      }
    });
    if (part.cause != form) return part;
    walk(*heaviest.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) accesses(v.buffer, v.subscripts, false);
    });
    return part;
  }

  const Loop& loop_;
  const LanePlan& lanes_;
  const Target& target_;
  Nest nest_;
  std::vector<const Stmt*> around_;
  std::int64_t width_ = 1;
};

}  // namespace

std::optional<ScalarPart> longest_scalar_part(const Lowered& scheduled, const Target& target) {
  if (!scheduled.lanes || target.is_gpu() || target.isa == Isa::none) return std::nullopt;
  return ScalarEstimate(scheduled, target).longest();
}

std::string text_of(const ScalarPart& part,
                    const std::function<std::string_view(BufferId)>& label) {
  const auto cause = [&]() -> std::string {
    using enum ScalarPart::Cause;
    switch (part.cause) {
      case writes_at:
        return fmt::format("it writes '{}' at computed positions, one after the other",
                           label(part.other));
      case reads_at:
        return fmt::format("it reads '{}' at computed positions", label(part.other));
      case steps:
        return fmt::format(
            "it accesses '{}' in steps of {} elements; transpose the array, so that the loop over "
            "most elements is its last axis",
            label(part.other), part.step);
      case sizes:
        return fmt::format(
            "it computes with {} and {}, whose elements differ in size; cast one of them before",
            name(part.one), name(part.two));
      case no_vectors:
        return fmt::format("it computes with {}, which has no vector code; cast it to i32 or f32",
                           name(part.one));
      case form:
        break;
    }
    return "its loops have no form that becomes vectors; keep() an operand, or split the statement";
  };
  return fmt::format("'{}' takes {:.0f} % of the estimated time, as scalar code: {}",
                     label(part.computes), 100 * part.share, cause());
}

}  // namespace heddle::jit
