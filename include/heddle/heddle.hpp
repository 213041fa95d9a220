// Includes the heddle headers that programs use; heddle/simulation.hpp and heddle/format.hpp are
// separate. A letter with a number in a comment, such as D7, cites a clause of the contract:
// share/doc/heddle/contract.md.
#pragma once

#include "heddle/array.hpp"          // IWYU pragma: export
#include "heddle/backend.hpp"        // IWYU pragma: export
#include "heddle/code.hpp"           // IWYU pragma: export
#include "heddle/data_parallel.hpp"  // IWYU pragma: export
#include "heddle/device.hpp"         // IWYU pragma: export
#include "heddle/executor.hpp"       // IWYU pragma: export
#include "heddle/expr.hpp"           // IWYU pragma: export
#include "heddle/graph.hpp"          // IWYU pragma: export
#include "heddle/graph_ops.hpp"      // IWYU pragma: export
#include "heddle/host_array.hpp"     // IWYU pragma: export
#include "heddle/missing_order.hpp"  // IWYU pragma: export
#include "heddle/observe.hpp"        // IWYU pragma: export
#include "heddle/padding.hpp"        // IWYU pragma: export
#include "heddle/program.hpp"        // IWYU pragma: export
#include "heddle/replay.hpp"         // IWYU pragma: export
#include "heddle/routine.hpp"        // IWYU pragma: export
#include "heddle/schedule.hpp"       // IWYU pragma: export
#include "heddle/scheduler.hpp"      // IWYU pragma: export
#include "heddle/status.hpp"         // IWYU pragma: export
#include "heddle/tensor.hpp"         // IWYU pragma: export
#include "heddle/trace.hpp"          // IWYU pragma: export
#include "heddle/tree.hpp"           // IWYU pragma: export
#include "heddle/tune.hpp"           // IWYU pragma: export
#include "heddle/types.hpp"          // IWYU pragma: export
#include "heddle/variable.hpp"       // IWYU pragma: export
