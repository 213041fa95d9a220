// See sums_of_rows.hpp.
#include "jit/schedule/sums_of_rows.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace heddle::jit {
namespace {

/// Longer rows hold vectors; more terms make long code.
constexpr std::int64_t row_elements_max = 15, terms_max = 24;

bool has_variable(const Value& value, VarId var) {
  bool found = false;
  walk(value, [&](const Value& v) {
    found = found || moves_with(v.index, var) || moves_with(v.subscripts, var);
  });
  return found;
}

/// for element of row { let sum = ...; for term { positions { sum = ... } } ... }
class SumOfRows {
 public:
  explicit SumOfRows(const StmtPtr& row) : row_(*row) {}

  [[nodiscard]] bool find() {
    const Block& body = row_.body;
    const std::int64_t extent = row_.to - row_.from;
    if (extent < 2 || extent > row_elements_max || body.size() < 3 ||
        body[0]->kind != StmtKind::declare || !is_serial_loop(body[1]))
      return false;
    const Stmt& terms = *body[1];
    const Block rest(body.begin() + 2, body.end());
    if (terms.from != 0 || terms.to < 1 || terms.to > terms_max || terms.body.size() != 1 ||
        terms.body[0]->kind != StmtKind::at || !is_straight(rest))
      return false;
    for (const Stmt* at = terms.body[0].get();; at = at->body[0].get()) {
      bool fits = at->nearest && !has_variable(*at->value, row_.var);
      walk(*at->value, [&](const Value& v) {
        fits = fits && v.kind != ValueKind::local &&
               !(v.kind == ValueKind::load && stores(rest, v.buffer));
      });
      if (!fits) return false;
      term_ = &at->body;
      if (at->body.size() != 1 || at->body[0]->kind != StmtKind::at) break;
    }
    return is_straight(*term_) && std::ranges::all_of(*term_, [](const StmtPtr& stmt) {
             return stmt->kind != StmtKind::store;
           });
  }

  /// positions of all terms { for element of row { let sum = ...; sum = ... for each term; ... } }
  [[nodiscard]] StmtPtr made(Fresh& fresh) const {
    const Stmt& terms = *row_.body[1];
    Block body{row_.body[0]}, around;
    for (std::int64_t k = 0; k < terms.to; ++k) {
      Substitution by;
      by.vars[terms.var] = {k, {}};
      for (const Stmt* at = terms.body[0].get();; at = at->body[0].get()) {
        by.loops[at->var] = fresh.var();
        around.push_back(substitute(with_body(*at, {}), by));
        if (&at->body == term_) break;
      }
      for (const StmtPtr& stmt : *term_) {
        if (stmt->kind == StmtKind::declare) by.locals[stmt->local] = fresh.local();
        body.push_back(substitute(stmt, by));
      }
    }
    body.insert(body.end(), row_.body.begin() + 2, row_.body.end());
    StmtPtr made = with_body(row_, std::move(body));
    for (auto at = around.rbegin(); at != around.rend(); ++at)
      made = with_body(**at, {std::move(made)});
    return made;
  }

 private:
  static bool stores(const Block& body, BufferId buffer) {
    return std::ranges::any_of(body, [&](const StmtPtr& stmt) {
      return stmt->kind == StmtKind::store && stmt->buffer == buffer;
    });
  }

  const Stmt& row_;
  const Block* term_ = nullptr;
};

}  // namespace

Block with_sums_of_rows(Fresh& fresh, const Block& body) {
  Block made;
  for (const StmtPtr& stmt : body) {
    if (!is_serial_loop(stmt)) {
      made.push_back(stmt);
      continue;
    }
    SumOfRows sum(stmt);
    made.push_back(sum.find() ? sum.made(fresh)
                              : with_body(*stmt, with_sums_of_rows(fresh, stmt->body)));
  }
  return made;
}

}  // namespace heddle::jit
