// See turned_reads.hpp.
#include "jit/schedule/turned_reads.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "jit/schedule/transpose.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// Costly functions one after the other.
int chain_of(const Value& value) {
  int chain = 0;
  for (const ValuePtr& arg : value.args) chain = std::max(chain, chain_of(*arg));
  return chain + (value.kind == ValueKind::op && own_cost(value) >= costly ? 1 : 0);
}

class TurnedReads {
 public:
  TurnedReads(Scheduling& in, const Block& body) : in_(in), body_(body) {}

  [[nodiscard]] Block made() {
    for (std::size_t k = 0; k < body_.size(); ++k) note(k);
    Block result;
    for (std::size_t k = 0; k < body_.size(); ++k) {
      StmtPtr stmt = body_[k];
      for (Read& read : reads_) {
        if (!read.is_worth_it() || !std::ranges::binary_search(read.nests, k)) continue;
        if (read.nests.front() == k) result.push_back(turn(read));
        stmt = replaced(stmt, read);
      }
      result.push_back(stmt);
    }
    return result;
  }

 private:
  struct Read {
    BufferId buffer = 0;
    std::vector<Affine> subscripts;  ///< with the variables `across_` and `along_`
    DType dtype{};
    std::int64_t across = 0, along = 0;  ///< extents
    std::vector<std::size_t> nests{};
    bool feeds_chain = false;
    BufferId turned = 0;  ///< [across, along]

    [[nodiscard]] bool is_worth_it() const { return nests.size() > 1 || feeds_chain; }
  };

  void note(std::size_t at) {
    const std::optional<Transpose> found = find_transpose(in_.lowered.loop, body_[at]);
    if (!found || found->loops.size() != 2 || found->along->from != 0 || found->across->from != 0)
      return;
    int chain = 0;
    for (const StmtPtr& stmt : found->loops.back()->body)
      if (stmt->value) chain = std::max(chain, chain_of(*stmt->value));
    for (const ValuePtr& load : found->reads) {
      Read read{load->buffer, key_of(load->subscripts, *found->across, *found->along), load->dtype,
                extent(found->across), extent(found->along)};
      const std::int64_t bytes =
          read.across * read.along * static_cast<std::int64_t>(size_of(read.dtype));
      if (bytes > in_.target.l2_bytes / 4) continue;
      auto known = std::ranges::find_if(reads_, [&](const Read& other) {
        return other.buffer == read.buffer && other.subscripts == read.subscripts &&
               other.across == read.across && other.along == read.along;
      });
      if (known != reads_.end() && is_written(read.buffer, known->nests.front(), at)) continue;
      if (known == reads_.end()) known = reads_.insert(known, std::move(read));
      if (known->nests.empty() || known->nests.back() != at) known->nests.push_back(at);
      known->feeds_chain = known->feeds_chain || chain > 1;
    }
  }

  [[nodiscard]] std::vector<Affine> key_of(const std::vector<Affine>& at, const Stmt& across,
                                           const Stmt& along) const {
    Substitution by;
    by.vars[across.var] = affine_var(across_);
    by.vars[along.var] = affine_var(along_);
    std::vector<Affine> key;
    for (const Affine& each : at) key.push_back(substitute(each, by));
    return key;
  }

  /// True if statements from `first` on, up to and with `last`, write the buffer.
  [[nodiscard]] bool is_written(BufferId buffer, std::size_t first, std::size_t last) const {
    bool written = false;
    for (std::size_t k = first; k <= last; ++k) {
      walk(Block{body_[k]}, [&](const Stmt& stmt) {
        written = written || ((stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) &&
                              stmt.buffer == buffer);
      });
    }
    return written;
  }

  /// for across, along { turned[across, along] = the element }
  [[nodiscard]] StmtPtr turn(Read& read) {
    read.turned = in_.add_scratch("turned", read.dtype, {read.across, read.along});
    const VarId across = in_.fresh.var(), along = in_.fresh.var();
    Substitution by;
    by.vars[across_] = affine_var(across);
    by.vars[along_] = affine_var(along);
    const ValuePtr load = substitute(make_load(read.buffer, read.dtype, read.subscripts), by);
    const StmtPtr store = make_store(read.turned, {affine_var(across), affine_var(along)}, load);
    return make_loop(across, 0, read.across, {make_loop(along, 0, read.along, {store})});
  }

  /// The nest, reading the turned array; its loop along the written memory is innermost.
  [[nodiscard]] StmtPtr replaced(const StmtPtr& nest, const Read& read) const {
    const std::optional<Transpose> found = find_transpose(in_.lowered.loop, nest);
    if (!found) return nest;
    Block body;
    for (const StmtPtr& stmt : found->loops.back()->body) {
      const auto turned = [&](ValuePtr v) {
        const bool is = v->kind == ValueKind::load && v->buffer == read.buffer &&
                        key_of(v->subscripts, *found->across, *found->along) == read.subscripts;
        return is ? make_load(read.turned, v->dtype,
                              {affine_var(found->across->var), affine_var(found->along->var)})
                  : std::move(v);
      };
      body.push_back(stmt->value ? with_value(*stmt, rebuild(stmt->value, turned)) : stmt);
    }
    return with_body(*found->across, {with_body(*found->along, std::move(body))});
  }

  Scheduling& in_;
  const Block& body_;
  const VarId across_ = in_.fresh.var(), along_ = in_.fresh.var();
  std::vector<Read> reads_;
};

}  // namespace

Block with_turned_reads(Scheduling& in, const Block& body) { return TurnedReads(in, body).made(); }

}  // namespace heddle::jit
