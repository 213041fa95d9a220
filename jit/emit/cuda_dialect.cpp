// See emit/cuda_dialect.hpp.
#include "jit/emit/cuda_dialect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "heddle/kernel.h"
#include "jit/loop/rewrite.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

std::uint64_t count_of(const Stmt& loop) {
  return static_cast<std::uint64_t>(loop.to) - static_cast<std::uint64_t>(loop.from);
}

/// The product of the loops' iterations; saturates at 64 bits.
std::uint64_t product(std::span<const Stmt* const> loops) {
  Int128 all = 1;
  for (const Stmt* const loop : loops)
    all = std::min<Int128>(all * count_of(*loop), std::numeric_limits<std::uint64_t>::max());
  return static_cast<std::uint64_t>(all);
}

}  // namespace

void CudaDialect::begin_kernel(const KernelSource& kernel) {
  meets_ =
      std::ranges::any_of(loop_.body, [](const StmtPtr& nest) { return group_needs(nest).meets; });
  out_ += fmt::format("\nKERNEL {}(\n", kernel_symbol(kernel.name));
  for (std::size_t k = 0; k < loop_.buffers.size(); ++k) parameter(kernel, k);
  for (std::size_t k = 0; k < loop_.statics.size(); ++k)
    line("  const i64 s{},{}", k, name_comment(kernel.names.statics, k));
  line("  GLOBAL heddle_kernel_status* const status,");
  line("  GLOBAL const volatile u32* const stop) {{");
  for (std::size_t k = 0; k < loop_.buffers.size(); ++k) {
    if (const auto address = embedded_address(kernel, k)) {
      const std::string_view type = storage_type(loop_.buffers[k].type.dtype);
      line("{0}* const t{1} = ({0}*){2:#x}ull;", type, k, *address);
    }
  }
  declare_aligned();
}

void CudaDialect::declare_aligned() {
  std::set<BufferId> buffers;
  walk(loop_.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::loop || stmt.mark != LoopMark::lanes) return;
    const auto no_blocks = [](LocalId) -> const ArrayType* { return nullptr; };
    for (const WideAccess& access : wide_accesses(loop_.buffers, stmt, no_blocks))
      buffers.insert(access.id);
  });
  if (buffers.empty()) return;
  std::vector<std::string> addresses;
  for (const BufferId buffer : buffers) addresses.push_back(fmt::format("(u64)t{}", buffer));
  line("const bool aligned = (({}) & {}) == 0;", fmt::join(addresses, " | "), wide_bytes_max - 1);
}

std::string CudaDialect::wide_type(const WideAccess& access, std::int64_t count) {
  const std::string_view element = storage_type(access.type);
  const auto bytes = count * static_cast<std::int64_t>(size_of(access.type));
  wide_.insert(fmt::format("WIDE({}, {}, {})\n", element, count, bytes));
  return fmt::format("{}x{}", element, count);
}

// Pieces are counted, not elements: NVRTC makes a single access only where it sees the alignment.
void CudaDialect::begin_wide(std::size_t k, const WideAccess& access, std::int64_t count) {
  const std::string type = wide_type(access, count);
  if (!access.loads) return line("{} w{};", type, k);
  const Made at = index(access.piece(count));
  const char* const keeps = access.stores ? "" : "const ";
  if (access.in_block) {
    line("{}{} w{} = SHARED_LOAD({}, x{}, {});", keeps, type, k, type, access.id, at);
  } else {
    line("{}{} w{} = load_{}(t{}, {}, aligned);", keeps, type, k, type, access.id, at);
  }
}

void CudaDialect::end_wide(std::size_t k, const WideAccess& access, std::int64_t count) {
  if (!access.stores) return;
  const Made at = index(access.piece(count));
  const std::string type = wide_type(access, count);
  if (access.in_block) {
    line("SHARED_STORE({}, x{}, {}, w{});", type, access.id, at, k);
  } else {
    line("store_{}(t{}, {}, w{}, aligned);", type, access.id, at, k);
  }
}

/// A buffer with an embedded address still has a parameter word.
void CudaDialect::parameter(const KernelSource& kernel, std::size_t k) {
  const BufferDecl& decl = loop_.buffers[k];
  if (embedded_address(kernel, k)) return line("  const u64 unused{},", k);
  const bool read_only = decl.role == Role::input || decl.role == Role::merge;
  line("  GLOBAL {}{}* const t{},  // {}{}", read_only ? "const " : "",
       storage_type(decl.type.dtype), k, decl.type.to_string(),
       k < kernel.names.buffers.size() ? " " + comment_text(kernel.names.buffers[k]) : "");
}

/// Threads that wait for each other end together, at a check that all of them run. A thread in a
/// loop of its own leaves only that loop.
void CudaDialect::check_stop() {
  if (meets_ && in_thread_) {
    if (thread_loops_ == 0) return;
    line("if (*stop != 0) {{");
    inner([&] {
      line("status->code = {};", HEDDLE_KERNEL_STOPPED);
      line("break;");
    });
    return;
  }
  line("if ({}) {{", meets_ ? "__syncthreads_or(*stop != 0)" : "*stop != 0");
  inner([&] {
    line("status->code = {};", HEDDLE_KERNEL_STOPPED);
    if (group_ != nullptr && !group_->copies.empty()) line("wait_for_copies();");
    line("return;");
  });
}

