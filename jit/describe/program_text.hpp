// Programs as a reader wrote them: index notation, one statement a line. For people; not parsed.
// The work is linear in the distinct nodes of an expression, and texts are bounded. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "heddle/program.hpp"

namespace heddle::jit {

inline constexpr std::size_t program_text_max = 64 << 10;
/// The most bytes of one expression or statement in a message.
inline constexpr std::size_t message_text_max = 120;

/// At most about `bytes_max` long: what is longer is cut, and says so.
[[nodiscard]] std::string print_program(const Program& program,
                                        std::size_t bytes_max = program_text_max);
/// For messages: what is longer ends in "...".
[[nodiscard]] std::string print_statement(const StatementNode& node);
[[nodiscard]] std::string print_expr(const ExprNode& node);
[[nodiscard]] std::string print_subscript(const Subscript& subscript);

/// A name made from the comments of a nameless program: punctuation becomes '_', several are joined
/// by "_then_" without what they share at the start and the end; empty when there are no comments.
[[nodiscard]] std::string name_from_comments(const Program& program);

}  // namespace heddle::jit
