// Loops as groups of threads: what they become, and that they compute the same.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "jit/code/kernels.hpp"
#include "jit/emit/cuda.hpp"
#include "jit/loop/group_body.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/cut.hpp"
#include "support/failure.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

const Target gpu = gpu_target(90);

std::string outline(const Block& body) {
  std::string text;
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::comment) continue;
    if (!text.empty()) text += " ";
    if (stmt->kind != StmtKind::loop) {
      text += ".";
      continue;
    }
    const char* const mark = stmt->mark == LoopMark::parallel ? "groups "
                             : stmt->mark == LoopMark::block  ? "threads "
                             : stmt->mark == LoopMark::lanes  ? "at once "
                                                              : "";
    text += fmt::format("{}{}({})", mark, stmt->to - stmt->from, outline(stmt->body));
  }
  return text;
}

/// The loops of a program on a GPU, which compute what they did: "groups 3(threads 256(.))".
std::string scheduled(const Program& program) {
  const Lowered plain = optimize(lower(program));
  const Lowered made = schedule(plain, gpu);
  EXPECT_TRUE(verify(made.loop).ok()) << verify(made.loop).to_string();
  std::vector<HostArray> expected, found;
  for (std::size_t k = 0; k < made.loop.buffers.size(); ++k) {
    if (k < plain.loop.buffers.size())
      expected.push_back(small_numbers(plain.loop.buffers[k].type, k));
    found.push_back(small_numbers(made.loop.buffers[k].type, k));
  }
  interpret(plain.loop, expected);
  interpret(made.loop, found);
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_TRUE(same_elements(expected[k], found[k])) << print(made.loop);
  return outline(made.loop.body);
}

// J9: neighbours on the innermost axis are the threads of a group; what is left of it is groups of
// its own
TEST(GpuGroupsTest, InnermostAxesAreThreads) {
  const Index i, j;
  const Tensor x("x", f32, {700}), y("y", f32, {700}), a("a", f32, {5, 300}), b("b", f32, {5, 300});
  Program one("one"), two("two");
  one << (y(i) = 2 * x(i));
  two << (b(i, j) = 2 * a(i, j));
  const Tensor odd("odd", f32, {5, 301}), more("more", f32, {5, 301});
  Program three("three");
  three << (more(i, j) = 2 * odd(i, j));
  EXPECT_EQ(scheduled(one), "groups 1(threads 175(at once 4(.)))");
  EXPECT_EQ(scheduled(two), "groups 5(threads 75(at once 4(.)))");
  EXPECT_EQ(scheduled(three), "groups 5(threads 256(.)) groups 5(threads 45(.))");
}

// J9: a thread takes 16 bytes of neighbours where they begin at multiples of 16 bytes in all rows,
// and are the only ones that it takes of a buffer that is written
TEST(GpuGroupsTest, ThreadsTakeNeighboursAtOnce) {
  const auto outline_of = [](DType type, DType result, std::int64_t row, std::int64_t from,
                             const auto& make) {
    const Index i, j(row - from);
    const Tensor a("a", type, {3, row}), b("b", result, {3, row});
    Program program("program");
    program << (b(i, j) = make(a, i, j));
    return scheduled(program);
  };
  const auto same = [](const Tensor& a, const Index& i, const Index& j) { return a(i, j); };
  const auto later = [](const Tensor& a, const Index& i, const Index& j) { return a(i, j + 1); };
  EXPECT_EQ(outline_of(f32, f32, 130, 2, same), "groups 3(threads 128(.))") << "130 floats a row";
  EXPECT_EQ(outline_of(f32, f32, 132, 0, same), "groups 3(threads 33(at once 4(.)))");
  EXPECT_EQ(outline_of(f32, f32, 132, 1, same),
            "groups 3(threads 32(at once 4(.))) groups 3(threads 3(.))");
  EXPECT_EQ(outline_of(f32, f32, 132, 1, later), "groups 3(threads 131(.))");
  EXPECT_EQ(outline_of(
                f64, f32, 132, 0,
                [](const Tensor& a, const Index& i, const Index& j) { return cast(a(i, j), f32); }),
            "groups 3(threads 66(at once 2(.)))");
  EXPECT_EQ(outline_of(f16, f16, 256, 0, same), "groups 3(threads 32(at once 8(.)))");
  EXPECT_EQ(outline_of(f32, bool_, 128, 0,
                       [](const Tensor& a, const Index& i, const Index& j) { return a(i, j) > 0; }),
            "groups 3(threads 32(at once 4(.)))");
}

