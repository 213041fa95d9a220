// Scratch that shares bytes, in one kernel: compilers may move what a loop loads past what a later
// one stores only where both know that this changes nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "jit/code/memory_plan.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/toolchain/compiler.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/jit_compile/kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

/// A chain of small arrays, each made of the one before, or of the one before that too.
Lowered random_chain(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::int64_t sizes[] = {1, 3, 4, 8, 16, 33};
  const std::int64_t n = sizes[random() % std::size(sizes)];
  Program program("chain");
  std::vector<Tensor> chain{Tensor("x", f32, {n, n})};
  const std::size_t length = 3 + random() % 6;
  for (std::size_t k = 1; k <= length; ++k) {
    const Tensor& before = chain[k - 1];
    const Tensor& older = chain[k - 1 - random() % std::min<std::size_t>(k, 2)];
    Tensor next("t" + std::to_string(k), random() % 4 == 0 ? f64 : f32, {n, n});
    next.set_mode(k == length ? MemoryMode::on_device : MemoryMode::local);
    const Index i("i", n), j("j", n), l("l", n);
    switch (random() % 4) {
      case 0:
        program << (next(i, j) = sum(before(i, l) * older(l, j)));
        break;
      case 1:
        program << (next(i, j) = before(j, i) - older(i, j));
        break;
      case 2:
        program << (next(i, j) = before(n - 1 - i, j) + 0.5 * older(i, n - 1 - j));
        break;
      default:
        program << (next(i, j) = maximum(before(i, l)));
        break;
    }
    chain.push_back(next);
  }
  Lowered lowered = optimize(lower(program));
  return seed % 2 == 0 ? schedule(std::move(lowered), native_target()) : lowered;
}

struct Chain {
  Lowered lowered;
  Signature signature;
  MemoryPlan plan;
  std::size_t bytes = 0;  ///< where each has its own
};

Chain make_chain(std::uint64_t seed) {
  Chain subject{random_chain(seed), {}, {}};
  subject.signature = make_signature(subject.lowered);
  std::vector<std::uint32_t> entries(subject.signature.entries.size());
  std::iota(entries.begin(), entries.end(), 0U);
  const Step step = KernelStep{subject.lowered.verified, nullptr, std::move(entries), {}};
  subject.plan = plan_scratch(subject.signature, {&step, 1});
  for (const SignatureEntry& entry : subject.signature.entries) {
    const auto bytes = static_cast<std::size_t>(*entry.type.num_bytes());
    if (entry.role == Role::scratch) subject.bytes += (bytes + 63) / 64 * 64;
  }
  return subject;
}

/// All buffers after a run; scratch shares bytes, or does not.
std::vector<HostArray> run(const Chain& subject, heddle_kernel_function function, bool shares,
                           std::uint64_t seed) {
  const HostArray scratch({u8, {static_cast<std::int64_t>(subject.plan.bytes)}});
  std::vector<HostArray> arrays;
  std::vector<heddle_kernel_buffer> buffers;
  for (std::size_t k = 0; k < subject.signature.entries.size(); ++k) {
    const SignatureEntry& entry = subject.signature.entries[k];
    arrays.push_back(random_array(entry.type, seed));
    void* place = arrays.back().data();
    if (shares && entry.role == Role::scratch)
      place = static_cast<std::byte*>(scratch.data()) + subject.plan.offsets[k];
    buffers.push_back({place, arrays.back().num_bytes()});
  }
  call_kernel(function, buffers);
  return arrays;
}

// D2, J9: the same bits as where each array has bytes of its own, by both compilers as they are
// used
TEST(SharedScratchTest, SharingBytesChangesNothing) {
  const std::uint64_t count = std::min<std::uint64_t>(test::seeds(60), 60);
  CompileUnit unit;
  unit.name = "chains";
  std::vector<Chain> subjects;
  std::size_t shared = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    subjects.push_back(make_chain(seed));
    if (subjects.back().plan.bytes < subjects.back().bytes) ++shared;
    unit.kernels.push_back({.name = "chain" + std::to_string(seed),
                            .loop = subjects.back().lowered.verified,
                            .names = {},
                            .addresses = {}});
  }
  EXPECT_GT(shared, count / 3);
  for (const auto& compiler : {make_gccjit_compiler({}), make_cc_compiler({})}) {
    const auto module = loaded(*compiler->compile(unit));
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      const auto apart = run(subjects[k], module->host_function(k), false, k);
      const auto sharing = run(subjects[k], module->host_function(k), true, k);
      for (std::size_t b = 0; b < apart.size(); ++b) {
        if (subjects[k].signature.entries[b].role == Role::scratch) continue;
        ASSERT_EQ(std::memcmp(apart[b].data(), sharing[b].data(), apart[b].num_bytes()), 0)
            << compiler->name() << ", chain " << k + 1 << "\n"
            << print(subjects[k].lowered.loop);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::jit::testing