void CudaDialect::begin_groups(std::span<const Stmt* const> loops) {
  line("for (u64 group = blockIdx.x; group < {}ull; group += gridDim.x) {{", product(loops));
}

/// Neighbouring groups have neighbouring iterations of the last loop.
void CudaDialect::bind_groups(std::span<const Stmt* const> loops) {
  if (loops.size() > 1) line("u64 rest = group;");
  for (std::size_t k = loops.size(); k-- > 0;) {
    const Stmt& loop = *loops[k];
    const std::string of = loops.size() == 1 ? "group"
                           : k == 0          ? "rest"
                                             : fmt::format("rest % {}ull", count_of(loop));
    line("const i64 {} = {} + (i64)({});", variable(loop.var), number(loop.from), of);
    if (k > 0) line("rest /= {}ull;", count_of(loop));
  }
}

void CudaDialect::meet(std::span<const Stmt* const> loops) {
  const bool in_first_warp = product(loops) <= warp_threads;
  const GroupTouch next = touched_by(loops.back()->body, group_->shared);
  const bool in_warp = in_first_warp && !beyond_first_warp_ && !touched_all_;
  const GroupTouch& before = in_warp ? since_warp_barrier_ : since_barrier_;
  if (touched_all_ ? !next.is_empty() : meet_in_memory(before, next)) {
    if (in_warp) {
      wait_for_copies();
      line("__syncwarp();");
      since_warp_barrier_ = {};
    } else {
      meet_all();
    }
  }
  since_barrier_.add(next);
  since_warp_barrier_.add(next);
  beyond_first_warp_ = beyond_first_warp_ || !in_first_warp;
}

void CudaDialect::meet_all() {
  wait_for_copies();
  line("__syncthreads();");
  since_barrier_ = {};
  since_warp_barrier_ = {};
  touched_all_ = beyond_first_warp_ = false;
}

void CudaDialect::touch_all(bool copies) {
  touched_all_ = beyond_first_warp_ = true;
  copies_go_on_ = copies_go_on_ || copies;
}

void CudaDialect::wait_for_copies() {
  if (copies_go_on_) line("wait_for_copies();");
  copies_go_on_ = false;
}

void CudaDialect::copy_wide(const WideAccess& to, const WideAccess& from, std::int64_t count) {
  const std::string type = wide_type(from, count);
  const Made place = index(to.piece(count)), source = index(from.piece(count));
  line("if (aligned) SHARED_COPY({}, x{}, {}, t{}, {});", type, to.id, place, from.id, source);
  line("for (i64 at = 0; !aligned && at < {}; ++at)", count);
  line("  SHARED_COPY({0}, x{1}, {2} * ({3}) + at, t{4}, {2} * ({5}) + at);", c_type(to.type),
       to.id, count, place, from.id, source);
}

void CudaDialect::accumulate(Op op, DType type, BufferId buffer, const Made& at,
                             const Made& value) {
  const char* const function = op == Op::min   ? "atomicMin"
                               : op == Op::max ? "atomicMax"
                                               : "atomicAdd";
  if (type == DType::i64)  // CUDA adds words of 64 bits without sign
    return line("{}((GLOBAL u64*)&t{}[{}], (u64)({}));", function, buffer, at, value);
  line("{}(&t{}[{}], {});", function, buffer, at, c_bare(value));
}

void CudaDialect::begin_threads(std::span<const Stmt* const> loops) {
  line("if (threadIdx.x < {}u) {{", product(loops));
}

void CudaDialect::bind_threads(std::span<const Stmt* const> loops) {
  std::uint64_t inside = 1;
  for (std::size_t k = loops.size(); k-- > 0;) {
    const Stmt& loop = *loops[k];
    std::string at = inside == 1 ? "threadIdx.x" : fmt::format("threadIdx.x / {}u", inside);
    if (k > 0) at = fmt::format("({}) % {}u", at, count_of(loop));
    line("const i64 {} = {} + (i64)({});", variable(loop.var), number(loop.from), at);
    inside *= count_of(loop);
  }
}

void CudaDialect::zero_buffer(BufferId buffer) {
  each_element(*loop_.buffers[buffer].type.num_elements(),
               [&](const Made& at) { store(buffer, at, "0"); });
}

void CudaDialect::declare_array(LocalId local, const ArrayType& type, const Made& start) {
  const std::int64_t count = *type.num_elements();
  if (in_thread_ || !is_shared(local)) {
    line("{} x{}[{}];  // {}", c_type(type.dtype), local, count, type.to_string());
    line("#pragma unroll");
    line("for (i64 at = 0; at < {}; ++at) x{}[at] = {};", count, local, c_bare(start));
    return;
  }
  if (touched_all_) meet_all();
  since_barrier_.writes.insert(local);
  beyond_first_warp_ = true;
  line("SHARED({}, x{}, {});  // {}", c_type(type.dtype), local, count, type.to_string());
  line("for (u32 at = threadIdx.x; at < {}u; at += blockDim.x) x{}[at] = {};", count, local,
       c_bare(start));
}

}  // namespace heddle::jit