// J9: where the innermost axis would leave threads idle, the longest one has them
TEST(GpuGroupsTest, ShortAxesAreNoThreads) {
  const Index i, j;
  const Tensor a("a", f32, {512, 3}), b("b", f32, {512, 3});
  Program program("program");
  program << (b(i, j) = 2 * a(i, j));
  EXPECT_EQ(scheduled(program), "groups 3(groups 2(threads 256(.)))");
}

// J9: a sum whose neighbours are not its terms is one thread's, in its order
TEST(GpuGroupsTest, SumsAcrossRowsStayInOneThread) {
  const Index i, j, k;
  const Tensor a("a", f32, {8, 40}), b("b", f32, {40, 64}), c("c", f32, {8, 64}),
      columns("columns", f32, {64}), few("few", f32, {8, 20}), sums("sums", f32, {8});
  Program product("product"), across("across"), shorter("shorter");
  product << (c(i, j) += a(i, k) * b(k, j));
  EXPECT_EQ(scheduled(product), "groups 8(threads 64(. 40(.) .))");
  across << (columns(j) = sum(b(i, j)));
  EXPECT_EQ(scheduled(across), "groups 1(threads 64(. 40(.) .))");
  shorter << (sums(i) = sum(few(i, j)));
  EXPECT_EQ(scheduled(shorter), "groups 1(threads 8(. 20(.) .))") << "shorter than a warp";
}

// J9: a row is summed by threads next to one another, which then join their sums pairwise; short
// rows are some at a time
TEST(GpuGroupsTest, RowsAreSummedByGroups) {
  const Index i, j;
  const Tensor x("x", f32, {500, 2000}), few("few", f32, {13, 130}), sums("sums", f32, {500}),
      most("most", f32, {13});
  Program program("program"), shorter("shorter");
  program << (sums(i) = sum(x(i, j)));
  const std::string joined =
      " threads 128(.) threads 64(.) threads 32(.) threads 16(.) threads 8(.) threads 4(.) "
      "threads 2(.) threads 1(.)";
  const std::string four = "(. . at once 4(.) 4(.) .)";
  EXPECT_EQ(scheduled(program), "groups 500(. threads 256" + four + " threads 244" + four + joined +
                                    " . threads 1(.) threads 1(.))");
  shorter << (most(i) = maximum(few(i, j)));
  const std::string rows = scheduled(shorter);
  EXPECT_THAT(rows, ::testing::StartsWith("groups 3(. threads 4(threads 64(. 2(.) .))"));
  EXPECT_THAT(rows, ::testing::HasSubstr(" groups 1(. threads 64("));
}

// J9: columns are summed by tiles of neighbouring columns, with eight threads for each column,
// which join their sums pairwise; few long columns are summed in parts, and the parts as rows
TEST(GpuGroupsTest, ColumnsAreSummedByGroups) {
  const Index i, j, b;
  const Tensor x("x", f32, {3, 203, 70}), sums("sums", f32, {3, 70}), most("most", f32, {70}),
      y("y", f32, {2600, 40}), few("few", f32, {40});
  Program program("program"), greatest("greatest"), cut("cut");
  program << (sums(b, j) = sum(x(b, i, j)));
  const auto tile = [](int columns, int turns, int rest) {
    return fmt::format(
        "(. threads 8(threads {0}(. {1}(.) .)) threads {2}(threads {0}(. . .)) threads 4(threads "
        "{0}(.)) threads 2(threads {0}(.)) threads 1(threads {0}(.)) threads {0}(. . .))",
        columns, turns, rest);
  };
  EXPECT_EQ(scheduled(program),
            "groups 3(groups 2" + tile(32, 25, 3) + ") groups 3(groups 1" + tile(6, 25, 3) + ")");
  greatest << (most(j) = maximum(x(1, i, j)));
  EXPECT_THAT(scheduled(greatest), ::testing::StartsWith("groups 2(. threads 8(threads 32("));
  cut << (few(j) = sum(y(i, j)));
  const std::string parts = scheduled(cut);
  EXPECT_THAT(parts,
              ::testing::StartsWith("groups 10(groups 1(. threads 8(threads 32(. 32(.) .))"));
  EXPECT_THAT(parts, ::testing::EndsWith("groups 1(threads 40(. 10(.) .))"));
}

