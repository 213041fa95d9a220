// Short last axes of arrays that are computed element by element: with the axis before, they are
// one axis for vectors. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Joins the two innermost loops of nests of costly elementwise code whose innermost loop is
/// shorter than a vector, and the axes of the buffers that they go over; elements keep their places
/// in memory. Buffers that other nests access stay, except where these nests have computed
/// positions; reads of inputs that stay become flat.
void join_short_axes(Scheduling& in);

}  // namespace heddle::jit
