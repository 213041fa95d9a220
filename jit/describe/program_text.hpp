// Programs as readable text: index notation, one statement per line. The text is not parsed. The
// time is linear in the distinct nodes of an expression, and the text is bounded. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "heddle/program.hpp"

namespace heddle::jit {

inline constexpr std::size_t program_text_max = 64 << 10;
/// The largest size in bytes of one expression or statement in a message.
inline constexpr std::size_t message_text_max = 120;

/// At most about `bytes_max` long; a longer text is cut and ends with a remark.
[[nodiscard]] std::string print_program(const Program& program,
                                        std::size_t bytes_max = program_text_max);
/// For messages: a longer text ends in "...".
[[nodiscard]] std::string print_statement(const StatementNode& node);
[[nodiscard]] std::string print_expr(const ExprNode& node);
[[nodiscard]] std::string print_subscript(const Subscript& subscript);

/// A name made from the comments of a nameless program: punctuation becomes '_', and several
/// comments are joined by "_then_", with common starts and ends written once. Empty without
/// comments.
[[nodiscard]] std::string name_from_comments(const Program& program);

}  // namespace heddle::jit