// J9: products of matrices are tiles of results, whose terms a group reads together; what is left
// of each side is tiles of its own
TEST(GpuGroupsTest, ProductsAreTiles) {
  const Index i, j, k;
  const auto product = [&](std::int64_t rows, std::int64_t terms, std::int64_t lanes) {
    const Tensor a("a", f32, {rows, terms}), b("b", f32, {terms, lanes}),
        c("c", f32, {rows, lanes});
    Program program("product");
    program << (c(i, j) += a(i, k) * b(k, j));
    return scheduled(program);
  };
  const std::string each = "threads 16(threads 16(2(at once 2(.))))";
  const std::string load = " threads 16(threads 16(2(.))) threads 16(threads 8(1(at once 4(.))))";
  const std::string sums = " threads 16(threads 16(16(. at once 2(.) . at once 2(.) 2(2(.)))))";
  // The next terms are read before the present ones are multiplied, in pairs of blocks.
  EXPECT_EQ(product(32, 32 * 3, 32), "groups 1(groups 1(. " + each + " . . . ." + load + " 2(" +
                                         (load + sums + load + sums).substr(1) + ")" + load + sums +
                                         sums + " " + each + "))");
  EXPECT_EQ(product(32, 16, 32), "groups 1(groups 1(. " + each + " . . 1(" +
                                     (load + sums).substr(1) + ") " + each + "))");
  const std::string odd = product(75, 20, 40);
  EXPECT_THAT(odd, ::testing::StartsWith("groups 2(groups 1(. " + each));
  EXPECT_THAT(odd, ::testing::HasSubstr("threads 11(threads 8("));
  EXPECT_THAT(product(8, 100, 100), ::testing::Not(::testing::HasSubstr("threads 16(threads 16")));
}

// J9: what groups share in all nests of a kernel fits their memory
TEST(GpuGroupsTest, KernelsAreCutWhereGroupsHaveNoMoreMemory) {
  const Index i, j;
  const Tensor x("x", f64, {63, 63}), z("z", f64, {63, 63}), y("y", f64, {63, 63}),
      w("w", f64, {63, 63});
  Program program("turned");
  program << (y(i, j) = x(j, i) * w(i, j) + z(j, i));
  const Lowered made = schedule(optimize(lower(program)), gpu);
  std::int64_t all = 0;
  for (const StmtPtr& nest : made.loop.body) all += group_needs(nest).shared_bytes;
  EXPECT_GT(all, group_bytes_max);
  std::int64_t kernels = 0;
  for (const KernelPart& part : cut_kernels(made.loop, kernel_nodes_max, ScratchOf::all_parts)) {
    std::int64_t bytes = 0;
    for (const StmtPtr& nest : part.loop.body) bytes += group_needs(nest).shared_bytes;
    EXPECT_LE(bytes, group_bytes_max);
    ++kernels;
  }
  EXPECT_EQ(kernels, 2);
}

