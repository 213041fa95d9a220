// A kernel as CUDA C++ text: C (emit/c_dialect.hpp), except for the work shared out among groups of
// threads. Iterations of a parallel loop are groups, iterations of block loops are threads of a
// group; a single thread runs all other statements. The prelude of a unit (emit/cuda.cpp) defines
// the names in capitals. Not thread-safe: one object per kernel being emitted.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jit/emit/c_dialect.hpp"
#include "jit/loop/group_body.hpp"
#include "jit/loop/group_order.hpp"
#include "jit/loop/wide_access.hpp"

namespace heddle::jit {

class CudaDialect : public CDialect {
 public:
  /// `wide` gets the definitions of the types of wide accesses, as the prelude's WIDE makes them.
  CudaDialect(const Loop& loop, CPrimitives& primitives, CVectors& vectors,
              std::set<std::string>& wide, std::string& out)
      : CDialect(loop, primitives, vectors, out), wide_(wide) {}

  /// Asks the walk for each_group() and each_thread(), in place of slice().
  static constexpr bool runs_in_groups = true;

  void begin_kernel(const KernelSource& kernel);
  /// The kernel's parameters already contain the addresses.
  static void take_address(const KernelSource&, BufferId) {}
  /// NVRTC does not reassociate sums: nothing has to be hidden.
  void declare_zero() { line("const u64 zero = 0;"); }
  void declare_stop() {}
  void check_stop();
  void end_stops() {}
  void leave_to_first_part() { line("if (blockIdx.x != 0 || threadIdx.x != 0) return;"); }
  template <class Body>
  void by_first_part(const Body& body) {
    line("if (blockIdx.x == 0 && threadIdx.x == 0) {{");
    by_one_thread(body);
  }
  void end_streams() {}

  /// `body` for each iteration of these nested loops, in any group.
  template <class Body>
  void each_group(std::span<const Stmt* const> loops, const GroupBody& group, const Body& body) {
    begin_groups(loops);
    inner([&] {
      group_ = &group;
      bind_groups(loops);
      // The previous group used the same memory.
      since_barrier_ = {};
      since_warp_barrier_ = {};
      touched_all_ = !group.shared.empty();
      beyond_first_warp_ = true;
      copies_go_on_ = false;
      body();
      if (copies_go_on_) wait_for_copies();
      group_ = nullptr;
    });
  }
  /// Runs the body once per group.
  template <class Body>
  void by_first_thread(const Body& body) {
    line("if (threadIdx.x == 0) {{");
    by_one_thread(body);
  }
  /// `body` for each iteration of nested block loops, in a separate thread.
  template <class Body>
  void each_thread(std::span<const Stmt* const> loops, const Body& body) {
    meet(loops);
    begin_threads(loops);
    const auto copied = group_->copies.find(loops.front()->var);
    copied_ = copied == group_->copies.end() ? nullptr : &copied->second;
    by_one_thread([&] {
      bind_threads(loops);
      body();
    });
    copies_go_on_ = copies_go_on_ || copied_ != nullptr;
    copied_ = nullptr;
  }
  template <class Body>
  void stop_loop(VarId var, const Made& from, const Made& to, std::int64_t period,
                 const Body& body) {
    ++thread_loops_;
    pieces(var, from, to, period, [this] { check_stop(); }, body);
    --thread_loops_;
  }
  template <class Body>
  void loop(VarId var, const Made& from, const Made& to, bool /*stays*/, const Body& body) {
    // In a later iteration, threads have worked in the previous iteration.
    const bool of_group = group_ != nullptr && group_->meets && !in_thread_;
    const bool went_on = copies_go_on_;
    if (of_group) touch_all(!group_->copies.empty());
    ++thread_loops_;
    CDialect::loop(var, from, to, false, body);
    --thread_loops_;
    if (of_group) touch_all(went_on);
  }
  /// Traced kernels have a single thread.
  void tell(std::uint32_t assignment, BufferId buffer, const Made& at, const Made& before,
            const Made& after) {
    line("tell(status, {}u, {}u, {}, {}, {});", assignment, buffer, at, before, after);
  }
  void zero_buffer(BufferId buffer);
  /// buffer[at] = op(buffer[at], value), in one step.
  void accumulate(Op op, DType type, BufferId buffer, const Made& at, const Made& value);
  void declare_array(LocalId local, const ArrayType& type, const Made& start);
  void prefetch(const PrefetchGroup& /*group*/) {}
  /// True if the block is in the memory of the current group.
  [[nodiscard]] bool is_shared(LocalId local) const {
    return group_ != nullptr && group_->shared.contains(local);
  }
  /// True if the current thread only copies elements of buffers to the shared block: by copies that
  /// go on until the threads next wait for each other.
  [[nodiscard]] bool copies(LocalId local) const {
    return copied_ != nullptr && copied_->contains(local);
  }
  /// Copies an element of the buffer, at place `from`, to place `to` of the block.
  void copy(LocalId local, const Made& to, DType type, BufferId buffer, const Made& from) {
    line("SHARED_COPY({}, x{}, {}, t{}, {});", c_type(type), local, to, buffer, from);
  }
  /// Copies `count` elements at once.
  void copy_wide(const WideAccess& to, const WideAccess& from, std::int64_t count);
  /// Declares the variable of wide access number `k`, of `count` elements, with the elements in
  /// memory if the loop loads any.
  void begin_wide(std::size_t k, const WideAccess& access, std::int64_t count);
  /// Stores the variable if the loop stores any element.
  void end_wide(std::size_t k, const WideAccess& access, std::int64_t count);
  [[nodiscard]] static Made wide_element(DType type, std::size_t k, std::int64_t at) {
    return type == DType::bool_ ? fmt::format("(w{}.at[{}] != 0)", k, at)
                                : fmt::format("w{}.at[{}]", k, at);
  }
  void assign_wide(std::size_t k, std::int64_t at, const Made& value) {
    line("w{}.at[{}] = {};", k, at, c_bare(value));
  }
  void empty_asm() {}
  [[nodiscard]] Made hidden(DType type, const Made& value) { return named("value", type, value); }

