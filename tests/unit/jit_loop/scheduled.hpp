// What tests of schedules ask of them. One thread.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {

inline std::string comments(const Loop& loop) {
  std::string text;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::comment) text += stmt.text;
  });
  return text;
}

/// The kernel in a text that lacks the first line of the format.
inline Lowered lowered_from(const std::string& text) {
  Lowered lowered;
  lowered.loop = parsed(text);
  for (const BufferDecl& each : lowered.loop.buffers)
    lowered.tensors.emplace_back("buffer", each.type.dtype, each.type.dims);
  return lowered;
}

/// The same numbers, scheduled or not.
inline void expect_unchanged(const Lowered& plain) {
  const Lowered scheduled = schedule(plain, with_isa(native_target(), Isa::avx512));
  ASSERT_TRUE(verify(scheduled.loop).ok());
  std::vector<HostArray> expected, found;
  for (std::size_t k = 0; k < scheduled.loop.buffers.size(); ++k) {
    found.push_back(small_numbers(scheduled.loop.buffers[k].type, k));
    if (k < plain.loop.buffers.size())
      expected.push_back(small_numbers(plain.loop.buffers[k].type, k));
  }
  interpret(plain.loop, expected);
  interpret(scheduled.loop, found);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (plain.loop.buffers[k].role == Role::scratch) continue;
    ASSERT_TRUE(same_elements(expected[k], found[k])) << print(scheduled.loop);
  }
}
inline void expect_unchanged(const Program& program) { expect_unchanged(optimize(lower(program))); }

}  // namespace heddle::jit::testing