// J9: users steer a GPU's schedules as those of CPUs
TEST(GpuGroupsTest, SchedulesCanBeSteered) {
  const Index i, j, k;
  const Tensor a("a", f32, {64, 64}), b("b", f32, {64, 64}), c("c", f32, {64, 64}),
      sums("sums", f32, {64});
  Program product("product"), rows("rows"), turned("turned");
  product << (c(i, j) += a(i, k) * b(k, j));
  rows << (sums(i) = sum(a(i, j)));
  turned << (c(i, j) = a(j, i));
  const auto text = [](const Program& program, std::vector<ScheduleStep> without,
                       std::optional<ContractionTile> tile = {}) {
    return print(schedule(optimize(lower(program)), gpu, without, tile).loop);
  };
  using ::testing::HasSubstr;
  using ::testing::Not;
  EXPECT_THAT(text(product, {}), HasSubstr("tiles of 2 x 2 a thread"));
  EXPECT_THAT(text(product, {ScheduleStep::contraction}), Not(HasSubstr("tiles")));
  EXPECT_THAT(text(rows, {ScheduleStep::reduction}), Not(HasSubstr("rows:")));
  EXPECT_THAT(text(turned, {ScheduleStep::transpose}), Not(HasSubstr("tiles")));
  EXPECT_THAT(text(product, {}, ContractionTile{3, 1, 5}),
              HasSubstr("tiles of 3 x 1 a thread, 5 terms"));
  const Tensor few("few", f32, {20, 64}), less("less", f32, {20, 64});
  Program small("small");
  small << (less(i, j) += few(i, k) * b(k, j));
  EXPECT_THAT(text(small, {}, ContractionTile{24, 4, 8}), HasSubstr("tiles of 24 x 4 a thread"))
      << "more than there are rows";
  const auto refused = [&](const ContractionTile& tile) {
    return failure([&] { static_cast<void>(text(product, {}, tile)); }).to_string();
  };
  EXPECT_THAT(refused({16, 16}), HasSubstr("fit 200 registers"));
  EXPECT_THAT(refused({8, 8, 1000}), HasSubstr("fit the memory of a group"));
  EXPECT_THAT(refused({1'000'000'000'000, 1}), HasSubstr("choose fewer"));
  EXPECT_THAT(refused({1, 1, 1'000'000'000'000}), HasSubstr("choose fewer"));
}

// J9: what is read across the memory that is written goes through tiles that a group shares
TEST(GpuGroupsTest, TransposesAreTiles) {
  const Index i, j;
  const Tensor x("x", f32, {64, 40}), y("y", f32, {40, 64});
  Program program("transpose");
  program << (y(i, j) = x(j, i) * 2);
  EXPECT_EQ(scheduled(program),
            "groups 2(groups 1(. threads 8(threads 32(4(.))) threads 8(threads 32(4(.))))) "
            "groups 2(groups 1(. threads 32(threads 8(1(.))) threads 8(threads 32(1(.)))))");
}

// J9: statements on the rows of one matrix are one nest, where there are rows for all of a GPU
TEST(GpuGroupsTest, StatementsOnRowsAreOneNest) {
  const Index i, j;
  const auto softmax = [&](std::int64_t rows) {
    const Tensor x("x", f32, {rows, 100}), y("y", f32, {rows, 100}), most("most", f32, {rows}),
        sums("sums", f32, {rows});
    Program program("softmax");
    program << (most(i) = maximum(x(i, j))) << (sums(i) = sum(exp(x(i, j) - most(i))))
            << (y(i, j) = exp(x(i, j) - most(i)) / sums(i));
    const Lowered made = schedule(optimize(lower(program)), gpu);
    std::size_t nests = 0;
    for (const StmtPtr& stmt : made.loop.body) nests += stmt->kind == StmtKind::loop ? 1 : 0;
    EXPECT_TRUE(shared_out_loops_share_nothing(made.loop.body.back()));
    return nests;
  };
  EXPECT_EQ(softmax(256), 1u);
  EXPECT_GE(softmax(8), 3u);
}