 private:
  template <class Body>
  void by_one_thread(const Body& body) {
    in_thread_ = true;
    const int outside = std::exchange(thread_loops_, 0);
    inner(body);
    thread_loops_ = outside;
    in_thread_ = false;
  }
  /// Before a block loop: waits for the threads that touched the same memory since all last waited,
  /// and for their copies. Threads of a single warp, as in the last steps of a sum, wait for their
  /// warp alone.
  void meet(std::span<const Stmt* const> loops);
  /// A barrier of the group.
  void meet_all();
  /// Threads may have touched all memory, and begun `copies`.
  void touch_all(bool copies);
  void wait_for_copies();
  void begin_groups(std::span<const Stmt* const> loops);
  void bind_groups(std::span<const Stmt* const> loops);
  void begin_threads(std::span<const Stmt* const> loops);
  void bind_threads(std::span<const Stmt* const> loops);
  void parameter(const KernelSource& kernel, std::size_t k);
  /// Declares `aligned`: whether the addresses of all buffers with wide accesses are multiples of
  /// 16 bytes. Views of buffers may begin anywhere.
  void declare_aligned();
  /// The name of the type of a wide access.
  [[nodiscard]] std::string wide_type(const WideAccess& access, std::int64_t count);

  std::set<std::string>& wide_;
  bool meets_ = false;    ///< in some nest of the kernel, threads of a group wait for each other
  int thread_loops_ = 0;  ///< number of loops inside a thread around the current statement
  const GroupBody* group_ = nullptr;  ///< current group
  bool in_thread_ = false;            ///< in a block loop of group_
  /// What threads may have touched since they last waited for each other, and since those of the
  /// first warp did.
  GroupTouch since_barrier_, since_warp_barrier_;
  bool touched_all_ = false;        ///< threads may have touched all memory since the last barrier
  bool beyond_first_warp_ = false;  ///< threads beyond the first warp may have worked since then
  bool copies_go_on_ = false;       ///< a thread may not have waited for its copies yet
  const std::set<LocalId>* copied_ = nullptr;  ///< by the current thread; null: no block
};

}  // namespace heddle::jit
