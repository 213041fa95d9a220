// Programs as text files, for `heddle explain`: declarations and statements in index notation, one
// a line.
//
//   tensor a f32[64, 128]          # dtype[extents]; a scalar: f32[]
//   static step 10                 # a static index and its range
//   index h 8                      # an index whose extent no plain subscript tells
//   c(i, j) += a(i, k) * b(k, j)   # =, +=, -=, *=, /=, &=, |=; k is missing on the left: reduced
//   top(i) = maximum(x(i, j))      # sum, product, maximum, minimum, all, any of a whole right side
//   y(2*h + 1) = relu(x(h)) * f32(h)
//   e(i, k) = table(at(token(i)), k)   # a computed position
//
// Other names of one statement are its indices. Operations are those of heddle/program.hpp, under
// the names of jit/value/ops.hpp, the operators of C, and dtypes, which convert. merge(g)(i) reads
// the merge buffer. Names begin with an ASCII letter or '_', and go on with these and digits;
// operators and calls nest up to 200 deep; integers are below 2^63.
#pragma once

#include <string>
#include <string_view>

#include "heddle/program.hpp"

namespace heddle::tools {

/// Throws Error(invalid_argument) "NAME:LINE: ..." with the found and the expected text, or with
/// Program's message for the statement.
[[nodiscard]] Program parse_program(std::string_view name, std::string_view text);

}  // namespace heddle::tools