// J9: sums of so many terms that one group would take long are cut, and their parts summed
TEST(GpuGroupsTest, LongSumsAreCut) {
  const Index i;
  const Tensor x("x", f32, {100'000}), all("all", f32, {});
  Program program("program");
  program << (all() = sum(x(i)));
  const std::string made = scheduled(program);
  EXPECT_THAT(made, ::testing::StartsWith("groups 23(. threads 256("));
  EXPECT_THAT(made, ::testing::EndsWith("threads 1(.) threads 1(.))"));
}

// J9: a scalar that statements share is in memory where one of them is work for many groups, or
// where they are no rows of a group: each statement is shared out then, in a kernel of its own
TEST(GpuGroupsTest, SharedScalarsAreInMemory) {
  const auto outline_of = [](std::int64_t rows, std::int64_t row) {
    const Index i, j;
    Tensor all("all", f32, {});
    all.set_mode(MemoryMode::virtual_);
    const Tensor x("x", f32, {rows, row}), y("y", f32, {rows, row});
    Program program("program");
    program << (all() = sum(x(i, j))) << (y(i, j) = x(i, j) / all());
    const Lowered made = schedule(optimize(lower(program)), gpu);
    std::size_t shared_out = 0;
    for (const KernelPart& part : cut_kernels(made.loop, kernel_nodes_max, ScratchOf::all_parts))
      shared_out += launch_shape(part.loop).threads[0] > 1 ? 1 : 0;
    return fmt::format("{}: {}", shared_out, scheduled(program));
  };
  EXPECT_EQ(outline_of(4, 20), "1: . 4(20(.)) . groups 4(threads 20(.))");
  const std::string large = outline_of(300, 400);
  EXPECT_THAT(large, ::testing::StartsWith("2: groups 1(. threads 128("));
  EXPECT_THAT(large, ::testing::EndsWith(" groups 300(threads 100(at once 4(.)))"));
  const std::string small = outline_of(4, 100);
  EXPECT_THAT(small, ::testing::StartsWith("1: groups 1(. threads 32("));
  EXPECT_THAT(small, ::testing::EndsWith(" threads 4(100(.)))")) << "of the same group";
}

// J9: of two axes of which the outer one has an order, the inner one is shared out
TEST(GpuGroupsTest, OrderedAxesAreGoneThroughByEachThread) {
  const Index i(29), j, k(63);
  const Tensor a("a", f32, {30, 64});
  Program running("running");
  running << (a(i + 1, j) = a(i, j) + a(i + 1, j));
  EXPECT_EQ(scheduled(running), "groups 1(threads 64(29(.)))");
  const Tensor chain("chain", f32, {64});
  Program ordered("ordered");
  ordered << (chain(k + 1) = chain(k) + 1);
  EXPECT_EQ(scheduled(ordered), "63(.)") << "one thread";
}

// J9: whatever programs are
TEST(GpuGroupsTest, RandomProgramsComputeTheSame) {
  std::size_t groups = 0;
  for (const auto make : {random_rows, random_transpose, random_contraction}) {
    for (std::uint64_t seed = 1; seed <= test::seeds(60); ++seed) {
      const Program program = make(seed);
      if (scheduled(program).find("groups") != std::string::npos) ++groups;
    }
  }
  EXPECT_GT(groups, test::seeds(60) * 2);
}

/// What is wrong with a kernel of that body; "ok": nothing.
std::string verdict(const std::string& body) {
  return failure([&] {
           static_cast<void>(parsed(
               "buffer t0 input f32[8,8]\nbuffer t1 output f32[8,8]\nkernel {\n" + body + "}\n"));
         })
      .to_string();
}

// J4: block loops are in parallel ones, with nothing but each other and what they share
TEST(GpuGroupsTest, BlockLoopsHavePlaces) {
  using ::testing::HasSubstr;
  const std::string store = "t1[i0, i1] = t0[i0, i1]\n";
  EXPECT_EQ(verdict("parallel i0 in 0..8 { block i1 in 0..8 { " + store + "} }\n"), "ok");
  EXPECT_EQ(verdict("parallel i0 in 0..8 { block i1 in 0..8 { " + store +
                    "} block i2 in 0..8 { t1[i0, i2] = t0[i0, i2] } }\n"),
            "ok");
  EXPECT_THAT(verdict("for i0 in 0..8 { block i1 in 0..8 { " + store + "} }\n"),
              HasSubstr("in no parallel loop of the top level"));
  EXPECT_THAT(
      verdict("parallel i0 in 0..8 { t1[i0, 0] = 1:f32 block i1 in 0..8 { " + store + "} }\n"),
      HasSubstr("besides block loops"));
  EXPECT_THAT(verdict("for i0 in 0..8 { parallel i1 in 0..1 { block i2 in 0..8 { t1[i0, i2] = "
                      "t0[i0, i2]\n} } }\n"),
              HasSubstr("in no parallel loop of the top level"));
  EXPECT_THAT(verdict("parallel i0 in 0..8 { block i1 in 0..8 { t1[i0, 0] = t0[i0, i1] } }\n"),
              HasSubstr("block loop i1 writes elements of t1 that other iterations touch"));
  // Blocks are the group's: written by one thread and read by another in another loop.
  const std::string block = "let x0: f32[8] = 0:f32\nblock i1 in 0..8 { x0[i1] = t0[i0, i1] }\n";
  const auto group = [](const std::string& body) {
    return verdict("parallel i0 in 0..8 {\n" + body + "}\n");
  };
  EXPECT_EQ(group(block + "block i2 in 0..8 { t1[i0, i2] = x0[7 - i2] }\n"), "ok");
  EXPECT_EQ(group(block + "for i3 in 0..3 { block i2 in 0..4 { x0[i2] = x0[i2 + 4] } }\n"), "ok");
  EXPECT_EQ(group("block i1 in 0..2 { block i2 in 0..4 { t1[i0, 4*i1 + i2] = 1:f32 } }\n"), "ok");
  EXPECT_THAT(group(block + "block i2 in 0..7 { x0[i2] = x0[i2 + 1] }\n"),
              HasSubstr("block loop i2 writes elements of x0 that other iterations touch"));
  EXPECT_THAT(group("let x0: f32[8] = 0:f32\nblock i1 in 0..8 { x0[3] = t0[i0, i1] }\n"),
              HasSubstr("block loop i1 writes elements of x0 that other iterations touch"));
  // Pieces of four neighbours, twice, 32 elements apart; or not apart enough.
  const auto pieces = [&](const char* neighbours, const char* distance) {
    return group(
        fmt::format("let x0: f32[72] = 0:f32\nblock i1 in 0..8 {{ for i2 in 0..2 {{ for i3 "
                    "in 0..{} {{ x0[4*i1 + i3 + {}*i2] = 1:f32 }} }} }}\n",
                    neighbours, distance));
  };
  EXPECT_EQ(pieces("4", "32"), "ok");
  EXPECT_THAT(pieces("5", "32"), HasSubstr("that other iterations touch"));
  EXPECT_THAT(pieces("4", "31"), HasSubstr("that other iterations touch"));
  EXPECT_THAT(group("let x0: f32 = 0:f32\nblock i1 in 0..8 { t1[i0, i1] = x0 }\n"),
              HasSubstr("besides block loops"));
  EXPECT_THAT(
      group("block i1 in 0..8 { block i2 in 0..2 { t1[i0, i1] = 1:f32 } t1[i0, i1] = 2:f32 }\n"),
      HasSubstr("has others in it"));
  EXPECT_THAT(group("block i1 in 0..0 { t1[i0, i1] = 1:f32 }\n"), HasSubstr("no threads"));
  EXPECT_THAT(group("let x0: f32[20000] = 0:f32\nblock i1 in 0..8 { x0[7 - i1] = 1:f32 }\n"),
              HasSubstr("share blocks of 80000 bytes; there is room for 49152"));
  EXPECT_THAT(group("block i1 in 0..64 { block i2 in 0..32 { let x0: f32 = 0:f32 } }\n"),
              HasSubstr("more than 1024 threads"));
}

/// The kernel of groups with that body: its barriers, filled blocks and loops, in order.
std::string steps_of(const std::string& body) {
  CompileUnit unit{.name = "unit", .kernels = {}};
  unit.kernels.push_back(
      {.name = "k",
       .loop = VerifiedLoop(parsed("buffer t0 input f32[8,64]\nbuffer t1 output f32[8,64]\n"
                                   "kernel {\nparallel i0 in 0..8 {\n" +
                                   body + "}\n}\n")),
       .names = {}});
  std::istringstream lines(emit_cuda(unit, gpu));
  std::string steps;
  for (std::string line; std::getline(lines, line);) {
    const auto tell = [&](const char* start, const char* step) {
      if (line.find(start) != std::string::npos) steps += step;
    };
    tell("    __syncthreads();", "barrier ");
    tell("    __syncwarp();", "warp ");
    tell("    SHARED(", "fill ");
    tell("    for (i64 i", "loop ");
    tell("    if (threadIdx.x < ", "threads ");
    tell("  SHARED_COPY(", "copy ");
    tell("if (aligned) SHARED_COPY(", "copies ");
    tell("    wait_for_copies();", "wait ");
  }
  return steps;
}

// B4: threads wait before a block that they share is filled again, before it is read, and before
// what is read is written again: by the next group or iteration. Threads of one warp wait for each
// other alone, where no other thread has worked since all waited
TEST(GpuGroupsTest, BarriersAreAroundWhatIsShared) {
  const std::string block =
      "let x0: f32[64] = 0:f32\nblock i2 in 0..64 { x0[i2] = t0[i0, i2] }\n"
      "block i3 in 0..64 { t1[i0, i3] = x0[63 - i3] }\n";
  EXPECT_EQ(steps_of(block), "barrier fill barrier threads copy wait barrier threads ");
  EXPECT_EQ(steps_of("for i1 in 0..3 { " + block + "}\n"),
            "loop wait barrier fill barrier threads copy wait barrier threads ");
  EXPECT_EQ(steps_of("for i1 in 0..3 { block i2 in 0..8 { t1[i0, i2] = t0[i0, i2] } }\n"),
            "loop barrier threads ");
  const std::string half =
      "let x0: f32[64] = 0:f32\nblock i2 in 0..64 { x0[i2] = t0[i0, i2] }\n"
      "block i3 in 0..32 { x0[i3] = add.f32(x0[i3], x0[i3 + 32]) }\n"
      "block i4 in 0..16 { x0[i4] = add.f32(x0[i4], x0[i4 + 16]) }\n"
      "block i5 in 0..64 { t1[i0, i5] = x0[0] }\n";
  EXPECT_EQ(steps_of(half),
            "barrier fill barrier threads copy wait barrier threads warp threads barrier threads ");
}

// B4: threads go on without waiting where what they touch next is something else. All threads wait
// before one beyond the first warp reads what the first warp wrote, also long before
TEST(GpuGroupsTest, ThreadsWaitOnlyWhereMemoryMeets) {
  const std::string blocks = "let x0: f32[64] = 0:f32\nlet x1: f32[64] = 0:f32\n";
  EXPECT_EQ(
      steps_of(blocks + "block i2 in 0..64 { x0[i2] = t0[i0, i2] }\n"
                        "block i3 in 0..64 { x1[i3] = t0[i0, 63 - i3] }\n"
                        "block i4 in 0..64 { t1[i0, i4] = add.f32(x0[63 - i4], x1[63 - i4]) }\n"),
      "barrier fill fill barrier threads copy threads copy wait barrier threads ");
  EXPECT_EQ(steps_of("block i2 in 0..64 { t1[i0, i2] = t0[i0, i2] }\n"
                     "block i3 in 0..64 { t1[i0, i3] = add.f32(t1[i0, i3], 1:f32) }\n"),
            "threads barrier threads ");
  EXPECT_EQ(steps_of(blocks + "block i2 in 0..16 { x0[i2] = add.f32(t0[i0, i2], 1:f32) }\n"
                              "block i3 in 0..16 { x1[i3] = x0[15 - i3] }\n"
                              "block i4 in 0..16 { x1[i4 + 16] = x1[i4] }\n"
                              "block i5 in 0..64 { t1[i0, i5] = x0[63 - i5] }\n"),
            "barrier fill fill barrier threads warp threads warp threads barrier threads ");
}

// B4: copies from buffers to the memory of a group go on until the threads next wait for each
// other, at the latest until the group ends. What is read or written otherwise by the same threads
// is no such copy, nor are copies that a store may overtake
TEST(GpuGroupsTest, CopiesGoOnWhileThreadsWork) {
  const std::string block = "let x0: f32[64] = 0:f32\n";
  const auto work = [&](const std::string& body) {
    return steps_of(block + "block i2 in 0..8 { " + body + " }\n");
  };
  const std::string begin = "barrier fill barrier threads ";
  EXPECT_EQ(work("x0[i2] = t0[i0, i2]"), begin + "copy wait ");
  EXPECT_EQ(work("for i3 in 0..8 { x0[8*i2 + i3] = t0[i0, 8*i3 + i2] }"),
            begin + "loop copy wait ");
  EXPECT_EQ(work("lanes i3 in 0..4 { x0[4*i2 + i3] = t0[i0, 4*i2 + i3] }"),
            begin + "copies copy wait ")
      << "at once, or else element by element";
  EXPECT_EQ(work("for i3 in 0..2 { x0[i2] = t0[i0, i2 + i3] }"), begin + "loop ") << "twice";
  EXPECT_EQ(work("x0[i2] = t0[i0, i2]\nx0[i2 + 8] = t0[i0, i2]"), begin) << "twice";
  EXPECT_EQ(work("x0[i2] = t0[i0, i2]\nx0[i2] = add.f32(x0[i2], 1:f32)"), begin);
  EXPECT_EQ(work("x0[i2] = t0[i0, i2]\nt1[i0, i2] = 1:f32"), begin);
  EXPECT_EQ(work("x0[i2] = mul.f32(t0[i0, i2], t0[i0, i2])"), begin);
}

// J9: as many groups and threads as a kernel has use for
TEST(GpuGroupsTest, LaunchesHaveAShape) {
  const Index i, j;
  const Tensor x("x", f32, {7, 701}), y("y", f32, {7, 701}), one("one", f32, {});
  Program program("program"), single("single");
  program << (y(i, j) = 2 * x(i, j));
  const LaunchShape shape = launch_shape(schedule(optimize(lower(program)), gpu).loop);
  EXPECT_EQ(shape.groups[0], 14u);
  EXPECT_EQ(shape.threads[0], 256u);
  single << (one() = 1);
  EXPECT_EQ(launch_shape(schedule(optimize(lower(single)), gpu).loop), LaunchShape());
}

// S12: kernels of long loops look whether they are to stop, wherever the long loop is
TEST(GpuGroupsTest, LongKernelsLookWhetherToStop) {
  const auto text = [](std::int64_t extent) {
    const Index i, j, k;
    const Tensor a("a", f32, {extent, extent}), b("b", f32, {extent, extent}),
        c("c", f32, {extent, extent});
    Program program("product");
    program << (c(i, j) += a(i, k) * b(k, j));
    const Lowered made = schedule(optimize(lower(program)), gpu);
    CompileUnit unit{.name = "unit", .kernels = {}};
    unit.kernels.push_back({.name = "k", .loop = made.verified, .names = {}});
    return emit_cuda(unit, gpu);
  };
  const std::string look = "*stop != 0)";
  EXPECT_THAT(text(32), ::testing::Not(::testing::HasSubstr(look)));
  EXPECT_THAT(text(2048), ::testing::HasSubstr(look));
  const std::string longest = text(16'384);
  EXPECT_THAT(longest, ::testing::HasSubstr(look));
  // No thread ends before its copies.
  const std::size_t between = longest.find(look, longest.find("SHARED_COPY(f32, x"));
  ASSERT_NE(between, std::string::npos);
  EXPECT_LT(longest.find("wait_for_copies();", between), longest.find("return;", between));
}

// J5: a GPU is a target of its own, in text too
TEST(GpuGroupsTest, TargetsHaveAText) {
  EXPECT_TRUE(gpu.to_string().starts_with("sm_90 ")) << gpu.to_string();
  EXPECT_EQ(Target::parse(gpu.to_string()), gpu);
  EXPECT_NE(Target::parse(gpu_target(80).to_string()), gpu);
}

}  // namespace
}  // namespace heddle::jit::testing
