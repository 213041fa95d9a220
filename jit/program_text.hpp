// Programs as a reader wrote them: index notation, one statement a line. For people; not parsed.
// Pure.
#pragma once

#include <string>

#include "heddle/program.hpp"

namespace heddle::jit {

[[nodiscard]] std::string print_program(const Program& program);

/// A name made from the comments of a nameless program (3E): punctuation becomes '_', several are
/// joined by
/// "_then_" without what they share at the start and the end; empty when there are no comments.
[[nodiscard]] std::string name_from_comments(const Program& program);

}  // namespace heddle::jit
