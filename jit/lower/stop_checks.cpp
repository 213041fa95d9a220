// See lower/stop_checks.hpp.
#include "jit/lower/stop_checks.hpp"

#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

// In operations on scalars, of which a processor does one to a few tens in a nanosecond.
/// Kernels that do fewer end before anybody could want them to.
constexpr double long_kernel = 1e8;
/// An iteration of that many is 600 instructions or more, also where compilers make vectors of 32
/// bytes of it; a check is three.
constexpr double iteration_min = 20'000;
/// Iterations of more may take long themselves.
constexpr double iteration_max = 1e8;
/// Compilers may add an instruction to each iteration where a loop is cut. An iteration on lanes
/// counts as if vectors had the most of them, and is several times as many instructions.
constexpr double part_iteration_min = 20;
/// Loops that do more take a second or longer, and are cut however short their iterations are.
constexpr double long_loop = 4e9;
/// Loops with iterations between these do so much between two looks: a millisecond or less.
constexpr double between_looks = 1e6;
/// What is at a position that was loaded lies anywhere in memory.
constexpr double position_cost = 20;
/// Most lanes of a vector of numbers that schedules make.
constexpr double lanes_at_once = 16;
/// The cost of one value is counted up to this; what is above makes no difference.
constexpr int value_cost_max = 4096;

double count(const Stmt& loop) {
  return static_cast<double>(loop.to) - static_cast<double>(loop.from);
}

class StopFinder {
 public:
  StopChecks found;

  double work(const Block& body) {
    double sum = 0;
    for (const StmtPtr& stmt : body) {
      if (stmt->value) sum += 1 + cost_of(*stmt->value, value_cost_max);
      if (!binds_variable(*stmt) || stmt->from >= stmt->to) continue;
      if (stmt->kind == StmtKind::at) {
        sum += position_cost + work(stmt->body);
        continue;
      }
      const double of_body = iterations_[stmt->var] = work(stmt->body);
      sum += of_body * count(*stmt) / (stmt->mark == LoopMark::lanes ? lanes_at_once : 1);
    }
    return sum;
  }

  void mark(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::at && stmt->from < stmt->to) mark(stmt->body);
      const bool runs = stmt->kind == StmtKind::loop && stmt->from < stmt->to;
      if (!runs || stmt->mark == LoopMark::lanes || stmt->mark == LoopMark::unroll) continue;
      const double iteration = iterations_.at(stmt->var);
      if (iteration >= iteration_min) {
        found.every[stmt->var] = 1;
      } else if ((iteration >= part_iteration_min && iteration * count(*stmt) >= long_kernel) ||
                 iteration * count(*stmt) >= long_loop) {
        const auto enough = static_cast<std::uint64_t>(between_looks / iteration);
        found.every[stmt->var] = static_cast<std::int64_t>(std::bit_ceil(enough));
      }
      if (iteration > iteration_max) mark(stmt->body);
    }
  }

 private:
  std::map<VarId, double> iterations_;  // work of one
};

}  // namespace

StopChecks stop_checks(const Loop& loop) {
  StopFinder finder;
  if (finder.work(loop.body) < long_kernel) return {};
  finder.found.any = true;
  finder.mark(loop.body);
  return std::move(finder.found);
}

}  // namespace heddle::jit
