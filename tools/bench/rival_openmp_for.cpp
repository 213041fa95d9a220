// OpenMP's parallel for, in teams of two that include the host. Rows of equal cost are split in
// two; rows of unequal cost use the guided schedule.
#include <omp.h>

#include "tools/bench/processors.hpp"
#include "tools/bench/rivals.hpp"
#include "tools/bench/row_loop.hpp"

namespace heddle::bench {
namespace {

constexpr const char* name = "OpenMP parallel for";

void share_evenly(RowLoop& loop) {
  const std::size_t rows = loop.rows();
#pragma omp parallel for num_threads(2) schedule(static)
  for (std::size_t row = 0; row < rows; ++row) loop.run(row);
}

void share_guided(RowLoop& loop) {
  const std::size_t rows = loop.rows();
#pragma omp parallel for num_threads(2) schedule(guided)
  for (std::size_t row = 0; row < rows; ++row) loop.run(row);
}

/// A slice starts the second thread, and ends it afterwards, because it would spin.
Contender loops(RowCost cost, void (*share)(RowLoop& loop)) {
  return {name, Kind::rival, [cost, share](nanoseconds length, Samples& samples) {
            {
              const Unpinned while_starting;
#pragma omp parallel num_threads(2)
              if (omp_get_thread_num() != 0) pin_this_thread(worker_processor);
            }
            const double ns = timed_loops(name, cost, length, samples, share);
            omp_pause_resource_all(omp_pause_soft);
            return ns;
          }};
}

}  // namespace

Rival openmp_for_rival() {
  Rival rival;
  rival.empty_loop = loops(RowCost::none, share_evenly);
  rival.meeting_loop = loops(RowCost::meeting, share_evenly);
  rival.even_loop = loops(RowCost::even, share_evenly);
  rival.uneven_loop = loops(RowCost::uneven, share_guided);
  return rival;
}

}  // namespace heddle::bench
